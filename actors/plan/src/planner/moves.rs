//! What must move to reach a plan.

use std::collections::BTreeMap;

use crate::ids::{BlockId, NodeId, PieceId};
use crate::layout::Plan;
use crate::planner::Held;
use crate::protocol::Fetch;
use crate::space::{Interval, IntervalSet};

/// Fetches before training goes on, fills behind it.
pub(super) struct Moves {
    pub(super) fetches: Vec<Fetch>,
    pub(super) unfilled: Vec<(PieceId, NodeId)>,
}

/// Every owner is completed; then shadows, those that lack least first, until each interval has as many complete copies
/// as before (up to r + 1). Nodes that leave count as copies before, so draining one never lowers the redundancy.
pub(super) fn to_reach<V>(plan: &Plan, redundancy: u32, members: &BTreeMap<NodeId, V>, held: &Held) -> Moves {
    let mut moves = Moves { fetches: Vec::new(), unfilled: Vec::new() };
    if held.is_empty() {
        return moves;
    }
    let mut sent: BTreeMap<NodeId, u64> = BTreeMap::new();
    let mut sources: Vec<(NodeId, &IntervalSet)> = Vec::new();
    let mut of: Option<BlockId> = None;
    for (id, piece) in plan.pieces() {
        if of != Some(piece.block) {
            of = Some(piece.block);
            sources.clear();
            sources.extend(held.holders(piece.block).filter(|(node, _)| members.contains_key(node)));
        }
        let mut lacking: Vec<(u64, NodeId)> = piece
            .shadows
            .iter()
            .map(|&node| (held.missing(node, piece.block, piece.interval), node))
            .filter(|(missing, _)| *missing > 0)
            .collect();
        let owner_lacks = !held.has(piece.owner, piece.block, piece.interval);
        if !owner_lacks && lacking.is_empty() {
            continue;
        }
        let edges = edges(&sources, piece.interval);
        let copies_before = most_copies(&sources, piece.interval, &edges);
        let wanted = copies_before.min(redundancy as usize + 1).min(1 + piece.shadows.len());
        let complete = 1 + piece.shadows.len() - lacking.len();
        lacking.sort();
        let behind = lacking.split_off(wanted.saturating_sub(complete).min(lacking.len()));
        moves.unfilled.extend(behind.into_iter().map(|(_, node)| (id, node)));
        let now = owner_lacks.then_some(piece.owner).into_iter().chain(lacking.into_iter().map(|(_, node)| node));
        for to in now {
            let has = sources.iter().find(|(node, _)| *node == to).map(|(_, set)| *set);
            let missing = has.map_or_else(|| IntervalSet::from(piece.interval), |set| set.missing_from(piece.interval));
            fetch(to, piece.block, &missing, &edges, &sources, &mut sent, &mut moves.fetches);
        }
    }
    moves
}

/// Fetches `missing` for `to`: each part from whoever was asked for least, staying with a source while it can go on.
fn fetch(
    to: NodeId,
    block: BlockId,
    missing: &IntervalSet,
    edges: &[u64],
    sources: &[(NodeId, &IntervalSet)],
    sent: &mut BTreeMap<NodeId, u64>,
    out: &mut Vec<Fetch>,
) {
    let mut last: Option<Fetch> = None;
    for part in missing.split_at(edges) {
        if let Some(open) = &mut last
            && open.interval.end == part.start
            && sources.iter().any(|(node, set)| *node == open.from && set.contains(part))
        {
            open.interval.end = part.end;
            *sent.entry(open.from).or_default() += part.len();
            continue;
        }
        out.extend(last.take());
        let from = sources
            .iter()
            .filter(|(node, set)| *node != to && set.contains(part))
            .min_by_key(|(node, _)| (sent.get(node).copied().unwrap_or(0), *node));
        let (from, _) = *from.expect("PC-2 (what nobody holds is found before)");
        *sent.entry(from).or_default() += part.len();
        last = Some(Fetch { to, from, block, interval: part });
    }
    out.extend(last);
}

/// Where the set of holders changes inside an interval, ascending.
fn edges(sources: &[(NodeId, &IntervalSet)], interval: Interval) -> Vec<u64> {
    let mut edges: Vec<u64> = sources
        .iter()
        .flat_map(|(_, set)| set.runs())
        .flat_map(|run| [run.start, run.end])
        .filter(|&edge| interval.start < edge && edge < interval.end)
        .collect();
    edges.sort_unstable();
    edges.dedup();
    edges
}

/// Copies of the part of an interval that has most.
fn most_copies(sources: &[(NodeId, &IntervalSet)], interval: Interval, edges: &[u64]) -> usize {
    let parts = IntervalSet::from(interval).split_at(edges);
    let copies = |part: &Interval| sources.iter().filter(|(_, set)| set.contains(*part)).count();
    parts.iter().map(copies).max().unwrap_or(0)
}
