//! Hashing and writing: slots are held still until the actor has answered, or the order was given up.

use super::face::{HolderCommand, Role, SlotCommand, SlotId};
use super::slots::{Slot, Use};
use super::{Holder, Phase};
use crate::digest::PieceLeaves;
use crate::ledger::Version;
use crate::protocol::{FromNode, Persist, PersistMode};

/// Where an order to hash or write stands.
#[derive(Clone, Debug)]
pub(super) enum Persisting {
    Nothing,
    /// Until every slot it takes is at the version.
    Due(Version, Persist),
    /// Until the actor answers.
    Begun(Version, Persist, Vec<SlotId>),
}

impl Holder {
    pub(super) fn persisted(&mut self, request: u64, leaves: Vec<PieceLeaves>, out: &mut Vec<HolderCommand>) {
        let Phase::Running(adopted, run) = &self.phase else { return };
        let generation = adopted.generation;
        if let Persisting::Begun(version, persist, _) = run.persist
            && persist.request == request
        {
            out.push(HolderCommand::Tell(FromNode::Persisted { generation, request, version, leaves }));
            self.end_persist();
        }
        self.advance(out);
    }

    /// An order repeated is an order kept; a new one takes the place of what the engine has given up.
    pub(super) fn order_persist(&mut self, persist: Option<Persist>) {
        let Phase::Running(_, run) = &self.phase else { return };
        let Some(persist) = persist.filter(|persist| run.persisted != Some(persist.request)) else { return };
        self.end_persist();
        let Phase::Running(_, run) = &mut self.phase else { return };
        run.persisted = Some(persist.request);
        run.persist = Persisting::Due(run.version, persist);
    }

    /// What was to be written could not be: the engine decides what that means, and updates go on.
    pub(super) fn give_up_persist(&mut self, out: &mut Vec<HolderCommand>) {
        self.end_persist();
        self.advance(out);
    }

    /// The slots of a persist under way are free again.
    fn end_persist(&mut self) {
        let Phase::Running(_, run) = &mut self.phase else { return };
        match std::mem::replace(&mut run.persist, Persisting::Nothing) {
            Persisting::Begun(_, _, slots) => {
                for id in slots {
                    if let Some(slot) = self.slots.get_mut(id) {
                        slot.end_read();
                    }
                }
            }
            other @ (Persisting::Nothing | Persisting::Due(..)) => run.persist = other,
        }
    }

    pub(super) fn begin_persist(&mut self, out: &mut Vec<HolderCommand>) {
        let Phase::Running(adopted, run) = &mut self.phase else { return };
        let Persisting::Due(version, persist) = run.persist else { return };
        let takes = |role: Role| match persist.mode {
            PersistMode::Hash => role == Role::Owner,
            PersistMode::Write => true,
        };
        // A shadow that was filled at a later version has no part in it.
        let part = |slot: &Slot| slot.is_whole() && takes(slot.role) && slot.version.step <= version.step;
        let taken = || self.slots.iter().filter(|(_, slot)| part(slot));
        if taken().any(|(_, slot)| slot.version != version || matches!(slot.use_, Use::Updating(_))) {
            return;
        }
        let slots: Vec<SlotId> = taken().map(|(id, _)| id).collect();
        for id in &slots {
            if let Some(slot) = self.slots.get_mut(*id) {
                slot.begin_read();
            }
        }
        let generation = adopted.generation;
        run.persist = Persisting::Begun(version, persist, slots.clone());
        if slots.is_empty() {
            run.persist = Persisting::Nothing;
        } else {
            out.push(HolderCommand::Slot(SlotCommand::Persist { generation, persist, version, slots }));
        }
    }
}
