//! Compute weights: a stage's own copy of the parameters it computes with, in the job's precision. Losing them loses nothing.
//!
//! * WE-1 (one width at a time): of a half type, two lie in a slot, and what one product reads of them is widened beside them for
//!   as long as it reads.
//! * WE-2 (a stage computes with what its blocks need): its own blocks, and the token table for a tied head; nothing else is asked for.
//! * WE-3 (one value an element): whatever is written or read of an interval has as many values as the interval has elements.
//! * WE-4 (weights of a half type are nobody's masters): only f32 weights are updated where they are computed with.
//! * WE-5 (spaces are cut at even elements): so no slot has halves that are written apart.

use std::borrow::Cow;
use std::ops::Range;

use shoal_kernels::{Arena, ArenaError, Buffer, Device, Half, Tag, View, ViewMut};
use shoal_plan::blocks::ModelTable;
use shoal_plan::ids::BlockId;
use shoal_plan::space::Interval;

use crate::ModelError;
use crate::block::Scope;
use crate::rounding::Rounding;

/// The weights of a stage's blocks, and the token table for a head away from the embedding.
pub(crate) struct Weights {
    parts: Vec<Part>,
}

struct Part {
    block: BlockId,
    interval: Interval,
    values: Values,
}

enum Values {
    /// As they are.
    Plain(Buffer),
    /// Two a slot.
    Packed(Buffer, Half),
}

/// Weights as products read them.
pub(crate) enum Opened<'w> {
    /// Where they are kept.
    Kept(View<'w>),
    /// Widened.
    Wide(Buffer),
}

const NEEDED: &str = "WE-2 (a stage computes with what its blocks need)";
const WHOLE: &str = "WE-4 (weights of a half type are nobody's masters)";

impl Opened<'_> {
    /// f32, whatever they are kept as.
    pub(crate) fn view(&self) -> View<'_> {
        match self {
            Self::Kept(view) => *view,
            Self::Wide(buffer) => buffer.view(),
        }
    }
}

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
        stored: Rounding,
    ) -> Result<Self, ModelError> {
        let parts = table.weights_needed_by(blocks).into_iter().map(|(block, interval)| {
            let room = |elements| {
                arena.alloc_zeroed(Tag::Weight, elements).map_err(|source| ModelError::Weights { block, source })
            };
            let elements = interval.len() as usize;
            let values = match stored.half() {
                None => Values::Plain(room(elements)?),
                // Zero is zero in every type.
                Some(half) => Values::Packed(room(Half::slots(elements))?, half),
            };
            Ok(Part { block, interval, values })
        });
        Ok(Self { parts: parts.collect::<Result<_, ModelError>>()? })
    }

    /// Overwrites the elements of `interval` that are here.
    pub(crate) fn write(&mut self, device: &Device, block: BlockId, interval: Interval, values: &[f32]) {
        assert_eq!(interval.len(), values.len() as u64, "WE-3 (one value an element)");
        for part in self.parts.iter_mut().filter(|p| p.block == block) {
            let Some(common) = part.interval.intersection(interval) else { continue };
            let (place, values) = (within(part.interval, common), &values[within(interval, common)]);
            match &mut part.values {
                Values::Plain(kept) => device.upload(kept.view_mut().range(place), values),
                Values::Packed(slots, half) => {
                    device.upload_packed(slots.view_mut().range(halved(place)), values, *half)
                }
            }
        }
    }

    /// Overwrites the elements of `interval` that are here from memory of the same device.
    pub(crate) fn copy(&mut self, device: &Device, block: BlockId, interval: Interval, values: View<'_>) {
        assert_eq!(interval.len(), values.len() as u64, "WE-3 (one value an element)");
        for part in self.parts.iter_mut().filter(|p| p.block == block) {
            let Some(common) = part.interval.intersection(interval) else { continue };
            let (place, values) = (within(part.interval, common), values.range(within(interval, common)));
            match &mut part.values {
                Values::Plain(kept) => device.copy(kept.view_mut().range(place), values),
                Values::Packed(slots, half) => device.pack(slots.view_mut().range(halved(place)), values, *half),
            }
        }
    }

    /// Some elements of a block, which the stage must have as f32, to be written.
    pub(crate) fn view_mut(&mut self, block: BlockId, range: Range<usize>) -> ViewMut<'_> {
        let wanted = Interval::new(range.start as u64, range.end as u64);
        let part = self.parts.iter_mut().find(|p| p.holds(block, wanted)).expect(NEEDED);
        match &mut part.values {
            Values::Plain(kept) => kept.view_mut().range(within(part.interval, wanted)),
            Values::Packed(..) => panic!("{WHOLE}"),
        }
    }

    /// Some elements of a block, which the stage must have as f32.
    pub(crate) fn view(&self, block: BlockId, range: Range<usize>) -> View<'_> {
        let (part, place) = self.part(block, range);
        match &part.values {
            Values::Plain(kept) => kept.view().range(place),
            Values::Packed(..) => panic!("{WHOLE}"),
        }
    }

    /// The part that has some elements, and where it has them.
    fn part(&self, block: BlockId, range: Range<usize>) -> (&Part, Range<usize>) {
        let wanted = Interval::new(range.start as u64, range.end as u64);
        let part = self.parts.iter().find(|p| p.holds(block, wanted)).expect(NEEDED);
        (part, within(part.interval, wanted))
    }
}

impl<'a> Scope<'a> {
    /// Some weights of a block, which the stage must have.
    pub(crate) fn open(&self, block: BlockId, range: Range<usize>) -> Result<Opened<'a>, ArenaError> {
        let (part, place) = self.weights.part(block, range);
        match &part.values {
            Values::Plain(kept) => Ok(Opened::Kept(kept.view().range(place))),
            Values::Packed(slots, half) => {
                let mut wide = self.arena.alloc(Tag::Temporary, place.len())?;
                self.device.unpack(wide.view_mut(), slots.view().range(halved(place)), *half);
                Ok(Opened::Wide(wide))
            }
        }
    }

    /// A table `[any, width]` and the tokens' rows in it: the whole one if it can be read as it is, or what they need of it.
    pub(crate) fn rows_of<'t>(
        &self,
        (block, range): (BlockId, Range<usize>),
        tokens: &'t [u32],
    ) -> Result<(Opened<'a>, Cow<'t, [u32]>), ArenaError> {
        let (part, place) = self.weights.part(block, range);
        match &part.values {
            Values::Plain(kept) => Ok((Opened::Kept(kept.view().range(place)), Cow::Borrowed(tokens))),
            Values::Packed(slots, half) => {
                let mut wide = self.arena.alloc(Tag::Temporary, tokens.len() * self.sizes.width)?;
                self.device.unpack_rows(wide.view_mut(), slots.view().range(halved(place)), tokens, *half);
                Ok((Opened::Wide(wide), (0..tokens.len() as u32).collect()))
            }
        }
    }
}

/// `inner` as indices into an array that starts at `outer`'s start.
fn within(outer: Interval, inner: Interval) -> Range<usize> {
    (inner.start - outer.start) as usize..(inner.end - outer.start) as usize
}

/// The slots of some packed elements.
fn halved(place: Range<usize>) -> Range<usize> {
    assert!(place.start.is_multiple_of(2), "WE-5 (spaces are cut at even elements): {place:?}");
    place.start / 2..place.end.div_ceil(2)
}
