//! Stepping: gradients in, records in, updates and weights out.

use std::collections::BTreeSet;

use super::deploy::Adopted;
use super::face::{HolderCommand, MoveCommand, Role, SeatCommand, SlotCommand, SlotId};
use super::persist::Persisting;
use super::slots::{Gradient, Slot, Use};
use super::{Holder, Phase};
use crate::ids::{BlockId, NodeId, PieceId};
use crate::ledger::{LedgerEntry, Version};
use crate::loss_scale::LossScale;
use crate::protocol::{Fill, FromNode, Next, Persist, Prepared};
use crate::rules::Breach;
use crate::schedule::Pass;
use crate::space::{Interval, IntervalSet};

/// What was ordered under the deployment in force, and how far it is.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// The last record taken.
    pub(super) version: Version,
    /// Of the step after it.
    loss_scale: Option<LossScale>,
    /// Passes ordered at `version` and not begun, in order.
    due: Vec<Pass>,
    /// The last version for which a pass was ordered, by pass: an order repeated is an order kept.
    evaluated: Option<u64>,
    trained: Option<u64>,
    /// The last step reported prepared.
    reported: u64,
    /// Fills to send, each once its slot is at the step.
    fills: Vec<(u64, Fill)>,
    /// Fills to get, each with the step it was ordered at: the records after that one will be needed.
    awaited: Vec<(PieceId, u64)>,
    /// Fills ever ordered under this deployment.
    ordered: BTreeSet<(PieceId, NodeId)>,
    /// Pieces to hash or write.
    pub(super) persist: Persisting,
    /// The last persist ordered.
    pub(super) persisted: Option<u64>,
}

impl Run {
    fn new(version: Version, loss_scale: Option<LossScale>) -> Self {
        Self {
            version,
            loss_scale,
            due: Vec::new(),
            evaluated: None,
            trained: None,
            reported: version.step,
            fills: Vec::new(),
            awaited: Vec::new(),
            ordered: BTreeSet::new(),
            persist: Persisting::Nothing,
            persisted: None,
        }
    }

    /// The lowest step after which records are needed for fills under way.
    pub(super) fn lowest_awaited(&self) -> Option<u64> {
        self.awaited.iter().map(|(_, step)| *step).min()
    }

    fn order(&mut self, node: NodeId, adopted: &mut Adopted, next: Next, fills: &[Fill]) {
        let step = self.version.step;
        let (evaluate, train) = match next {
            Next::Hold => (false, false),
            Next::Evaluate => (true, false),
            Next::Train => (false, true),
            Next::EvaluateThenTrain => (true, true),
        };
        if evaluate && self.evaluated != Some(step) {
            self.evaluated = Some(step);
            self.due.push(Pass::Evaluate);
        }
        if train && self.trained != Some(step) {
            self.trained = Some(step);
            self.due.push(Pass::Train);
        }
        for fill in fills {
            if !self.ordered.insert((fill.piece, fill.to)) {
                continue;
            }
            if let Some(receivers) = adopted.receivers.get_mut(&fill.piece) {
                receivers.push((fill.to, step + 1));
            }
            if fill.from == node {
                self.fills.push((step, *fill));
            }
            if fill.to == node && adopted.unfilled.contains(&fill.piece) {
                self.awaited.push((fill.piece, step));
            }
        }
    }
}

impl Holder {
    pub(super) fn start(
        &mut self,
        (version, loss_scale): (Version, Option<LossScale>),
        next: Next,
        fills: &[Fill],
        persist: Option<Persist>,
        out: &mut Vec<HolderCommand>,
    ) {
        match std::mem::replace(&mut self.phase, Phase::Waiting) {
            Phase::Ready(mut adopted) if adopted.version == version => {
                let left_over = self.slots.iter().filter(|(_, slot)| slot.piece.is_none()).map(|(id, _)| id).collect();
                self.free(left_over, out);
                let mut run = Box::new(Run::new(version, loss_scale));
                run.order(self.node, &mut adopted, next, fills);
                self.phase = Phase::Running(adopted, run);
                self.order_persist(persist);
            }
            Phase::Running(mut adopted, mut run) if run.version == version => {
                run.order(self.node, &mut adopted, next, fills);
                self.phase = Phase::Running(adopted, run);
                self.order_persist(persist);
            }
            other @ (Phase::Waiting
            | Phase::Fenced { .. }
            | Phase::Settling(_)
            | Phase::Moving(_)
            | Phase::Ready(_)
            | Phase::Running(..)
            | Phase::Released) => self.phase = other,
        }
        self.advance(out);
    }

    pub(super) fn commit(
        &mut self,
        entry: LedgerEntry,
        next: Next,
        fills: &[Fill],
        persist: Option<Persist>,
        out: &mut Vec<HolderCommand>,
    ) {
        let Phase::Running(_, run) = &self.phase else { return };
        let follows = entry.step == run.version.step + 1 && entry.previous == run.version.chain;
        if !follows {
            if entry.step == run.version.step && self.rules.breaks(Breach::UpdateTwice) {
                self.update_again(entry, out);
            }
            return;
        }
        let loss_scale = entry.loss_scale;
        let (_, version) = self.keep(entry);
        let Phase::Running(adopted, run) = &mut self.phase else { return };
        (run.version, run.loss_scale) = (version, loss_scale);
        run.due.clear();
        run.order(self.node, adopted, next, fills);
        let generation = adopted.generation;
        self.order_persist(persist);
        if self.rules.breaks(Breach::FillCountedEarly) {
            for fill in fills.iter().filter(|fill| fill.to == self.node) {
                let piece = fill.piece;
                out.push(HolderCommand::Tell(FromNode::Filled { generation, piece, version }));
            }
        }
        self.advance(out);
    }

    fn update_again(&mut self, entry: LedgerEntry, out: &mut Vec<HolderCommand>) {
        let same = |slot: &Slot| slot.version.step == entry.step && slot.use_ == Use::Idle;
        let slots: Vec<SlotId> = self.slots.iter().filter(|(_, slot)| same(slot)).map(|(id, _)| id).collect();
        out.push(HolderCommand::Slot(SlotCommand::Apply { entry: std::sync::Arc::new(entry), slots }));
    }

    pub(super) fn gradient(&mut self, step: u64, piece: PieceId, gradient: Gradient, out: &mut Vec<HolderCommand>) {
        let (Phase::Ready(adopted) | Phase::Running(adopted, _)) = &self.phase else { return };
        let Some(id) = self.slots.of_piece(piece) else { return };
        let Some(slot) = self.slots.get_mut(id) else { return };
        if (slot.is_whole() && step <= slot.version.step) || slot.gradients.contains_key(&step) {
            return;
        }
        slot.gradients.insert(step, gradient);
        if slot.role == Role::Owner {
            let receivers = adopted.receivers.get(&piece).into_iter().flatten();
            let to: Vec<NodeId> = receivers.filter(|(_, from)| *from <= step).map(|(node, _)| *node).collect();
            if !to.is_empty() {
                let (generation, Gradient { norm, loss }) = (adopted.generation, gradient);
                let share = MoveCommand::ShareGradient { generation, step, piece, slot: id, to, norm, loss };
                out.push(HolderCommand::Move(share));
            }
        }
        self.advance(out);
    }

    pub(super) fn applied(&mut self, id: SlotId, step: u64, out: &mut Vec<HolderCommand>) {
        let Some((_, version)) = self.entries.get(&step) else { return };
        let Some(slot) = self.slots.get_mut(id) else { return };
        if slot.use_ != Use::Updating(step) {
            return;
        }
        slot.use_ = Use::Idle;
        slot.version = *version;
        slot.gradients.retain(|of, _| *of > step);
        let (role, piece) = (slot.role, slot.piece);
        if let (Phase::Running(adopted, _), Role::Owner, Some(piece)) = (&self.phase, role, piece)
            && let Some(to) = adopted.readers.get(&piece)
        {
            let (generation, to) = (adopted.generation, to.clone());
            out.push(HolderCommand::Move(MoveCommand::Distribute { generation, step, piece, slot: id, to }));
        }
        self.advance(out);
        self.updates_over(out);
    }

    pub(super) fn weights_arrived(&mut self, step: u64, piece: PieceId, out: &mut Vec<HolderCommand>) {
        let (Phase::Moving(adopted) | Phase::Ready(adopted) | Phase::Running(adopted, _)) = &mut self.phase else {
            return;
        };
        if let Some(have) = adopted.weights.get_mut(&piece)
            && have.is_none_or(|have| have < step)
        {
            *have = Some(step);
        }
        self.say_ready(out);
        self.advance(out);
    }

    pub(super) fn fill_arrived(
        &mut self,
        version: Version,
        block: BlockId,
        interval: Interval,
        out: &mut Vec<HolderCommand>,
    ) {
        let (Phase::Ready(adopted) | Phase::Running(adopted, _)) = &mut self.phase else { return };
        let filling = |slot: &Slot| {
            slot.block == block
                && slot.interval == interval
                && slot.piece.is_some_and(|piece| adopted.unfilled.contains(&piece))
        };
        let Some((_, slot)) = self.slots.iter_mut().find(|(_, slot)| filling(slot)) else { return };
        slot.have = IntervalSet::from(interval);
        slot.version = version;
        slot.gradients.retain(|step, _| *step > version.step);
        if let Some(piece) = slot.piece {
            adopted.unfilled.remove(&piece);
            let generation = adopted.generation;
            if let Phase::Running(_, run) = &mut self.phase {
                run.awaited.retain(|(awaited, _)| *awaited != piece);
            }
            out.push(HolderCommand::Tell(FromNode::Filled { generation, piece, version }));
        }
        self.advance(out);
    }

    pub(super) fn fill_sent(&mut self, piece: PieceId, _to: NodeId, out: &mut Vec<HolderCommand>) {
        if let Some(slot) = self.slots.of_piece(piece).and_then(|id| self.slots.get_mut(id)) {
            slot.end_read();
        }
        self.advance(out);
    }

    /// Does whatever the books now allow.
    pub(super) fn advance(&mut self, out: &mut Vec<HolderCommand>) {
        self.begin_fills(out);
        self.begin_persist(out);
        self.begin_updates(out);
        self.report_prepared(out);
        self.begin_passes(out);
    }

    fn begin_fills(&mut self, out: &mut Vec<HolderCommand>) {
        let Phase::Running(adopted, run) = &mut self.phase else { return };
        let slots = &mut self.slots;
        run.fills.retain(|(step, fill)| {
            let Some(id) = slots.of_piece(fill.piece) else { return false };
            let Some(slot) = slots.get_mut(id) else { return false };
            if slot.version.step != *step || !slot.is_whole() || matches!(slot.use_, Use::Updating(_)) {
                return slot.version.step <= *step;
            }
            if !self.rules.breaks(Breach::FillSourceMoves) {
                slot.begin_read();
            }
            let (generation, version, piece, to) = (adopted.generation, slot.version, fill.piece, fill.to);
            out.push(HolderCommand::Move(MoveCommand::Fill { generation, version, piece, slot: id, to }));
            false
        });
    }

    /// HD-1 (one step at a time).
    fn begin_updates(&mut self, out: &mut Vec<HolderCommand>) {
        let Phase::Running(_, run) = &self.phase else { return };
        loop {
            let mut slots = Vec::new();
            let mut entry = None;
            for (id, slot) in self.slots.iter_mut() {
                let next = slot.version.step + 1;
                let Some((record, _)) = self.entries.get(&next).filter(|_| next <= run.version.step) else { continue };
                let due = matches!(run.persist, Persisting::Due(at, _) if at == slot.version);
                let follows = record.previous == slot.version.chain && entry.as_ref().is_none_or(|e| e == record);
                if slot.use_ == Use::Idle && !due && follows && slot.prepared().is_some() {
                    slot.use_ = Use::Updating(next);
                    entry = Some(std::sync::Arc::clone(record));
                    slots.push(id);
                }
            }
            let Some(entry) = entry else { return };
            out.push(HolderCommand::Slot(SlotCommand::Apply { entry, slots }));
        }
    }

    fn report_prepared(&mut self, out: &mut Vec<HolderCommand>) {
        let Phase::Running(adopted, run) = &mut self.phase else { return };
        let step = run.version.step + 1;
        if run.reported >= step {
            return;
        }
        let late = self.rules.breaks(Breach::ShadowAcknowledgesLate);
        let mut pieces = Vec::new();
        let mut loss = None;
        for (_, slot) in self.slots.iter().filter(|(_, slot)| slot.is_whole()) {
            if late && slot.role == Role::Shadow {
                continue;
            }
            let (Some(piece), Some(gradient)) = (slot.piece, slot.prepared()) else { return };
            if slot.version != run.version {
                return;
            }
            pieces.push((piece, gradient.norm));
            loss = loss.or(gradient.loss);
        }
        if !pieces.is_empty() {
            run.reported = step;
            let generation = adopted.generation;
            out.push(HolderCommand::Tell(FromNode::Prepared(Prepared { generation, step, pieces, loss })));
        }
    }

    fn begin_passes(&mut self, out: &mut Vec<HolderCommand>) {
        let Phase::Running(adopted, run) = &mut self.phase else { return };
        let step = run.version.step;
        if adopted.weights.is_empty() {
            run.due.clear();
        }
        if run.due.is_empty() || adopted.weights.values().any(|have| *have != Some(step)) {
            return;
        }
        let (generation, loss_scale) = (adopted.generation, run.loss_scale);
        for pass in run.due.drain(..) {
            let step = match pass {
                Pass::Train => step + 1,
                Pass::Evaluate => step,
            };
            out.push(HolderCommand::Seat(SeatCommand::Run { generation, pass, step, loss_scale }));
        }
    }
}
