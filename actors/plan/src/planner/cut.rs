//! Each stage's blocks divided among its replicas: the pieces.

use std::ops::Range;

use crate::blocks::{BlockTable, ModelTable};
use crate::digest::SEGMENT;
use crate::ids::BlockId;
use crate::space::Interval;

/// A piece before it has an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) block: BlockId,
    pub(super) interval: Interval,
    pub(super) stage: usize,
    /// The replica whose seat owns it.
    pub(super) share: usize,
}

/// Pieces of every block, ascending. A block is cut into `replicas` about equal parts, so that its gradient's sum is
/// everyone's work at once; where it is cut depends on the block and `replicas` alone, so that a change of stages moves
/// little. A block too small for that goes whole to the replica with the least.
pub(super) fn pieces(table: &ModelTable, stages: &[Range<u32>], replicas: usize) -> Vec<Cut> {
    let mut cuts = Vec::with_capacity(table.blocks.len() * replicas);
    let mut load = vec![0u64; replicas];
    for (stage, blocks) in stages.iter().enumerate() {
        load.fill(0);
        let mut small = Vec::new();
        for block in &table.blocks[blocks.start as usize..blocks.end as usize] {
            if is_small(block, replicas) {
                small.push(block);
                continue;
            }
            for (share, interval) in parts_of(table, block, replicas) {
                cuts.push(Cut { block: block.id, interval, stage, share });
                load[share] += interval.len();
            }
        }
        for block in small {
            let share = least_loaded(&load);
            cuts.push(Cut { block: block.id, interval: Interval::new(0, block.len), stage, share });
            load[share] += block.len;
        }
    }
    cuts.sort_by_key(|cut| (cut.block, cut.interval.start));
    cuts
}

/// Whether a block is too small to be divided among so many.
pub(super) fn is_small(block: &BlockTable, replicas: usize) -> bool {
    replicas > 1 && block.len < replicas as u64 * SEGMENT
}

/// About equal parts of a block that is not too small, each with the replica that has it.
pub(super) fn parts_of(
    table: &ModelTable,
    block: &BlockTable,
    replicas: usize,
) -> impl Iterator<Item = (usize, Interval)> {
    let mut start = 0;
    (0..replicas).filter_map(move |share| {
        let ideal = block.len * (share as u64 + 1) / replicas as u64;
        let end = if share + 1 == replicas { block.len } else { table.nearest_edge(block, ideal) };
        let part = (start < end).then(|| (share, Interval::new(start, end)));
        start = start.max(end);
        part
    })
}

/// Who has the least of these elements; the first of several.
pub(super) fn least_loaded(load: &[u64]) -> usize {
    (0..load.len()).min_by_key(|&share| load[share]).unwrap_or(0)
}
