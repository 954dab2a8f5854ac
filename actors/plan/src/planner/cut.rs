//! Each stage's blocks divided among its replicas: the pieces.

use std::ops::Range;

use crate::blocks::ModelTable;
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
            if replicas > 1 && block.len < replicas as u64 * SEGMENT {
                small.push(block);
                continue;
            }
            let mut start = 0;
            for (share, load) in load.iter_mut().enumerate() {
                let ideal = block.len * (share as u64 + 1) / replicas as u64;
                let end = if share + 1 == replicas { block.len } else { table.nearest_edge(block, ideal) };
                if start < end {
                    cuts.push(Cut { block: block.id, interval: Interval::new(start, end), stage, share });
                    *load += end - start;
                    start = end;
                }
            }
        }
        for block in small {
            let share = (0..replicas).min_by_key(|&share| load[share]).unwrap_or(0);
            cuts.push(Cut { block: block.id, interval: Interval::new(0, block.len), stage, share });
            load[share] += block.len;
        }
    }
    cuts.sort_by_key(|cut| (cut.block, cut.interval.start));
    cuts
}
