//! Compute weights: a stage's own copy of the parameters it computes with, rounded to the job's precision. Losing them loses
//! nothing.

use std::ops::Range;

use shoal_kernels::{Arena, Buffer, Device, Tag, View, ViewMut};
use shoal_plan::blocks::ModelTable;
use shoal_plan::ids::BlockId;
use shoal_plan::space::Interval;

use crate::ModelError;
use crate::stored::StoredType;

/// The weights of a stage's blocks, and the token table for a head away from the embedding.
pub(crate) struct Weights {
    parts: Vec<Part>,
    stored: StoredType,
}

struct Part {
    block: BlockId,
    interval: Interval,
    values: Buffer,
}

const NEEDED: &str = "WE-2 (a stage computes with what its blocks need)";

impl Part {
    fn holds(&self, block: BlockId, wanted: Interval) -> bool {
        self.block == block && self.interval.start <= wanted.start && wanted.end <= self.interval.end
    }
}

impl Weights {
    /// Room for the weights that `blocks` compute with, all zero.
    pub(crate) fn new(
        arena: &Arena,
        table: &ModelTable,
        blocks: Range<u32>,
        stored: StoredType,
    ) -> Result<Self, ModelError> {
        let parts = table.weights_needed_by(blocks).into_iter().map(|(block, interval)| {
            let values = arena
                .alloc_zeroed(Tag::Weight, interval.len() as usize)
                .map_err(|source| ModelError::Weights { block, source })?;
            Ok(Part { block, interval, values })
        });
        Ok(Self { parts: parts.collect::<Result<_, ModelError>>()?, stored })
    }

    /// Overwrites the elements of `interval` that are here.
    pub(crate) fn write(&mut self, device: &Device, block: BlockId, interval: Interval, values: &[f32]) {
        assert_eq!(interval.len(), values.len() as u64, "WE-1 (one value an element)");
        for part in self.parts.iter_mut().filter(|p| p.block == block) {
            let Some(common) = part.interval.intersection(interval) else { continue };
            let mut target = part.values.view_mut().range(within(part.interval, common));
            device.upload(target.reborrow(), &values[within(interval, common)]);
            self.stored.round(device, target);
        }
    }

    /// Overwrites the elements of `interval` that are here from memory of the same device.
    pub(crate) fn copy(&mut self, device: &Device, block: BlockId, interval: Interval, values: View<'_>) {
        assert_eq!(interval.len(), values.len() as u64, "WE-1 (one value an element)");
        for part in self.parts.iter_mut().filter(|p| p.block == block) {
            let Some(common) = part.interval.intersection(interval) else { continue };
            let mut target = part.values.view_mut().range(within(part.interval, common));
            device.copy(target.reborrow(), values.range(within(interval, common)));
            self.stored.round(device, target);
        }
    }

    /// Some elements of a block, which the stage must have, to be written.
    pub(crate) fn view_mut(&mut self, block: BlockId, range: Range<usize>) -> ViewMut<'_> {
        let wanted = Interval::new(range.start as u64, range.end as u64);
        let part = self.parts.iter_mut().find(|p| p.holds(block, wanted)).expect(NEEDED);
        part.values.view_mut().range(within(part.interval, wanted))
    }

    /// Some elements of a block, which the stage must have.
    pub(crate) fn view(&self, block: BlockId, range: Range<usize>) -> View<'_> {
        let wanted = Interval::new(range.start as u64, range.end as u64);
        let part = self.parts.iter().find(|p| p.holds(block, wanted)).expect(NEEDED);
        part.values.view().range(within(part.interval, wanted))
    }
}

/// `inner` as indices into an array that starts at `outer`'s start.
fn within(outer: Interval, inner: Interval) -> Range<usize> {
    (inner.start - outer.start) as usize..(inner.end - outer.start) as usize
}
