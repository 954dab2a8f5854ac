//! What must move to reach a plan.

use std::collections::BTreeMap;

use crate::ids::{BlockId, NodeId, PieceId};
use crate::layout::Plan;
use crate::planner::Held;
use crate::protocol::Fetch;
use crate::space::{Holdings, Interval};

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
    let mut sources = Sources::new();
    for (id, piece) in plan.pieces() {
        let (block, interval) = (piece.block, piece.interval);
        let mut lacking: Vec<(u64, NodeId)> = piece
            .shadows
            .iter()
            .map(|&node| (held.missing(node, block, interval), node))
            .filter(|(missing, _)| *missing > 0)
            .collect();
        let owner_lacks = !held.has(piece.owner, block, interval);
        if !owner_lacks && lacking.is_empty() {
            continue;
        }
        if sources.extent(block).is_empty() {
            overlay(&mut sources, block, members, held);
        }
        let copies_before = sources.within(block, interval).map(|(_, nodes)| nodes.len()).max().unwrap_or(0);
        let wanted = copies_before.min(redundancy as usize + 1).min(1 + piece.shadows.len());
        let complete = 1 + piece.shadows.len() - lacking.len();
        lacking.sort();
        let behind = lacking.split_off(wanted.saturating_sub(complete).min(lacking.len()));
        moves.unfilled.extend(behind.into_iter().map(|(_, node)| (id, node)));
        let now = owner_lacks.then_some(piece.owner).into_iter().chain(lacking.into_iter().map(|(_, node)| node));
        for to in now {
            fetch(to, (block, interval), &sources, &mut sent, &mut moves.fetches);
        }
    }
    moves
}

/// Who has which interval, cut wherever that changes.
type Sources = Holdings<Vec<NodeId>>;

/// Adds what every member holds of a block.
fn overlay<V>(sources: &mut Sources, block: BlockId, members: &BTreeMap<NodeId, V>, held: &Held) {
    for (node, set) in held.holders(block).filter(|(node, _)| members.contains_key(node)) {
        for run in set.runs() {
            sources.update(block, *run, |others| others.into_iter().flatten().copied().chain([node]).collect());
        }
    }
}

/// Fetches what `to` lacks of an interval: each part from whoever was asked for least, staying with a source while it can
/// go on.
fn fetch(
    to: NodeId,
    (block, interval): (BlockId, Interval),
    sources: &Sources,
    sent: &mut BTreeMap<NodeId, u64>,
    out: &mut Vec<Fetch>,
) {
    let mut last: Option<Fetch> = None;
    for (part, nodes) in sources.within(block, interval).filter(|(_, nodes)| !nodes.contains(&to)) {
        match &mut last {
            Some(open) if open.interval.end == part.start && nodes.contains(&open.from) => {
                open.interval.end = part.end;
                *sent.entry(open.from).or_default() += part.len();
            }
            Some(_) | None => {
                let from = nodes.iter().copied().min_by_key(|node| (sent.get(node).copied().unwrap_or(0), *node));
                let from = from.expect("PC-2 (a part is known because someone holds it)");
                *sent.entry(from).or_default() += part.len();
                out.extend(last.replace(Fetch { to, from, block, interval: part }));
            }
        }
    }
    out.extend(last);
}
