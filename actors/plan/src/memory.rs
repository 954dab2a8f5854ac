//! Bytes a plan takes on each node, by purpose. The planner holds a plan against the nodes' budgets with these
//! formulas, and the arenas' high-water marks are held against them in turn.
//!
//! Everything is f32 (4 bytes an element) unless said otherwise. e: elements of a piece; b, s, h, V, a, k, d, f: micro-batch, context, width,
//! vocabulary, query heads, key and value heads, elements of a head, width inside the MLP; n: elements of a norm's statistics a
//! token (LayerNorm 2, RMSNorm 1); g: maps into the MLP (GELU 1, SwiGLU 2); w: elements whose weights a stage computes with, the
//! token table for a lone tied head included; u: the most of them that one product reads; r: elements of the rotary table, d s on a
//! stage with a layer that turns.
//!
//! | purpose | tier | bytes |
//! |---|---|---|
//! | owned state | device | 4 (k e + f): weight and moments are k kinds (AdamW: 3); f factors (Adafactor: rows + columns of a matrix) |
//! | owned gradients | device | 4 e for each lane subtree that replicas send, for own and tied part; one becomes the sum |
//! | seat weights | device | 4 (w + r); with precision bf16 or fp16, 2 w + 4 r |
//! | lane sums | device | 4 x elements differentiated x (ceil(log2 lanes) + 1) open subtrees; with a wire type and more than one micro-batch a lane, those of the largest contribution once more: a gradient before it is rounded |
//! | stash | device | 4 b s x micro-batches in flight x (2 h + 2 a d + 2 k d + g f + a + 2 n a layer, h a head); with precision bf16 or fp16, 2 in place of 4 for all but a + 2 n |
//! | logits | device | 4 t V for a tile of t rows, all b s of them where a lane has several micro-batches and nothing is rounded, else at most 512; and 4 b s (h + n) from loss to backward; head's stage only |
//! | scratch | device | 4 b s h with dropout, the gradient before it; and 4 b s x (h + the most of 2 f, 2 a d + 2 k d, 2 h + a d + 2 k d): the gradient that flows back, and the MLP's inner values with their gradient, or attention's; with precision bf16 or fp16, 8 b s h + 4 x the most of b s (4 a d + 4 k d) and b s x (the most of g f + 2 f, 2 h + g f, 2 h + a d + 2 k d) + u: what is kept in halves is made, and opened again, beside it, and the weights of one product are widened |
//! | transit | device | 4 x 4 b s h: an activation and a gradient at either end; 4 w: new weights before they are copied in |
//! | shadow state | host | 4 (k e + f) |
//! | shadow gradients | host | 4 e |
//!
//! While state moves, what was held stays until training goes on: 4 (k e + f) of the old pieces, as much of each new piece that is
//! not one of them, and the seat weights; gradients, lane sums, stash and logits are gone by then.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Serialize;
use shoal_config::spec::{JobSpec, ModelSpec, Precision, Schedule, Wire};

use crate::batch::{context, micro_batch_count};
use crate::blocks::{BlockKind, ModelTable};
use crate::ids::{BlockId, NodeId};
use crate::lanes::subtrees;
use crate::layout::Plan;
use crate::schedule::in_flight;
use crate::space::{GradPart, Interval};

#[cfg(test)]
mod tests;
pub mod whole;

/// Bytes of one f32.
pub const F32: u64 = 4;
/// Rows whose logits are there at once, where a lane has one micro-batch: one slice of the contraction that makes the token
/// table's gradient.
pub const LOGIT_ROWS: u64 = 512;

/// What one node holds under a plan, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeBytes {
    /// Owned pieces.
    pub owned_state: u64,
    /// Gradients of owned pieces, parts in waiting included.
    pub owned_gradients: u64,
    /// Compute weights of its seats, and what else is constant there.
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

/// Elements a token that the parts of a layer make.
struct Rows {
    /// Between blocks.
    width: u64,
    /// All query heads.
    queries: u64,
    /// All keys and values.
    kv: u64,
    /// Inside the MLP.
    inner: u64,
    /// Statistics of one norm.
    norm: u64,
    /// What the MLP's first product gives: one map or two.
    hidden: u64,
    /// The gradient before a dropout, if anything is dropped.
    dropped: u64,
}

impl Rows {
    fn of(model: &ModelSpec) -> Self {
        let (d, inner) = (u64::from(model.head_size()), u64::from(model.inner()));
        let (norm, hidden) = match model {
            ModelSpec::Gpt2(_) => (2, inner),
            ModelSpec::Llama(_) => (1, 2 * inner),
        };
        let (queries, kv) = (d * u64::from(model.heads()), 2 * d * u64::from(model.kv_heads()));
        let width = u64::from(model.width());
        Self { width, queries, kv, inner, norm, hidden, dropped: if model.dropout() > 0.0 { width } else { 0 } }
    }

    /// Elements for `tokens` tokens, where one product reads `opened()` elements of weights at most.
    fn scratch(&self, precision: Precision, tokens: u64, opened: impl FnOnce() -> u64) -> u64 {
        let Self { width, queries, kv, inner, hidden, dropped, .. } = *self;
        let mapped = 2 * width + queries + kv;
        tokens * dropped
            + match precision {
                Precision::Fp32 => tokens * (width + (2 * inner).max(2 * queries + kv).max(mapped)),
                // What is kept in halves is made, and opened again, beside it. Attention reads no weights.
                Precision::Bf16 | Precision::Fp16(_) => {
                    let product = tokens * mapped.max(hidden + 2 * inner).max(2 * width + hidden) + opened();
                    tokens * 2 * width + product.max(tokens * (4 * queries + 2 * kv))
                }
            }
    }

    /// Of a layer: rows that are kept in the job's precision, and statistics.
    fn kept(&self, model: &ModelSpec) -> (u64, u64) {
        let rows = 2 * self.width + 2 * self.queries + self.kv + self.hidden;
        (rows, u64::from(model.heads()) + 2 * self.norm)
    }
}

/// Bytes that one block keeps of one sample from forward to backward. A layer keeps its input, q, k, v, the attended
/// values, the residual between, the MLP's inner values before its activation, the softmax statistics of each head and those
/// of two norms.
#[must_use]
pub fn stash_bytes(spec: &JobSpec, kind: BlockKind) -> u64 {
    let model = &spec.model;
    let rows = Rows::of(model);
    let bytes = spec.train.numerics.precision.dtype().bytes();
    let each = match kind {
        BlockKind::Embedding => 0,
        BlockKind::Layer => {
            let (wide, statistics) = rows.kept(model);
            bytes * wide + F32 * statistics
        }
        BlockKind::Head => bytes * rows.width,
    };
    each * u64::from(model.context())
}

/// f32 elements of the rotary table that a stage with these blocks keeps beside its weights.
#[must_use]
pub fn rotary_elements(model: &ModelSpec, table: &ModelTable, blocks: &Range<u32>) -> u64 {
    let turns = match model {
        ModelSpec::Gpt2(_) => false,
        ModelSpec::Llama(_) => {
            table.blocks[blocks.start as usize..blocks.end as usize].iter().any(|block| block.kind == BlockKind::Layer)
        }
    };
    if turns { u64::from(model.head_size()) * u64::from(model.context()) } else { 0 }
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

/// The most elements of weights that one product of these blocks reads. Of the embedding's tables only a tied head's product reads
/// one; a lookup opens the rows of its tokens, which is less than what else a layer's seat has at a time.
fn opened(table: &ModelTable, blocks: &Range<u32>) -> u64 {
    let tied = table.tied().filter(|_| blocks.contains(&table.head().0)).map(|(block, _)| block);
    let needed = table.weights_needed_by(blocks.clone()).into_iter();
    let read = needed.filter(|(block, _)| table.block(*block).kind != BlockKind::Embedding || tied == Some(*block));
    let each = read.map(|(block, interval)| {
        let products = table.block(block).products().into_iter().filter_map(|product| product.intersection(interval));
        products.map(Interval::len).max().unwrap_or(0)
    });
    each.max().unwrap_or(0)
}

/// A seat's part of its node's bytes.
#[must_use]
pub fn seat_bytes(spec: &JobSpec, table: &ModelTable, seat: &SeatShape) -> NodeBytes {
    let rows = Rows::of(&spec.model);
    let tokens = u64::from(spec.train.micro_batch) * u64::from(spec.model.context());
    let blocks = &table.blocks[seat.blocks.start as usize..seat.blocks.end as usize];
    let mut differentiated: u64 = blocks.iter().map(|block| block.len).sum();
    let mut weights = differentiated;
    let head = seat.blocks.contains(&table.head().0);
    if let (true, Some((block, interval))) = (head, table.tied()) {
        differentiated += interval.len();
        if !seat.blocks.contains(&block.0) {
            weights += interval.len();
        }
    }
    let open = u64::from(seat.lanes.max(1).next_power_of_two().trailing_zeros()) + 1;
    let kept: u64 = blocks.iter().map(|block| stash_bytes(spec, block.kind)).sum();
    let flying = u64::from(in_flight(seat.schedule, seat.stage, seat.stages, seat.micro_batches));
    let vocab = u64::from(spec.model.vocab());
    let single = match spec.train.numerics.wire {
        Wire::Bf16 if seat.micro_batches > seat.lanes => {
            let tied = table.tied().filter(|_| head).map_or(0, |(_, interval)| interval.len());
            blocks.iter().map(|block| block.len).max().unwrap_or(0).max(tied)
        }
        Wire::Bf16 | Wire::Fp32 => 0,
    };
    let precision = spec.train.numerics.precision;
    NodeBytes {
        seat_weights: precision.dtype().bytes() * weights + F32 * rotary_elements(&spec.model, table, &seat.blocks),
        lane_sums: F32 * (differentiated * open + single),
        stash: flying * u64::from(spec.train.micro_batch) * kept,
        logits: if head { F32 * (logit_rows(spec) * vocab + tokens * (rows.width + rows.norm)) } else { 0 },
        scratch: F32 * rows.scratch(precision, tokens, || opened(table, &seat.blocks)),
        transit: F32 * (4 * tokens * rows.width + weights),
        ..NodeBytes::default()
    }
}

/// An owned piece's part of its owner's bytes, `state` of them state; `parts` subtree sums reach it for each contribution.
#[must_use]
pub fn owned_bytes(state: u64, elements: u64, tied_elements: u64, parts: u64) -> NodeBytes {
    NodeBytes { owned_state: state, owned_gradients: F32 * parts * (elements + tied_elements), ..NodeBytes::default() }
}

/// A shadow's part of its node's bytes, `state` of them state.
#[must_use]
pub fn shadow_bytes(state: u64, elements: u64) -> NodeBytes {
    NodeBytes { shadow_state: state, shadow_gradients: F32 * elements, ..NodeBytes::default() }
}

/// Subtree sums that all replicas send for one contribution.
#[must_use]
pub fn parts(lanes: u32, runs: &[Range<u32>]) -> u64 {
    runs.iter().map(|run| subtrees(lanes, run.clone()).len() as u64).sum()
}

/// Elements of a piece that the head's stage contributes to as well.
#[must_use]
pub fn tied_elements(table: &ModelTable, block: BlockId, interval: Interval) -> u64 {
    let tied = table.units_of(block).into_iter().find(|unit| unit.part == GradPart::TiedHead);
    tied.and_then(|unit| table.extent(unit).intersection(interval)).map_or(0, Interval::len)
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
        let state = table.state_bytes(piece.block, piece.interval);
        nodes.entry(piece.owner).or_default().add(owned_bytes(state, piece.interval.len(), tied, parts));
        for shadow in &piece.shadows {
            nodes.entry(*shadow).or_default().add(shadow_bytes(state, piece.interval.len()));
        }
    }
    nodes
}
