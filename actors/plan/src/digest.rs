//! The digest of a whole state, computable by its scattered holders.
//!
//! For each kind of the job ([`ModelTable::kinds`]), each block, each parameter of that kind's space in table order: its elements as
//! little-endian f32, cut into segments of [`SEGMENT`] elements (the last one shorter), each hashed by blake3. The state
//! digest is blake3 over the concatenation of these leaf hashes. The planner cuts pieces at segment edges only, so a
//! holder can hash its own segments.
//!
//! DG-1 (one value an element): whoever hashes an interval has all of it, and nothing else.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::blocks::{BlockTable, ModelTable};
use crate::ids::{BlockId, Digest};
use crate::space::{Interval, IntervalSet, Kind};

#[cfg(test)]
mod tests;

/// Elements of one leaf.
pub const SEGMENT: u64 = 4096;

/// Leaf hashes of one kind of one held interval, in ascending order of segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PieceLeaves {
    /// Whose space.
    pub block: BlockId,
    /// Elements of the kind's space; cut at segment edges.
    pub interval: Interval,
    /// Which kind.
    pub kind: Kind,
    /// One hash a segment.
    pub leaves: Vec<Digest>,
}

/// Why a state has no digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// Nobody hashed part of the state.
    #[error("{kind} of {block} is not complete: nobody reported {missing}")]
    Missing {
        /// Whose space.
        block: BlockId,
        /// Which kind.
        kind: Kind,
        /// Elements without a hash.
        missing: IntervalSet,
    },
    /// Two holders of the same elements hold different bits.
    #[error("{kind} of {block}, elements {segment}: one holder reports {one}, another {other}")]
    Conflict {
        /// Whose space.
        block: BlockId,
        /// Which kind.
        kind: Kind,
        /// The segment.
        segment: Interval,
        /// First report.
        one: Digest,
        /// Second report.
        other: Digest,
    },
    /// A report does not have one hash a segment.
    #[error("{kind} of {block}, elements {interval}: {found} hashes for {expected} segments")]
    Malformed {
        /// Whose space.
        block: BlockId,
        /// Which kind.
        kind: Kind,
        /// The interval that was reported.
        interval: Interval,
        /// Hashes reported.
        found: usize,
        /// Segments in the interval.
        expected: usize,
    },
}

/// The segments of a block that lie inside `interval`, ascending: each parameter cut every [`SEGMENT`] elements.
pub fn segments(block: &BlockTable, interval: Interval) -> impl Iterator<Item = Interval> + '_ {
    let first = block.params.partition_point(|p| p.interval.end <= interval.start);
    block.params[first..]
        .iter()
        .take_while(move |p| p.interval.start < interval.end)
        .flat_map(move |p| {
            let skipped = interval.start.saturating_sub(p.interval.start).div_ceil(SEGMENT);
            let from = p.interval.start + skipped * SEGMENT;
            (from..p.interval.end)
                .step_by(SEGMENT as usize)
                .map(move |start| Interval::new(start, (start + SEGMENT).min(p.interval.end)))
        })
        .filter(move |s| interval.start <= s.start && s.end <= interval.end)
}

/// The place nearest to `target` where a block may be cut into pieces: the start of a segment, or the block's end. So a
/// segment and the gap behind a parameter stay whole.
#[must_use]
pub(crate) fn nearest_edge(block: &BlockTable, target: u64) -> u64 {
    let Some(at) = block.params.partition_point(|p| p.interval.start <= target).checked_sub(1) else { return 0 };
    let param = &block.params[at].interval;
    let inside = target.min(param.end - 1) - param.start;
    let below = param.start + inside / SEGMENT * SEGMENT;
    let next = block.params.get(at + 1).map_or(block.len, |p| p.interval.start);
    let above = if below + SEGMENT < param.end { below + SEGMENT } else { next };
    if target - below <= above.saturating_sub(target) { below } else { above }
}

/// Leaf hashes of the elements `data` of `interval`, one a segment, ascending.
///
/// # Panics
/// If `data` has not one value an element.
#[must_use]
pub fn leaves(block: &BlockTable, interval: Interval, data: &[f32]) -> Vec<Digest> {
    assert_eq!(data.len() as u64, interval.len(), "DG-1 (one value an element)");
    let mut bytes = Vec::with_capacity(SEGMENT as usize * 4);
    segments(block, interval)
        .map(|segment| {
            bytes.clear();
            let values = &data[(segment.start - interval.start) as usize..(segment.end - interval.start) as usize];
            bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            Digest::of(&bytes)
        })
        .collect()
}

/// The state digest, from the reports of its holders; several may report the same elements.
///
/// # Errors
/// If elements are missing, reports disagree, or a report is not whole.
pub fn assemble<'a>(
    table: &ModelTable,
    reports: impl IntoIterator<Item = &'a PieceLeaves>,
) -> Result<Digest, DigestError> {
    let mut found: BTreeMap<(Kind, BlockId, u64), Digest> = BTreeMap::new();
    for report in reports {
        let &PieceLeaves { block, interval, kind, ref leaves } = report;
        let known = table.blocks.get(block.0 as usize).filter(|_| table.kinds().contains(&kind));
        let known = known.map(|block| table.space(kind, block.id));
        let inside: Vec<Interval> = known.map_or_else(Vec::new, |known| segments(known, interval).collect());
        if inside.len() != leaves.len() {
            return Err(DigestError::Malformed { block, kind, interval, found: leaves.len(), expected: inside.len() });
        }
        for (segment, &leaf) in inside.into_iter().zip(leaves) {
            if let Some(one) = found.insert((kind, block, segment.start), leaf).filter(|one| *one != leaf) {
                return Err(DigestError::Conflict { block, kind, segment, one, other: leaf });
            }
        }
    }
    let mut hasher = blake3::Hasher::new();
    for &kind in table.kinds() {
        for block in table.blocks.iter().map(|block| table.space(kind, block.id)) {
            let mut missing = IntervalSet::EMPTY;
            for segment in segments(block, Interval::new(0, block.len)) {
                match found.get(&(kind, block.id, segment.start)) {
                    Some(leaf) => {
                        hasher.update(&leaf.0);
                    }
                    None => missing.insert(segment),
                }
            }
            if !missing.is_empty() {
                return Err(DigestError::Missing { block: block.id, kind, missing });
            }
        }
    }
    Ok(Digest(*hasher.finalize().as_bytes()))
}
