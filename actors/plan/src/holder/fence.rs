//! A fence: stop, let updates end, say what is here.

use super::face::{HolderCommand, SlotCommand};
use super::slots::Use;
use super::{Holder, Phase};
use crate::ids::Generation;
use crate::protocol::{FromNode, Inventory};
use crate::rules::Breach;

impl Holder {
    pub(super) fn fence(&mut self, generation: Generation, flushed: u64, out: &mut Vec<HolderCommand>) {
        if generation < self.seen {
            // Refused, but its coordinator has to learn that it is behind.
            let (seen, adopted) = (self.seen, self.adopted);
            let (holdings, entries) = (Vec::new(), Vec::new());
            let inventory = Inventory { generation, seen, adopted, holdings, entries, in_hand: None };
            out.push(HolderCommand::Tell(FromNode::Inventory(inventory)));
            return;
        }
        if generation == self.seen {
            match self.phase {
                Phase::Waiting => self.answer(self.seen, out),
                Phase::Fenced { .. }
                | Phase::Settling(_)
                | Phase::Moving(_)
                | Phase::Ready(_)
                | Phase::Running(..)
                | Phase::Released => {}
            }
            return;
        }
        let before = std::mem::replace(&mut self.seen, generation);
        self.phase = Phase::Fenced { before };
        self.asks.retain(|ask| ask.generation >= generation);
        self.served.clear();
        out.push(HolderCommand::Stop { generation });
        for (_, slot) in self.slots.iter_mut() {
            if let Use::Read(_) = slot.use_ {
                slot.use_ = Use::Idle;
            }
        }
        if self.rules.breaks(Breach::PreparedDroppedByFence) {
            self.drop_gradients(out);
        }
        self.forget(flushed);
        if self.rules.breaks(Breach::FenceAnsweredMidUpdate) {
            self.phase = Phase::Waiting;
            self.answer(before, out);
        }
        self.updates_over(out);
    }

    /// Goes on with whatever waits for updates to end, if they have.
    pub(super) fn updates_over(&mut self, out: &mut Vec<HolderCommand>) {
        if self.slots.any_updating() {
            return;
        }
        match std::mem::replace(&mut self.phase, Phase::Waiting) {
            Phase::Fenced { before } => self.answer(before, out),
            Phase::Settling(deploy) => self.become_planned(*deploy, out),
            other @ (Phase::Waiting | Phase::Moving(_) | Phase::Ready(_) | Phase::Running(..) | Phase::Released) => {
                self.phase = other;
            }
        }
    }

    fn answer(&self, before: Generation, out: &mut Vec<HolderCommand>) {
        let inventory = Inventory {
            generation: self.seen,
            seen: before,
            adopted: self.adopted,
            holdings: self.slots.iter().flat_map(|(_, slot)| slot.holdings()).collect(),
            entries: self.entries.values().map(|(entry, _)| (**entry).clone()).collect(),
            in_hand: None,
        };
        out.push(HolderCommand::Tell(FromNode::Inventory(inventory)));
    }

    /// HD-2 (prepared stays): asked for when a step is settled, not when a generation ends.
    pub(super) fn drop_gradients(&mut self, out: &mut Vec<HolderCommand>) {
        let mut slots = Vec::new();
        for (id, slot) in self.slots.iter_mut() {
            // An update that runs keeps the gradient it takes.
            if slot.use_ == Use::Idle && !slot.gradients.is_empty() {
                slot.gradients.clear();
                slots.push(id);
            }
        }
        if !slots.is_empty() {
            out.push(HolderCommand::Slot(SlotCommand::DropGradients { slots }));
        }
    }
}
