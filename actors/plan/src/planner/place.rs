//! Seats on nodes, so that the fewest bytes move.

use crate::blocks::ModelTable;
use crate::engine::Offer;
use crate::ids::NodeId;
use crate::memory::F32;
use crate::planner::Held;
use crate::planner::shape::Layout;

/// More than any sum of bytes, less than overflows when added up.
const NEVER: i64 = 1 << 50;
/// A byte counts more than staying in a seat,
const BYTE: i64 = 2 * MOVE;
/// and staying in a seat more than keeping nodes in order.
const MOVE: i64 = 1 << 6;

/// Nodes of the seats, by stage and replica.
pub(super) struct Seats {
    pub(super) nodes: Vec<Vec<NodeId>>,
    /// Node of each group.
    pub(super) groups: Vec<NodeId>,
    /// Bytes that the seats and their owned pieces have to be sent.
    pub(super) bytes: u64,
}

/// Assigns each group of seats to a node: least bytes of state and compute weights to be sent, over all assignments.
pub(super) fn seats(table: &ModelTable, layout: &Layout, nodes: &[(NodeId, &Offer)], held: &Held) -> Seats {
    let needed: Vec<_> = layout.stages.iter().map(|blocks| table.weights_needed_by(blocks.clone())).collect();
    let seated: Vec<Vec<bool>> =
        needed.iter().map(|needed| nodes.iter().map(|(node, _)| held.has_weights(*node, needed)).collect()).collect();
    let mut bytes = vec![vec![0u64; nodes.len()]; layout.groups.len()];
    let mut group_of = vec![vec![0; layout.lanes.len()]; layout.stages.len()];
    for (g, group) in layout.groups.iter().enumerate() {
        let mut stages: Vec<usize> = group.iter().map(|seat| seat.0).collect();
        stages.dedup();
        for &(stage, replica) in group {
            group_of[stage][replica] = g;
        }
        for stage in stages {
            for (n, (node, _)) in nodes.iter().enumerate().filter(|(n, _)| !seated[stage][*n]) {
                let missing = needed[stage].iter().map(|&(block, interval)| held.missing(*node, block, interval));
                bytes[g][n] += F32 * missing.sum::<u64>();
            }
        }
    }
    for cut in &layout.cuts {
        let g = group_of[cut.stage][cut.share];
        for (n, (node, _)) in nodes.iter().enumerate() {
            bytes[g][n] += held.missing_bytes(table, *node, cut.block, cut.interval);
        }
    }
    let cost: Vec<Vec<i64>> = bytes
        .iter()
        .enumerate()
        .map(|(g, row)| {
            row.iter()
                .enumerate()
                .map(|(n, &b)| {
                    let fits = layout.needs[g] <= nodes[n].1.budget_bytes;
                    if !fits {
                        return NEVER;
                    }
                    let stays = layout.groups[g].iter().all(|seat| seated[seat.0][n]);
                    let order = (g.abs_diff(n) as i64).min(MOVE - 1);
                    (b as i64).min(NEVER / BYTE / 2) * BYTE + if stays { 0 } else { MOVE } + order
                })
                .collect()
        })
        .collect();
    let chosen = assign(&cost);
    let groups: Vec<NodeId> = chosen.iter().map(|&n| nodes[n].0).collect();
    Seats {
        bytes: chosen.iter().enumerate().map(|(g, &n)| bytes[g][n]).sum(),
        nodes: group_of.iter().map(|row| row.iter().map(|&g| groups[g]).collect()).collect(),
        groups,
    }
}

/// A column for each row, no column twice, with the least sum of costs; at least as many columns as rows.
/// Kuhn's Hungarian method with potentials, O(rows^2 columns).
pub(super) fn assign(cost: &[Vec<i64>]) -> Vec<usize> {
    let (rows, columns) = (cost.len(), cost.first().map_or(0, Vec::len));
    assert!(rows <= columns, "PC-1 (a node for each group of seats)");
    // Row and column 0 are sentinels: everything is shifted by one.
    let mut row_potential = vec![0i64; rows + 1];
    let mut column_potential = vec![0i64; columns + 1];
    let mut row_of = vec![0usize; columns + 1];
    for row in 1..=rows {
        let mut before = vec![0usize; columns + 1];
        let mut slack = vec![i64::MAX; columns + 1];
        let mut seen = vec![false; columns + 1];
        row_of[0] = row;
        let mut column = 0;
        while row_of[column] != 0 {
            seen[column] = true;
            let current = row_of[column];
            let (mut least, mut next) = (i64::MAX, 0);
            for c in 1..=columns {
                if seen[c] {
                    continue;
                }
                let reduced = cost[current - 1][c - 1] - row_potential[current] - column_potential[c];
                if reduced < slack[c] {
                    slack[c] = reduced;
                    before[c] = column;
                }
                if slack[c] < least {
                    (least, next) = (slack[c], c);
                }
            }
            for c in 0..=columns {
                if seen[c] {
                    row_potential[row_of[c]] += least;
                    column_potential[c] -= least;
                } else if slack[c] != i64::MAX {
                    slack[c] -= least;
                }
            }
            column = next;
        }
        while column != 0 {
            row_of[column] = row_of[before[column]];
            column = before[column];
        }
    }
    let mut chosen = vec![0; rows];
    for (column, &row) in row_of.iter().enumerate().skip(1).filter(|(_, row)| **row != 0) {
        chosen[row - 1] = column - 1;
    }
    chosen
}
