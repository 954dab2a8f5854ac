//! A slot: the whole state of one interval, in the arena of its role, outside of every actor.
//!
//! * SL-1 (one thread): a slot's elements are touched on its device's thread only; elsewhere only its books are.
//! * SL-2 (shared to read): whoever sends a slot's elements holds the buffers; an update that comes meanwhile moves to
//!   copies.
//! * SL-3 (the host tier is visible to the host): whatever the device is, its host tier is ordinary memory.
//! * SL-4 (the source has the interval): whoever copies an interval has looked it up in the slots that hold it.
//! * SL-5 (weights are the first kind): [`shoal_plan::blocks::ModelTable::kinds`] begins with them, and a slot has its
//!   kinds in that order.
//! * SL-6 (weights go with every interval): no interval of a block is without.
//! * SL-7 (initial values are drawn on the host): a slot is seeded in memory that the host sees.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shoal_kernels::{Arena, ArenaError, Buffer, Device, Tag, Tier};
use shoal_plan::blocks::ModelTable;
use shoal_plan::holder::Role;
use shoal_plan::ids::BlockId;
use shoal_plan::space::{Interval, Kind};

use super::tensor::{Slice, exclusive};
use super::update::Progress;

/// A slot as the holder actor knows it.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) block: BlockId,
    pub(super) interval: Interval,
    pub(super) role: Role,
    pub(super) cell: Arc<SlotCell>,
    /// Whole gradients by the step they would commit.
    pub(super) gradients: BTreeMap<u64, Slice>,
    /// Local parts still being copied in; commands wait for them.
    pub(super) building: usize,
}

/// A slot's elements. They outlive a panic in whatever works on them.
#[derive(Debug)]
pub(super) struct SlotCell {
    place: Place,
    body: Mutex<SlotBody>,
}

/// Where a slot's elements lie.
#[derive(Clone, Debug)]
pub(super) struct Place {
    table: Arc<ModelTable>,
    block: BlockId,
    interval: Interval,
}

/// A buffer for each kind of state, in the table's order; each has what goes with the slot's interval.
pub(super) type Kinds = Vec<(Kind, Arc<Buffer>)>;

/// What a slot's thread works on.
#[derive(Debug)]
pub(super) struct SlotBody {
    pub(super) kinds: Kinds,
    pub(super) progress: Progress,
}

/// A slot's elements as they were at one time, held still.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    place: Place,
    kinds: Kinds,
}

impl Place {
    /// Elements of a kind, in the slot's buffer of it, that go with an interval of weights; none if there are none.
    fn range(&self, kind: Kind, interval: Interval) -> Option<Range<usize>> {
        self.table.within(kind, self.block, self.interval, interval)
    }
}

impl SlotCell {
    /// Room for an interval, contents unspecified.
    pub(super) fn alloc(
        arena: &Arena,
        table: &Arc<ModelTable>,
        (block, interval): (BlockId, Interval),
    ) -> Result<Self, ArenaError> {
        let parts = table.kinds().iter().filter_map(|&kind| Some((kind, table.part(kind, block, interval)?)));
        let kinds = parts.map(|(kind, part)| {
            let tag = if kind == Kind::Weight { Tag::Weight } else { Tag::Moment };
            Ok((kind, Arc::new(arena.alloc(tag, part.len() as usize)?)))
        });
        let kinds = kinds.collect::<Result<_, ArenaError>>()?;
        let place = Place { table: Arc::clone(table), block, interval };
        Ok(Self { place, body: Mutex::new(SlotBody { kinds, progress: Progress::Rest }) })
    }

    /// The elements. SL-1 (one thread): called on the slot's thread; never contended for longer than a handle is cloned.
    pub(super) fn lock(&self) -> MutexGuard<'_, SlotBody> {
        // A panicking update leaves its progress behind, which says what can be trusted.
        self.body.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The elements as they are now, held still.
    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot { place: self.place.clone(), kinds: self.lock().kinds.clone() }
    }

    /// Writes initial values of some weights; what an optimizer remembers begins with zeros.
    pub(super) fn seed(
        &self,
        (device, arena): (&Device, &Arena),
        interval: Interval,
        fill: impl FnOnce(&mut [f32]),
    ) -> Result<(), ArenaError> {
        let mut body = self.lock();
        let ((_, weights), remembered) = body.kinds.split_first_mut().expect("SL-5 (weights are the first kind)");
        let range = self.place.range(Kind::Weight, interval).expect("SL-6 (weights go with every interval)");
        let weights = exclusive(weights, device, arena)?.host_visible_mut();
        fill(&mut weights.expect("SL-7 (initial values are drawn on the host)")[range]);
        for (kind, buffer) in remembered {
            if let Some(range) = self.place.range(*kind, interval) {
                device.fill(exclusive(buffer, device, arena)?.view_mut().range(range), 0.0);
            }
        }
        Ok(())
    }

    /// Copies an interval's state, kind after kind in one buffer, to where it belongs.
    pub(super) fn write(
        &self,
        tools: (&Device, &Arena),
        interval: Interval,
        source: &Buffer,
    ) -> Result<(), ArenaError> {
        let mut at = 0;
        self.fill_in(tools, interval, |_, len| {
            at += len;
            (source, at - len..at)
        })
    }

    /// Copies an interval's state from another slot.
    pub(super) fn copy(
        &self,
        tools: (&Device, &Arena),
        interval: Interval,
        source: &Snapshot,
    ) -> Result<(), ArenaError> {
        self.fill_in(tools, interval, |kind, _| {
            source.part(kind, interval).expect("SL-4 (the source has the interval)")
        })
    }

    /// Copies to an interval, for each kind, what `from` says there is so much of.
    fn fill_in<'s>(
        &self,
        (device, arena): (&Device, &Arena),
        interval: Interval,
        mut from: impl FnMut(Kind, usize) -> (&'s Buffer, Range<usize>),
    ) -> Result<(), ArenaError> {
        for (kind, target) in &mut self.lock().kinds {
            let Some(range) = self.place.range(*kind, interval) else { continue };
            let (source, part) = from(*kind, range.len());
            let target = exclusive(target, device, arena)?;
            let tiers = (target.tier(), source.tier());
            let (into, from) = (target.view_mut().range(range), source.view().range(part));
            match tiers {
                (Tier::Device, Tier::Device) | (Tier::Host, Tier::Host) => device.copy(into, from),
                (Tier::Device, Tier::Host) => {
                    device.upload(into, from.host_visible().expect("SL-3 (the host tier is visible to the host)"));
                }
                (Tier::Host, Tier::Device) => {
                    device.download(into.host_visible().expect("SL-3 (the host tier is visible to the host)"), from);
                }
            }
        }
        Ok(())
    }
}

impl Snapshot {
    /// The weights of the whole slot.
    pub(super) fn weights(&self) -> &Arc<Buffer> {
        let (kind, weights) = &self.kinds[0];
        assert_eq!(*kind, Kind::Weight, "SL-5 (weights are the first kind)");
        weights
    }

    /// Everything, with where it lies in the space of its kind.
    pub(super) fn parts(&self) -> impl Iterator<Item = (Kind, Interval, &Arc<Buffer>)> {
        let Place { table, block, interval } = &self.place;
        self.kinds.iter().filter_map(|(kind, buffer)| Some((*kind, table.part(*kind, *block, *interval)?, buffer)))
    }

    /// What goes with an interval of weights, in the order it travels in.
    pub(super) fn of(&self, interval: Interval) -> impl Iterator<Item = (&Arc<Buffer>, Range<usize>)> {
        self.kinds.iter().filter_map(move |(kind, buffer)| Some((buffer, self.place.range(*kind, interval)?)))
    }

    fn part(&self, kind: Kind, interval: Interval) -> Option<(&Buffer, Range<usize>)> {
        let (_, buffer) = self.kinds.iter().find(|(held, _)| *held == kind)?;
        Some((buffer, self.place.range(kind, interval)?))
    }
}
