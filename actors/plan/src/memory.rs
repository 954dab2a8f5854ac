//! Bytes a plan takes on each node, by purpose. The planner holds a plan against the nodes' budgets with these
//! formulas, and the arenas' high-water marks are held against them in turn.
//!
//! Everything is f32 (4 bytes an element). e: elements of a piece; b, s, h, V, a: micro-batch, context, width, vocabulary,
//! heads; w: elements whose weights a stage computes with, the token table for a lone head included.
//!
//! | purpose | tier | bytes |
//! |---|---|---|
//! | owned state | device | 12 e: weight, first and second moment |
//! | owned gradients | device | 4 e for each lane subtree that replicas send, for own and tied part; one becomes the sum |
//! | seat weights | device | 4 w |
//! | lane sums | device | 4 x elements differentiated x (ceil(log2 lanes) + 1) open subtrees; with a wire type and more than one micro-batch a lane, those of the largest contribution once more: a gradient before it is rounded |
//! | stash | device | 4 b x micro-batches in flight x ((10 h + a + 4) s a layer, s h a head) |
//! | logits | device | 4 t V for a tile of t rows, all b s of them where a lane has several micro-batches and nothing is rounded, else at most 512; and 4 b s (h + 2) from loss to backward; head's stage only |
//! | scratch | device | 4 x 9 b s h: the gradient that flows back, and the MLP's inner values after GELU with their gradient |
//! | transit | device | 4 x 4 b s h: an activation and a gradient at either end; 4 w: new weights before they are copied in |
//! | shadow state | host | 12 e |
//! | shadow gradients | host | 4 e |
//!
//! While state moves, what was held stays until training goes on: 12 e of the old pieces, 12 e of each new piece that is
//! not one of them, and 4 w; gradients, lane sums, stash and logits are gone by then.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Serialize;
use shoal_config::spec::{JobSpec, ModelSpec, Schedule, Wire};

use crate::batch::{context, micro_batch_count};
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
/// Rows whose logits are there at once, where a lane has one micro-batch: one slice of the contraction that makes the token
/// table's gradient.
pub const LOGIT_ROWS: u64 = 512;
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
    /// The gradient that flows back, and temporaries.
    pub scratch: u64,
    /// Arrived and leaving.
    pub transit: u64,
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
            + self.transit
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
        self.transit += other.transit;
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

/// f32 elements that one block keeps of one sample from forward to backward. A layer keeps its input, q, k, v, the attended
/// values, the residual between, and the MLP's inner values before GELU (10 h a token), the softmax statistics of each head
/// and those of two LayerNorms.
#[must_use]
pub fn stash_elements(model: &ModelSpec, kind: BlockKind) -> u64 {
    let (s, h, a) = (u64::from(model.context()), u64::from(model.width()), u64::from(model.heads()));
    match kind {
        BlockKind::Embedding => 0,
        BlockKind::Layer => (10 * h + a + 4) * s,
        BlockKind::Head => s * h,
    }
}

/// Rows of a micro-batch whose logits are there at once in training.
#[must_use]
pub fn logit_rows(spec: &JobSpec) -> u64 {
    let (train, lanes) = (&spec.train, spec.parallel.virtual_replicas);
    let rows = u64::from(train.micro_batch) * context(spec);
    let one = train.global_batch.div_ceil(lanes) <= train.micro_batch;
    match train.numerics.wire {
        Wire::Fp32 if !one => rows,
        Wire::Fp32 | Wire::Bf16 => rows.min(LOGIT_ROWS),
    }
}

/// A seat's part of its node's bytes.
#[must_use]
pub fn seat_bytes(spec: &JobSpec, table: &ModelTable, seat: &SeatShape) -> NodeBytes {
    let m = &spec.model;
    let samples = u64::from(spec.train.micro_batch);
    let (s, h, v) = (u64::from(m.context()), u64::from(m.width()), u64::from(m.vocab()));
    let blocks = &table.blocks[seat.blocks.start as usize..seat.blocks.end as usize];
    let mut differentiated: u64 = blocks.iter().map(|block| block.len).sum();
    let mut weights = differentiated;
    let head = seat.blocks.contains(&table.head().0);
    if head {
        let tied = table.tied().1.len();
        differentiated += tied;
        if !seat.blocks.contains(&table.embedding().0) {
            weights += tied;
        }
    }
    let open = u64::from(seat.lanes.max(1).next_power_of_two().trailing_zeros()) + 1;
    let kept: u64 = blocks.iter().map(|block| stash_elements(&spec.model, block.kind)).sum();
    let flying = u64::from(in_flight(seat.schedule, seat.stage, seat.stages, seat.micro_batches));
    let activation = samples * s * h;
    let single = match spec.train.numerics.wire {
        Wire::Bf16 if seat.micro_batches > seat.lanes => {
            let tied = if head { table.tied().1.len() } else { 0 };
            blocks.iter().map(|block| block.len).max().unwrap_or(0).max(tied)
        }
        Wire::Bf16 | Wire::Fp32 => 0,
    };
    NodeBytes {
        seat_weights: F32 * weights,
        lane_sums: F32 * (differentiated * open + single),
        stash: F32 * flying * samples * kept,
        logits: if head { F32 * (logit_rows(spec) * v + samples * s * (h + 2)) } else { 0 },
        scratch: F32 * 9 * activation,
        transit: F32 * (4 * activation + weights),
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
