//! A slot: weights and both moments of one interval, in the arena of its role, outside of every actor.
//!
//! * SL-1 (one thread): a slot's elements are touched on its device's thread only; elsewhere only its books are.
//! * SL-2 (shared to read): whoever sends a slot's elements holds the buffers; an update that comes meanwhile moves to
//!   copies.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shoal_kernels::{Arena, ArenaError, Buffer, Device, Tag, Tier};
use shoal_plan::holder::Role;
use shoal_plan::ids::BlockId;
use shoal_plan::space::Interval;

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
pub(super) struct SlotCell(Mutex<SlotBody>);

/// Weight, first and second moment.
pub(super) type Kinds = [Arc<Buffer>; 3];

/// What a slot's thread works on.
#[derive(Debug)]
pub(super) struct SlotBody {
    pub(super) kinds: Kinds,
    pub(super) progress: Progress,
}

impl SlotCell {
    /// Room for `elements`, contents unspecified.
    pub(super) fn alloc(arena: &Arena, elements: usize) -> Result<Self, ArenaError> {
        let kind = |tag| arena.alloc(tag, elements).map(Arc::new);
        let kinds = [kind(Tag::Weight)?, kind(Tag::Moment)?, kind(Tag::Moment)?];
        Ok(Self(Mutex::new(SlotBody { kinds, progress: Progress::Rest })))
    }

    /// The elements. Called on the slot's thread; never contended for longer than a handle is cloned.
    pub(super) fn lock(&self) -> MutexGuard<'_, SlotBody> {
        // A panicking update leaves its progress behind, which says what can be trusted.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The elements as they are now, held still.
    pub(super) fn snapshot(&self) -> Kinds {
        self.lock().kinds.clone()
    }

    /// Writes initial values into elements `at..at + part.len()`.
    pub(super) fn seed(
        &self,
        (device, arena): (&Device, &Arena),
        at: usize,
        part: usize,
        fill: impl FnOnce(&mut [f32]),
    ) -> Result<(), ArenaError> {
        let mut body = self.lock();
        let [weight, first, second] = &mut body.kinds;
        let weight = exclusive(weight, device, arena)?.host_visible_mut();
        fill(&mut weight.expect("SL: initial values are drawn on the host")[at..at + part]);
        for moment in [first, second] {
            device.fill(exclusive(moment, device, arena)?.view_mut().range(at..at + part), 0.0);
        }
        Ok(())
    }

    /// Copies parts of three buffers into elements from `at` on.
    pub(super) fn write(
        &self,
        (device, arena): (&Device, &Arena),
        at: usize,
        kinds: [(&Buffer, Range<usize>); 3],
    ) -> Result<(), ArenaError> {
        let mut body = self.lock();
        for (target, (source, range)) in body.kinds.iter_mut().zip(kinds) {
            let target = exclusive(target, device, arena)?;
            let tiers = (target.tier(), source.tier());
            let (into, from) = (target.view_mut().range(at..at + range.len()), source.view().range(range));
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
