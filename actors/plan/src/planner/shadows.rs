//! r copies of each piece on nodes other than its owner.

use crate::blocks::ModelTable;
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
    /// Bytes left once training goes on.
    room: u64,
    /// Bytes left while state moves, with all that it holds now still in place.
    moving_room: u64,
    /// Elements shadowed so far.
    load: u64,
}

/// Adds up to r shadows to each piece, fewer where nodes or memory are short. In this order: whoever holds most of the
/// piece, whoever shadows the rest of the same share (so that it can take over whole), spares, who shadows least, who
/// serves the same stage.
pub(super) fn add(
    (redundancy, table): (u32, &ModelTable),
    layout: &Layout,
    seats: &Seats,
    nodes: &[(NodeId, &Offer)],
    held: &Held,
    pieces: &mut [PiecePlan],
) {
    let mut candidates = candidates((table, layout), seats, nodes, held, pieces);
    let mut order: Vec<usize> = (0..pieces.len()).collect();
    order.sort_by_key(|&i| (layout.cuts[i].stage, layout.cuts[i].share));
    let missing = |node, piece: &PiecePlan| held.missing(node, piece.block, piece.interval);
    for _ in 0..redundancy {
        let mut before: Option<(usize, usize, NodeId)> = None;
        for &i in &order {
            let (cut, piece) = (&layout.cuts[i], &mut pieces[i]);
            let bytes = shadow_bytes(table.state_bytes(piece.block, piece.interval), piece.interval.len()).total();
            let new = |node| held.new_room(table, node, piece.block, piece.interval);
            let same = before.filter(|b| (b.0, b.1) == (cut.stage, cut.share)).map(|b| b.2);
            let best = candidates
                .iter_mut()
                .filter(|c| c.room >= bytes && c.moving_room >= new(c.node))
                .filter(|c| c.node != piece.owner && !piece.shadows.contains(&c.node))
                .min_by_key(|c| {
                    let stranger = !seats.nodes[cut.stage].contains(&c.node);
                    (missing(c.node, piece), same != Some(c.node), c.seated, c.load, stranger, c.node)
                });
            if let Some(best) = best {
                best.room -= bytes;
                best.moving_room -= new(best.node);
                best.load += piece.interval.len();
                piece.shadows.push(best.node);
                before = Some((cut.stage, cut.share, best.node));
            }
        }
    }
}

fn candidates(
    (table, layout): (&ModelTable, &Layout),
    seats: &Seats,
    nodes: &[(NodeId, &Offer)],
    held: &Held,
    pieces: &[PiecePlan],
) -> Vec<Candidate> {
    nodes
        .iter()
        .map(|&(node, offer)| {
            let group = seats.groups.iter().position(|seated| *seated == node);
            let (needs, weights) = group.map_or((0, 0), |g| (layout.needs[g], layout.weights[g]));
            let owned = pieces.iter().filter(|piece| piece.owner == node);
            let new: u64 = owned.map(|piece| held.new_room(table, node, piece.block, piece.interval)).sum();
            let moving = weights + held.bytes(table, node) + new;
            let [room, moving_room] = [needs, moving].map(|used| offer.budget_bytes.saturating_sub(used));
            Candidate { node, seated: group.is_some(), room, moving_room, load: 0 }
        })
        .collect()
}
