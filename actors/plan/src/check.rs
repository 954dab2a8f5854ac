//! Proof of a plan: every invariant re-derived from scratch.
//!
//! ```text
//! PL-1 (stages)    the stages' block ranges partition the model in order, none empty
//! PL-2 (lanes)     the replicas' lane runs partition 0..V in order, none empty
//! PL-3 (seats)     every stage has one seat a replica, each on a member
//! PL-4 (pieces)    the pieces of each block partition its space, ascending by block and element
//! PL-5 (edges)     pieces are cut at segment edges only, so a holder can hash its own
//! PL-6 (loss)      the head block's first piece exists: it carries the loss
//! PL-7 (holders)   owner and shadows are distinct members
//! PL-8 (shadows)   no piece has more than r shadows
//! PL-9 (spares)    spares are exactly the members without a seat or piece
//! PL-10 (memory)   no node is given more than its budget
//! PL-11 (alike)    every node with a seat or piece computes what the plan says
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::blocks::ModelTable;
use crate::engine::Offer;
use crate::ids::{BlockId, NodeId};
use crate::job::Job;
use crate::layout::{PiecePlan, Plan};
use crate::memory;

#[cfg(test)]
mod tests;

/// An invariant of plans, see the module's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// PL-1.
    Stages,
    /// PL-2.
    Lanes,
    /// PL-3.
    Seats,
    /// PL-4.
    Pieces,
    /// PL-5.
    Edges,
    /// PL-6.
    Loss,
    /// PL-7.
    Holders,
    /// PL-8.
    Shadows,
    /// PL-9.
    Spares,
    /// PL-10.
    Memory,
    /// PL-11.
    Alike,
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stages => "PL-1 (stages)",
            Self::Lanes => "PL-2 (lanes)",
            Self::Seats => "PL-3 (seats)",
            Self::Pieces => "PL-4 (pieces)",
            Self::Edges => "PL-5 (edges)",
            Self::Loss => "PL-6 (loss)",
            Self::Holders => "PL-7 (holders)",
            Self::Shadows => "PL-8 (shadows)",
            Self::Spares => "PL-9 (spares)",
            Self::Memory => "PL-10 (memory)",
            Self::Alike => "PL-11 (alike)",
        })
    }
}

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{invariant}: {found}")]
pub struct Violation {
    /// Which.
    pub invariant: Invariant,
    /// What breaks it.
    pub found: String,
}

/// Everything that is wrong with a plan; nothing if it is sound.
#[must_use]
pub fn check(plan: &Plan, job: &Job, table: &ModelTable, members: &BTreeMap<NodeId, Offer>) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut say = |invariant, found_: String| found.push(Violation { invariant, found: found_ });
    if !partitions(plan.stages.iter().map(|s| (s.blocks.start, s.blocks.end)), table.blocks.len() as u32) {
        let ranges: Vec<_> = plan.stages.iter().map(|s| &s.blocks).collect();
        say(Invariant::Stages, format!("{ranges:?} of {} blocks", table.blocks.len()));
    }
    let lanes = job.spec.parallel.virtual_replicas;
    if !partitions(plan.lanes.iter().map(|run| (run.start, run.end)), lanes) {
        say(Invariant::Lanes, format!("{:?} of {lanes} lanes", plan.lanes));
    }
    for (s, stage) in plan.stages.iter().enumerate() {
        if stage.seats.len() != plan.lanes.len() {
            let (seats, replicas) = (stage.seats.len(), plan.lanes.len());
            say(Invariant::Seats, format!("stage {s} has {seats} seats for {replicas} replicas"));
        }
        for node in stage.seats.iter().filter(|node| !members.contains_key(node)) {
            say(Invariant::Seats, format!("stage {s} has a seat on {node}, which is no member"));
        }
    }
    pieces(plan, job, table, members, &mut say);
    let used: BTreeSet<NodeId> =
        plan.seats().map(|(_, node)| node).chain(plan.pieces.iter().flat_map(PiecePlan::holders)).collect();
    let idle: Vec<NodeId> = members.keys().copied().filter(|node| !used.contains(node)).collect();
    if plan.spares != idle {
        say(Invariant::Spares, format!("spares are {:?}, idle members {idle:?}", plan.spares));
    }
    for node in &used {
        let other = members.get(node).map(|offer| offer.arithmetic).filter(|other| *other != plan.arithmetic);
        if let Some(other) = other {
            say(Invariant::Alike, format!("{node} computes {other}, the plan is {}", plan.arithmetic));
        }
    }
    // The memory formulas take the other invariants for granted.
    if found.is_empty() {
        for (node, bytes) in memory::of_plan(plan, &job.spec, table) {
            let budget = members.get(&node).map_or(0, |offer| offer.budget_bytes);
            if bytes.total() > budget {
                let found_ = format!("{node} is given {} bytes, its budget is {budget}", bytes.total());
                found.push(Violation { invariant: Invariant::Memory, found: found_ });
            }
        }
    }
    found
}

fn pieces(
    plan: &Plan,
    job: &Job,
    table: &ModelTable,
    members: &BTreeMap<NodeId, Offer>,
    say: &mut impl FnMut(Invariant, String),
) {
    let mut at = (BlockId(0), 0);
    for (id, piece) in plan.pieces() {
        let PiecePlan { block, interval, .. } = piece;
        let Some(of) = table.blocks.get(block.0 as usize) else {
            say(Invariant::Pieces, format!("{id} lies in {block}, of {} blocks", table.blocks.len()));
            return;
        };
        if (*block, interval.start) != at || interval.end > of.len || interval.start >= interval.end {
            say(Invariant::Pieces, format!("{id} is {block} {interval} where {} {} was due", at.0, at.1));
        }
        at = if interval.end >= of.len { (BlockId(block.0 + 1), 0) } else { (*block, interval.end) };
        for edge in [interval.start, interval.end] {
            if table.nearest_edge(of, edge) != edge {
                say(Invariant::Edges, format!("{id} is cut at {block} {edge}, inside what must stay whole"));
            }
        }
        let holders: Vec<NodeId> = piece.holders().collect();
        let distinct: BTreeSet<NodeId> = holders.iter().copied().collect();
        if distinct.len() != holders.len() || !distinct.iter().all(|node| members.contains_key(node)) {
            say(Invariant::Holders, format!("{id} has holders {holders:?}"));
        }
        if piece.shadows.len() > job.spec.elastic.redundancy as usize {
            let (has, most) = (piece.shadows.len(), job.spec.elastic.redundancy);
            say(Invariant::Shadows, format!("{id} has {has} shadows, {most} were asked for"));
        }
    }
    if at != (BlockId(table.blocks.len() as u32), 0) {
        say(Invariant::Pieces, format!("nothing covers {} from {} on", at.0, at.1));
    }
    let carrier = |piece: &PiecePlan| piece.block == table.head() && piece.interval.start == 0;
    if plan.pieces.iter().filter(|piece| carrier(piece)).count() != 1 {
        say(Invariant::Loss, format!("{} has no single first piece", table.head()));
    }
}

/// Whether ranges are `0..end` in order, none empty.
fn partitions(ranges: impl Iterator<Item = (u32, u32)>, end: u32) -> bool {
    let mut at = 0;
    for (start, stop) in ranges {
        if start != at || stop <= start {
            return false;
        }
        at = stop;
    }
    at == end
}
