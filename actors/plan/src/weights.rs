//! Facts about the files that a job's initial weights come from: a digest of every segment, so that whoever reads a part
//! can tell by itself whether it is what was submitted.
//!
//! A segment is a run of a block's space, gaps between parameters as zeros, hashed as little-endian f32: the weights are
//! what counts, not the form of the files.

use serde::{Deserialize, Serialize};
use shoal_config::hf::SpecialTokens;
use shoal_config::llmc::Version;
use shoal_config::spec::Dtype;

use crate::blocks::ModelTable;
use crate::ids::{BlockId, Digest};
use crate::space::Interval;

/// Segments of a model, about: a part is read with at most two segments beside it, and the facts stay small.
const SEGMENTS: u64 = 1024;
/// Elements of a segment are a multiple of this.
const UNIT: u64 = 4096;
/// Elements of a segment at most: whoever checks one holds it, 16 MiB, beside its budget.
const MOST: u64 = 1 << 22;

/// The types of a model's tensors in files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Dtypes {
    /// One for all.
    All(Dtype),
    /// One for each, in the order of the form's tensors.
    Each(Vec<Dtype>),
}

impl Dtypes {
    /// The type of a tensor.
    ///
    /// # Panics
    /// If there are not so many tensors.
    #[must_use]
    pub fn of(&self, tensor: usize) -> Dtype {
        match self {
            Self::All(dtype) => *dtype,
            Self::Each(dtypes) => dtypes[tensor],
        }
    }

    /// The version of an llm.c checkpoint that holds them in the least room without rounding any.
    #[must_use]
    pub fn llmc(&self) -> Version {
        match self {
            Self::All(dtype) => Version::of(*dtype).unwrap_or(Version::Single),
            Self::Each(_) => Version::Single,
        }
    }

    /// In words: `bf16`, or `fp32 and bf16`.
    #[must_use]
    pub fn words(&self) -> String {
        let there = |dtype: &Dtype| match self {
            Self::All(all) => all == dtype,
            Self::Each(dtypes) => dtypes.contains(dtype),
        };
        let words: Vec<_> = Dtype::ALL.into_iter().filter(there).map(Dtype::word).collect();
        words.join(" and ")
    }
}

impl FromIterator<Dtype> for Dtypes {
    fn from_iter<I: IntoIterator<Item = Dtype>>(dtypes: I) -> Self {
        let dtypes: Vec<Dtype> = dtypes.into_iter().collect();
        match dtypes.first() {
            Some(&first) if dtypes.iter().all(|dtype| *dtype == first) => Self::All(first),
            Some(_) | None => Self::Each(dtypes),
        }
    }
}

/// What was found in the files, read once at submission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeightFacts {
    /// Elements of a segment; the last one of a block may be shorter.
    pub segment: u64,
    /// One a segment, in the order of blocks.
    pub digests: Vec<Digest>,
    /// What the files' tensors are, and an export of them unless it is asked for something else. Enters no bits.
    pub dtypes: Dtypes,
    /// Rows of an llm.c checkpoint's token table; those beyond the vocabulary are zero. Enters no bits.
    pub padded_vocab: Option<u32>,
    /// Which tokens begin and end a text, as the files say. They enter no bits.
    pub special: SpecialTokens,
}

impl WeightFacts {
    /// Elements of a segment of a model.
    #[must_use]
    pub fn segment_of(table: &ModelTable) -> u64 {
        let elements: u64 = table.blocks.iter().map(|block| block.len).sum();
        elements.div_ceil(SEGMENTS).next_multiple_of(UNIT).min(MOST)
    }

    /// Every segment of a model, in the order of the digests.
    pub fn segments(table: &ModelTable, segment: u64) -> impl Iterator<Item = (BlockId, Interval)> + '_ {
        table.blocks.iter().flat_map(move |block| {
            let starts = (0..block.len.div_ceil(segment)).map(move |i| i * segment);
            starts.map(move |start| (block.id, Interval::new(start, block.len.min(start + segment))))
        })
    }

    /// The segments that have something of an interval, each with its digest; nothing for a segment without one.
    pub fn around<'f>(
        &'f self,
        table: &'f ModelTable,
        block: BlockId,
        interval: Interval,
    ) -> impl Iterator<Item = (Interval, Digest)> + 'f {
        Self::segments(table, self.segment)
            .zip(&self.digests)
            .filter(move |((of, segment), _)| *of == block && segment.intersection(interval).is_some())
            .map(|((_, segment), digest)| (segment, *digest))
    }

    /// The digest of all weights.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let bytes: Vec<u8> = self.digests.iter().flat_map(|digest| digest.0).collect();
        Digest::of(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn segments_cover_every_block_once() {
        let table = ModelTable::of(&fixture::job().spec.model);
        for segment in [UNIT, 3 * UNIT, WeightFacts::segment_of(&table)] {
            let segments: Vec<_> = WeightFacts::segments(&table, segment).collect();
            for block in &table.blocks {
                let mut at = 0;
                for (_, interval) in segments.iter().filter(|(of, _)| *of == block.id) {
                    assert!(interval.start == at && interval.len() <= segment);
                    at = interval.end;
                }
                assert_eq!(at, block.len);
            }
            let digests = (0..segments.len() as u64).map(|i| Digest::of(&i.to_le_bytes())).collect();
            let (dtypes, special) = (Dtypes::All(Dtype::F32), SpecialTokens::default());
            let facts = WeightFacts { segment, digests, dtypes, padded_vocab: None, special };
            let part = Interval::new(16, table.blocks[1].len.min(segment + 16));
            let around: Vec<_> = facts.around(&table, BlockId(1), part).collect();
            let first = segments.iter().position(|(of, _)| *of == BlockId(1)).expect("a layer");
            assert_eq!(around[0], (segments[first].1, facts.digests[first]));
            assert!(around.last().expect("some").0.end >= part.end);
        }
    }

    #[test]
    fn types_are_one_for_all_or_one_each() {
        let mixed: Dtypes = [Dtype::Bf16, Dtype::F32, Dtype::Bf16].into_iter().collect();
        assert_eq!((mixed.of(1), mixed.of(2), mixed.words().as_str()), (Dtype::F32, Dtype::Bf16, "fp32 and bf16"));
        let alike: Dtypes = [Dtype::F16; 3].into_iter().collect();
        assert_eq!((&alike, alike.words().as_str()), (&Dtypes::All(Dtype::F16), "fp16"));
    }
}
