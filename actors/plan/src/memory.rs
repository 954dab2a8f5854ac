//! Bytes a plan takes on each node, by purpose. The planner holds a plan against the nodes' budgets with these
//! formulas, and the arenas' high-water marks are held against them in turn.
//!
//! Everything is f32 (4 bytes an element). e: elements of a piece; b x s x h: micro-batch x context x width.
//!
//! | purpose | tier | bytes |
//! |---|---|---|
//! | owned state | device | 12 e: weight, first and second moment |
//! | owned gradients | device | 4 e for each lane subtree that replicas send and for the tied part; one is the sum |
//! | seat weights | device | 4 x elements its stage computes with, the token table for a lone head included |
//! | lane sums | device | 4 x elements x (ceil(log2 lanes) + 1) open subtrees, and one micro-batch's gradient of the largest unit |
//! | stash | device | micro-batches in flight x what the stage's blocks keep for backward |
//! | logits | device | 4 b s V, and as much for their gradient; head's stage only |
//! | scratch | device | activation and gradient at both ends of the stage, 4 x 4 b s h; the widest layer's temporaries |
//! | shadow state | host | 12 e |
//! | shadow gradients | host | 4 e |

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Serialize;
use shoal_config::spec::{JobSpec, ModelSpec, Schedule};

use crate::batch::micro_batch_count;
use crate::blocks::{BlockKind, ModelTable};
use crate::ids::{BlockId, NodeId};
use crate::lanes::subtrees;
use crate::layout::Plan;
use crate::schedule::in_flight;
use crate::space::GradPart;

#[cfg(test)]
mod tests;

/// Bytes of one f32.
pub const F32: u64 = 4;
/// Bytes of state an element: weight, first and second moment.
pub const STATE: u64 = 3 * F32;

/// What one node holds under a plan, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeBytes {
    /// Owned pieces.
    pub owned_state: u64,
    /// Gradients of owned pieces, parts in waiting included.
    pub owned_gradients: u64,
    /// Compute weights of its seats.
    pub seat_weights: u64,
    /// Lane accumulators of its seats.
    pub lane_sums: u64,
    /// Kept from forward to backward.
    pub stash: u64,
    /// Logits and their gradient.
    pub logits: u64,
    /// Activations in transit and temporaries.
    pub scratch: u64,
    /// Shadowed pieces, host tier.
    pub shadow_state: u64,
    /// Gradients of shadowed pieces, host tier.
    pub shadow_gradients: u64,
}

impl NodeBytes {
    /// Device tier.
    #[must_use]
    pub fn device(&self) -> u64 {
        self.owned_state
            + self.owned_gradients
            + self.seat_weights
            + self.lane_sums
            + self.stash
            + self.logits
            + self.scratch
    }

    /// Host tier.
    #[must_use]
    pub fn host(&self) -> u64 {
        self.shadow_state + self.shadow_gradients
    }

    /// Both tiers.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.device() + self.host()
    }

    fn add(&mut self, other: Self) {
        self.owned_state += other.owned_state;
        self.owned_gradients += other.owned_gradients;
        self.seat_weights += other.seat_weights;
        self.lane_sums += other.lane_sums;
        self.stash += other.stash;
        self.logits += other.logits;
        self.scratch += other.scratch;
        self.shadow_state += other.shadow_state;
        self.shadow_gradients += other.shadow_gradients;
    }
}

/// What a seat must know of its surroundings to be weighed.
#[derive(Clone, Debug)]
pub struct SeatShape {
    /// Blocks of its stage.
    pub blocks: Range<u32>,
    /// Its stage.
    pub stage: u32,
    /// Stages in all.
    pub stages: u32,
    /// Lanes of its replica.
    pub lanes: u32,
    /// Micro-batches of its replica in a step.
    pub micro_batches: u32,
    /// Order of micro-batches.
    pub schedule: Schedule,
}

/// f32 elements that one block keeps for the backward of one sample: inputs of products and of nonlinear functions.
/// A layer keeps its input, both normalised inputs, q, k, v, attention weights, attention output, the residual between
/// and the MLP's inner values before and after GELU: 16 s h + a s^2 + 4 s for the row statistics.
#[must_use]
pub fn stash_elements(model: &ModelSpec, kind: BlockKind) -> u64 {
    let ModelSpec::Gpt2(m) = model;
    let (s, h, a) = (u64::from(m.context), u64::from(m.width), u64::from(m.heads));
    match kind {
        BlockKind::Embedding => s,
        BlockKind::Layer => 16 * s * h + a * s * s + 4 * s,
        BlockKind::Head => 2 * s * h + 2 * s,
    }
}

/// A seat's part of its node's bytes.
#[must_use]
pub fn seat_bytes(spec: &JobSpec, table: &ModelTable, seat: &SeatShape) -> NodeBytes {
    let ModelSpec::Gpt2(m) = &spec.model;
    let samples = u64::from(spec.train.micro_batch);
    let (s, h, v) = (u64::from(m.context), u64::from(m.width), u64::from(m.vocab));
    let blocks = &table.blocks[seat.blocks.start as usize..seat.blocks.end as usize];
    let mut computed: u64 = blocks.iter().map(|block| block.len).sum();
    let mut largest = blocks.iter().map(|block| block.len).max().unwrap_or(0);
    let head = seat.blocks.contains(&table.head().0);
    let mut weights = computed;
    if head {
        let tied = table.tied().1.len();
        computed += tied;
        largest = largest.max(tied);
        if !seat.blocks.contains(&table.embedding().0) {
            weights += tied;
        }
    }
    let open = u64::from(seat.lanes.max(1).next_power_of_two().trailing_zeros()) + 1;
    let kept: u64 = blocks.iter().map(|block| stash_elements(&spec.model, block.kind)).sum();
    let flying = u64::from(in_flight(seat.schedule, seat.stage, seat.stages, seat.micro_batches));
    let activation = samples * s * h;
    NodeBytes {
        seat_weights: F32 * weights,
        lane_sums: F32 * (computed * open + largest),
        stash: F32 * flying * samples * kept,
        logits: if head { F32 * 2 * samples * s * v } else { 0 },
        scratch: F32 * (4 * activation + 6 * activation),
        ..NodeBytes::default()
    }
}

/// An owned piece's part of its owner's bytes; `parts` subtree sums reach it for each contribution.
#[must_use]
pub fn owned_bytes(elements: u64, tied_elements: u64, parts: u64) -> NodeBytes {
    NodeBytes {
        owned_state: STATE * elements,
        owned_gradients: F32 * parts * (elements + tied_elements),
        ..NodeBytes::default()
    }
}

/// A shadow's part of its node's bytes.
#[must_use]
pub fn shadow_bytes(elements: u64) -> NodeBytes {
    NodeBytes { shadow_state: STATE * elements, shadow_gradients: F32 * elements, ..NodeBytes::default() }
}

/// Subtree sums that all replicas send for one contribution.
#[must_use]
pub fn parts(lanes: u32, runs: &[Range<u32>]) -> u64 {
    runs.iter().map(|run| subtrees(lanes, run.clone()).len() as u64).sum()
}

/// Elements of a piece that the head's stage contributes to as well.
#[must_use]
pub fn tied_elements(table: &ModelTable, block: BlockId, interval: crate::space::Interval) -> u64 {
    let tied = table.units_of(block).into_iter().find(|unit| unit.part == GradPart::TiedHead);
    tied.and_then(|unit| table.extent(unit).intersection(interval)).map_or(0, crate::space::Interval::len)
}

/// Bytes of every node that a plan gives something.
#[must_use]
pub fn of_plan(plan: &Plan, spec: &JobSpec, table: &ModelTable) -> BTreeMap<NodeId, NodeBytes> {
    let mut nodes: BTreeMap<NodeId, NodeBytes> = BTreeMap::new();
    for (seat, node) in plan.seats() {
        let run = plan.lanes[usize::from(seat.replica.0)].clone();
        let shape = SeatShape {
            blocks: plan.stages[usize::from(seat.stage.0)].blocks.clone(),
            stage: u32::from(seat.stage.0),
            stages: plan.stages.len() as u32,
            lanes: run.end - run.start,
            micro_batches: micro_batch_count(spec, run),
            schedule: plan.schedule,
        };
        nodes.entry(node).or_default().add(seat_bytes(spec, table, &shape));
    }
    let parts = parts(spec.parallel.virtual_replicas, &plan.lanes);
    for piece in &plan.pieces {
        let tied = tied_elements(table, piece.block, piece.interval);
        nodes.entry(piece.owner).or_default().add(owned_bytes(piece.interval.len(), tied, parts));
        for shadow in &piece.shadows {
            nodes.entry(*shadow).or_default().add(shadow_bytes(piece.interval.len()));
        }
    }
    nodes
}
