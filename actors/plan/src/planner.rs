//! From members and what they hold to the next plan, and what must move to get there.
//!
//! 1. `shape` chooses stages and replicas: what the job asks for if the nodes suffice, else the fastest that fits; `needs` says what a
//!    stage takes of each node, `shares` what its replicas own.
//! 2. `cut` divides each stage's blocks among its replicas as pieces.
//! 3. `place` puts seats, and with them owners, on the nodes that already hold most of what they need.
//! 4. `shadows` puts r copies of each piece on other nodes.
//! 5. `moves` lists what must be fetched before training goes on and what is filled behind it.
//!
//! * PC-1 (a node for each group of seats): seats are divided among no more groups than there are nodes.
//! * PC-2 (a part is known because someone holds it): sources are listed by the nodes that have them.
//! * PC-3 (every seat is in a group): groups are runs of all seats of the layout.
//! * PC-4 (one stage and one replica can always be tried): this shape is always among those that are tried when the asked
//!   ones do not fit.
//! * PC-5 (one of several is best): layouts are only left out beside a better one, so one stays.
//! * PC-6 (there are no more stages than blocks): no shape has more, so a cut exists when memory is no object.
//! * PC-7 (two orders were tried): a layout is given up only when neither order of its seats fits.
//! * PC-8 (so many replicas are one lane longer): the remainder is below the number of replicas, so some choice of them
//!   adds up to it.
//! * PC-10 (nodes stay for a layout that was chosen): a layout is chosen for a node at least, of members that do not change.

use std::collections::{BTreeMap, BTreeSet};

use shoal_config::Bytes;

use crate::blocks::ModelTable;
use crate::engine::Offer;
use crate::ids::{BlockId, NodeId, PieceId};
use crate::job::Job;
use crate::layout::{PiecePlan, Plan, StagePlan};
use crate::protocol::Fetch;
use crate::space::IntervalSet;

mod cut;
mod first;
mod held;
mod moves;
mod needs;
mod place;
mod shadows;
mod shape;
mod shares;
#[cfg(test)]
mod tests;

pub use first::{First, WhyPlain, alike, first_plan};
pub use held::Held;

/// A plan and the way to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    /// What must be here before training goes on: every owner complete, and no fewer complete copies of an interval than
    /// before, up to r + 1.
    pub fetches: Vec<Fetch>,
    /// Shadows that are filled behind training.
    pub unfilled: Vec<(PieceId, NodeId)>,
    /// Why this plan, with numbers, for people.
    pub reason: String,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPlan {
    /// Nobody to plan for.
    #[error(
        "a plan takes a node that stays, but of {members} members {draining} are leaving; \
             start a node (`shoalctl up`)"
    )]
    NoNodes {
        /// Members in all.
        members: usize,
        /// Of these, leaving.
        draining: usize,
    },
    /// Part of the state has no holder.
    #[error("no member holds {missing} of {block}; go back to a durable state or wait for its holders")]
    StateLost {
        /// Whose space.
        block: BlockId,
        /// Elements nobody holds.
        missing: IntervalSet,
    },
    /// The layout asked for cannot exist.
    #[error(
        "{asked} was asked for with fixed = true, but the job has {blocks} blocks to divide into stages and \
             {lanes} lanes to divide among replicas; ask for less or drop `fixed`"
    )]
    Impossible {
        /// As in the job file.
        asked: String,
        /// Blocks of the model.
        blocks: usize,
        /// Virtual replicas.
        lanes: u32,
    },
    /// No layout fits the nodes' memory.
    #[error(
        "{asked} on {}: the leanest layout, {leanest}, takes {} on a node that may hold {}; give \
             nodes more memory, add nodes, or make micro_batch smaller",
        crate::draw::number(*.nodes, "node"),
        size(*.needed),
        size(*.budget)
    )]
    Memory {
        /// As in the job file.
        asked: String,
        /// Nodes that stay.
        nodes: usize,
        /// The layout that came closest.
        leanest: String,
        /// Bytes it takes on the node where most is missing.
        needed: u64,
        /// That node's budget.
        budget: u64,
    },
}

/// Bytes for people, and the very number.
fn size(bytes: u64) -> String {
    format!("{} ({bytes} bytes)", Bytes(bytes))
}

/// Makes the next plan. `members` are all nodes that take part, of one arithmetic, `draining` those of them that get nothing but may be
/// sources, `held` what members hold at the version training goes on from; empty if it starts from the seed.
///
/// # Errors
/// If no layout is possible, see [`NoPlan`].
pub fn make_plan(
    job: &Job,
    table: &ModelTable,
    members: &BTreeMap<NodeId, Offer>,
    draining: &BTreeSet<NodeId>,
    held: &Held,
) -> Result<Planned, NoPlan> {
    let nodes = staying(members, draining)?;
    if let Some((block, missing)) = held.lost(table, members) {
        return Err(NoPlan::StateLost { block, missing });
    }
    let chosen = shape::choose((job, &job.spec.parallel), table, &nodes, held)?;
    Ok(with_layout(chosen, job, table, members, &nodes, held))
}

/// Those that a plan may put something on.
fn staying<'a>(
    members: &'a BTreeMap<NodeId, Offer>,
    draining: &BTreeSet<NodeId>,
) -> Result<Vec<(NodeId, &'a Offer)>, NoPlan> {
    let stay = members.iter().filter(|(node, _)| !draining.contains(node));
    let nodes: Vec<(NodeId, &Offer)> = stay.map(|(node, offer)| (*node, offer)).collect();
    if nodes.is_empty() {
        return Err(NoPlan::NoNodes { members: members.len(), draining: members.len() });
    }
    Ok(nodes)
}

/// The plan of a layout that was chosen for `nodes`, the members that stay.
fn with_layout(
    chosen: shape::Layout,
    job: &Job,
    table: &ModelTable,
    members: &BTreeMap<NodeId, Offer>,
    nodes: &[(NodeId, &Offer)],
    held: &Held,
) -> Planned {
    let seats = place::seats(table, &chosen, nodes, held);
    let mut pieces: Vec<PiecePlan> = chosen
        .cuts
        .iter()
        .map(|cut| PiecePlan {
            block: cut.block,
            interval: cut.interval,
            owner: seats.nodes[cut.stage][cut.share],
            shadows: Vec::new(),
        })
        .collect();
    shadows::add((job.spec.elastic.redundancy, table), &chosen, &seats, nodes, held, &mut pieces);
    let stages = chosen.stages.iter().zip(seats.nodes);
    let mut plan = Plan {
        arithmetic: nodes[0].1.arithmetic,
        schedule: job.spec.parallel.schedule,
        stages: stages.map(|(blocks, seats)| StagePlan { blocks: blocks.clone(), seats }).collect(),
        lanes: chosen.lanes.clone(),
        pieces,
        spares: Vec::new(),
    };
    let used: BTreeSet<NodeId> =
        plan.seats().map(|(_, node)| node).chain(plan.pieces.iter().flat_map(PiecePlan::holders)).collect();
    plan.spares = members.keys().copied().filter(|node| !used.contains(node)).collect();
    let moves = moves::to_reach(&plan, job.spec.elastic.redundancy, members, held);
    let reason = reason(table, (&chosen, &plan), nodes.len(), &moves);
    Planned { plan, fetches: moves.fetches, unfilled: moves.unfilled, reason }
}

fn reason(table: &ModelTable, (chosen, plan): (&shape::Layout, &Plan), nodes: usize, moves: &moves::Moves) -> String {
    let bytes: u64 = moves.fetches.iter().map(|fetch| table.state_bytes(fetch.block, fetch.interval)).sum();
    let mut said = vec![format!(
        "{} {} on {}, {} spare",
        crate::draw::shape(chosen.stages.len(), chosen.lanes.len()),
        chosen.why,
        crate::draw::number(nodes, "node"),
        plan.spares.len(),
    )];
    if bytes > 0 {
        said.push(format!("{} to move first", Bytes(bytes)));
    }
    if !moves.unfilled.is_empty() {
        said.push(format!("{} to fill behind training", crate::draw::number(moves.unfilled.len(), "shadow")));
    }
    said.join("; ")
}
