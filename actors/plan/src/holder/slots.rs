//! Slots: what is held, how much of it is here, at which version, and what becomes of it next.

use std::collections::BTreeMap;

use super::face::{Role, SlotId};
use crate::ids::{BlockId, PieceId};
use crate::ledger::Version;
use crate::protocol::{Holding, LossSum, Norm};
use crate::space::{Interval, IntervalSet};

/// One slot: the whole state of an interval.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    /// Whose space.
    pub block: BlockId,
    /// Elements.
    pub interval: Interval,
    /// Where it lies.
    pub role: Role,
    /// The piece of the adopted plan that it serves; none for what is left over from an older one.
    pub piece: Option<PieceId>,
    /// Elements that are here.
    pub have: IntervalSet,
    /// Their version.
    pub version: Version,
    /// Whole gradients, by step. One beyond `version.step` is prepared; a shadow may be one further ahead.
    pub gradients: BTreeMap<u64, Gradient>,
    /// What runs on it.
    pub use_: Use,
}

/// What the owner reports of a whole gradient.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gradient {
    /// Its norm.
    pub norm: Norm,
    /// Loss of the step, with the head block's first piece.
    pub loss: Option<LossSum>,
}

/// What runs on a slot. Only an idle slot is updated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Nothing.
    Idle,
    /// An update to this step.
    Updating(u64),
    /// It is read: this many fills and persists are not through.
    Read(u32),
}

impl Slot {
    /// Whether every element is here.
    pub(super) fn is_whole(&self) -> bool {
        self.have.contains(self.interval)
    }

    /// The gradient that the next update takes.
    pub(super) fn prepared(&self) -> Option<&Gradient> {
        self.is_whole().then(|| self.gradients.get(&(self.version.step + 1))).flatten()
    }

    /// One more reader.
    pub(super) fn begin_read(&mut self) {
        self.use_ = match self.use_ {
            Use::Idle => Use::Read(1),
            Use::Read(n) => Use::Read(n + 1),
            Use::Updating(step) => unreachable!("HD-4 (readers first): {step}"),
        };
    }

    /// One reader less.
    pub(super) fn end_read(&mut self) {
        self.use_ = match self.use_ {
            Use::Read(1) | Use::Idle => Use::Idle,
            Use::Read(n) => Use::Read(n - 1),
            Use::Updating(step) => Use::Updating(step),
        };
    }

    /// What the inventory says of it.
    pub(super) fn holdings(&self) -> impl Iterator<Item = Holding> + '_ {
        let prepared = self.prepared();
        self.have.runs().iter().map(move |run| Holding {
            block: self.block,
            interval: *run,
            version: self.version,
            prepared: prepared.map(|g| g.norm),
            loss: prepared.and_then(|g| g.loss),
        })
    }
}

/// All slots of one job on one node.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    map: BTreeMap<SlotId, Slot>,
    next: u32,
}

impl Slots {
    /// Adds one under a new name.
    pub(super) fn add(&mut self, slot: Slot) -> SlotId {
        let id = SlotId(self.next);
        self.next += 1;
        self.map.insert(id, slot);
        id
    }

    /// Takes one out.
    pub(super) fn remove(&mut self, id: SlotId) -> Option<Slot> {
        self.map.remove(&id)
    }

    /// Forgets all, never their names.
    pub(super) fn clear(&mut self) {
        self.map.clear();
    }

    pub(super) fn get(&self, id: SlotId) -> Option<&Slot> {
        self.map.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: SlotId) -> Option<&mut Slot> {
        self.map.get_mut(&id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (SlotId, &Slot)> {
        self.map.iter().map(|(id, slot)| (*id, slot))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (SlotId, &mut Slot)> {
        self.map.iter_mut().map(|(id, slot)| (*id, slot))
    }

    /// The slot that serves a piece of the adopted plan.
    pub(super) fn of_piece(&self, piece: PieceId) -> Option<SlotId> {
        self.map.iter().find(|(_, slot)| slot.piece == Some(piece)).map(|(id, _)| *id)
    }

    /// Whether an update runs.
    pub(super) fn any_updating(&self) -> bool {
        self.map.values().any(|slot| matches!(slot.use_, Use::Updating(_)))
    }

    /// The slots, and the parts of each, that cover an interval at a version, ascending; none if something is missing.
    pub(super) fn cover(
        &self,
        block: BlockId,
        interval: Interval,
        at: impl Fn(&Version) -> bool,
    ) -> Option<Vec<(SlotId, Interval)>> {
        let (parts, missing) = self.cover_what_is_here(block, interval, at);
        missing.is_empty().then_some(parts)
    }

    /// As [`Self::cover`], with what is missing beside what is here.
    pub(super) fn cover_what_is_here(
        &self,
        block: BlockId,
        interval: Interval,
        at: impl Fn(&Version) -> bool,
    ) -> (Vec<(SlotId, Interval)>, IntervalSet) {
        let mut missing = IntervalSet::from(interval);
        let mut parts = Vec::new();
        for (id, slot) in &self.map {
            if slot.block != block || !at(&slot.version) || slot.interval.intersection(interval).is_none() {
                continue;
            }
            let here = slot.have.intersection(&missing);
            for run in here.runs() {
                parts.push((*id, *run));
                missing.remove(*run);
            }
        }
        parts.sort_by_key(|(_, run)| run.start);
        (parts, missing)
    }
}
