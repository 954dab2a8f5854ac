//! r copies of each piece on nodes other than its owner.

use crate::engine::Offer;
use crate::ids::NodeId;
use crate::layout::PiecePlan;
use crate::memory::shadow_bytes;
use crate::planner::Held;
use crate::planner::place::Seats;
use crate::planner::shape::Layout;

/// A node that may shadow.
struct Candidate {
    node: NodeId,
    /// Has a seat: a node without one has more to spare.
    seated: bool,
    /// Bytes left.
    room: u64,
    /// Elements shadowed so far.
    load: u64,
}

/// Adds up to r shadows to each piece, fewer where nodes or memory are short. In this order: whoever holds most of the
/// piece, whoever shadows the rest of the same share (so that it can take over whole), spares, who shadows least, who
/// serves the same stage.
pub(super) fn add(
    redundancy: u32,
    layout: &Layout,
    seats: &Seats,
    nodes: &[(NodeId, &Offer)],
    held: &Held,
    pieces: &mut [PiecePlan],
) {
    let mut candidates = candidates(layout, seats, nodes);
    let mut order: Vec<usize> = (0..pieces.len()).collect();
    order.sort_by_key(|&i| (layout.cuts[i].stage, layout.cuts[i].share));
    for _ in 0..redundancy {
        let mut before: Option<(usize, usize, NodeId)> = None;
        for &i in &order {
            let (cut, piece) = (&layout.cuts[i], &mut pieces[i]);
            let bytes = shadow_bytes(piece.interval.len()).total();
            let same = before.filter(|b| (b.0, b.1) == (cut.stage, cut.share)).map(|b| b.2);
            let best = candidates
                .iter_mut()
                .filter(|c| c.room >= bytes && c.node != piece.owner && !piece.shadows.contains(&c.node))
                .min_by_key(|c| {
                    let missing = held.missing(c.node, piece.block, piece.interval);
                    let stranger = !seats.nodes[cut.stage].contains(&c.node);
                    (missing, same != Some(c.node), c.seated, c.load, stranger, c.node)
                });
            if let Some(best) = best {
                best.room -= bytes;
                best.load += piece.interval.len();
                piece.shadows.push(best.node);
                before = Some((cut.stage, cut.share, best.node));
            }
        }
    }
}

fn candidates(layout: &Layout, seats: &Seats, nodes: &[(NodeId, &Offer)]) -> Vec<Candidate> {
    nodes
        .iter()
        .map(|(node, offer)| {
            let group = seats.groups.iter().position(|seated| seated == node);
            let used = group.map_or(0, |g| layout.needs[g]);
            Candidate { node: *node, seated: group.is_some(), room: offer.budget_bytes.saturating_sub(used), load: 0 }
        })
        .collect()
}
