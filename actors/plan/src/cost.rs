//! What a block costs: multiply-adds, boundary traffic, and the time a plan is predicted to take.
//!
//! Predictions rank layouts; they are not promises. Rates are those of a plain CPU core and a loopback link, stated here
//! and nowhere else.

use std::ops::Range;

use shoal_config::spec::{JobSpec, ModelSpec, Wire};
use shoal_exact::Arithmetic;

use crate::blocks::{BlockKind, HEAD_TABLE, ModelTable};
use crate::schedule::timeline::Costs;

/// Sustained floating-point operations a nanosecond and thread. Plain products take five times as long as fused ones: twice the
/// instructions on vectors half as long, and one more of what a core does at once with them.
#[must_use]
pub const fn flops_per_nanosecond(arithmetic: Arithmetic) -> u64 {
    match arithmetic {
        Arithmetic::Fused => 20,
        Arithmetic::Plain => 4,
    }
}

/// Bytes a nanosecond and link.
pub const BYTES_PER_NANOSECOND: u64 = 1;
/// Nanoseconds a message takes besides its bytes.
pub const MESSAGE_NANOSECONDS: u64 = 100_000;
/// Nanoseconds one optimizer update of one element takes a thread.
pub const UPDATE_NANOSECONDS: u64 = 6;

/// Floating-point operations of one block for one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockFlops {
    /// Forward, a head's vocabulary product apart.
    pub forward: u64,
    /// Vocabulary product (and softmax), of a head.
    pub loss: u64,
}

impl BlockFlops {
    /// Backward: each product twice, once for its input and once for its weight.
    #[must_use]
    pub fn backward(self) -> u64 {
        2 * (self.forward + self.loss)
    }

    /// All of a training step's.
    #[must_use]
    pub fn total(self) -> u64 {
        self.forward + self.loss + self.backward()
    }
}

/// Operations of a block for one sample of s tokens, width h, vocabulary V: a layer's matrices (2 s an element) and attention
/// (4 s^2 an element of all query heads); the head multiplies by a table (2 s h V) whether tied or not.
#[must_use]
pub fn block_flops(model: &ModelSpec, kind: BlockKind) -> BlockFlops {
    let (s, h, v) = (u64::from(model.context()), u64::from(model.width()), u64::from(model.vocab()));
    let queries = u64::from(model.heads()) * u64::from(model.head_size());
    match kind {
        BlockKind::Embedding => BlockFlops { forward: 2 * s * h, loss: 0 },
        BlockKind::Layer => BlockFlops { forward: 2 * s * matrices(model) + 4 * s * s * queries, loss: 0 },
        BlockKind::Head => BlockFlops { forward: 8 * s * h, loss: 2 * s * h * v },
    }
}

/// Elements of a layer's matrices: into and out of attention (h (a d + 2 k d) + a d h), and of the MLP (h f a map).
fn matrices(model: &ModelSpec) -> u64 {
    let (h, d, f) = (u64::from(model.width()), u64::from(model.head_size()), u64::from(model.inner()));
    let (queries, kv) = (d * u64::from(model.heads()), d * u64::from(model.kv_heads()));
    let maps = match model {
        ModelSpec::Gpt2(_) => 2,
        ModelSpec::Llama(_) => 3,
    };
    h * (2 * queries + 2 * kv) + maps * h * f
}

/// Floating-point operations of forward and backward for a token: 6 a parameter outside the embedding's tables and the head's,
/// 6 an element of the head's table, and 12 x layers x context x attention width (Chowdhery et al., "PaLM", appendix B; the
/// causal mask is not taken off).
#[must_use]
pub fn flop_per_token(model: &ModelSpec) -> u64 {
    let (layers, context) = (u64::from(model.layers()), u64::from(model.context()));
    let attended = u64::from(model.heads()) * u64::from(model.head_size());
    let table = ModelTable::of(model);
    let blocks = table.blocks.iter().filter(|block| block.kind != BlockKind::Embedding);
    let inside = blocks.flat_map(|block| &block.params).filter(|param| param.name != HEAD_TABLE);
    let parameters: u64 = inside.map(|param| param.interval.len()).sum();
    6 * parameters + 6 * u64::from(model.vocab()) * u64::from(model.width()) + 12 * layers * context * attended
}

/// Cost of every block for one sample of a training step, as the partition sees it.
#[must_use]
pub fn block_costs(model: &ModelSpec, table: &ModelTable) -> Vec<u64> {
    table.blocks.iter().map(|block| block_flops(model, block.kind).total()).collect()
}

/// f32 elements of one sample's activation between two blocks.
#[must_use]
pub fn boundary_elements(model: &ModelSpec) -> u64 {
    u64::from(model.context()) * u64::from(model.width())
}

/// Nanoseconds of each stage's instructions for a whole micro-batch, on nodes with `threads` compute threads of an arithmetic.
#[must_use]
pub fn stage_costs(
    spec: &JobSpec,
    table: &ModelTable,
    stages: &[Range<u32>],
    (arithmetic, threads): (Arithmetic, u32),
) -> Costs {
    let samples = u64::from(spec.train.micro_batch);
    let rate = flops_per_nanosecond(arithmetic) * u64::from(threads.max(1));
    let time = |flops: u64| (flops * samples / rate).max(1);
    let mut costs = Costs { transfer: transfer_nanoseconds(spec), ..Costs::default() };
    for blocks in stages {
        let (mut forward, mut loss, mut backward) = (0, 0, 0);
        for block in &table.blocks[blocks.start as usize..blocks.end as usize] {
            let flops = block_flops(&spec.model, block.kind);
            forward += flops.forward;
            loss += flops.loss;
            backward += flops.backward();
        }
        costs.forward.push(time(forward));
        costs.loss.push(if loss == 0 { 0 } else { time(loss) });
        costs.backward.push(time(backward));
    }
    costs
}

/// Nanoseconds of one micro-batch's activation between two nodes.
#[must_use]
pub fn transfer_nanoseconds(spec: &JobSpec) -> u64 {
    let bytes =
        spec.train.numerics.wire.dtype().bytes() * boundary_elements(&spec.model) * u64::from(spec.train.micro_batch);
    MESSAGE_NANOSECONDS + bytes / BYTES_PER_NANOSECOND
}

/// Nanoseconds after the last backward for the busiest stage, of `elements` parameters on `replicas` nodes: partial sums
/// to the owners in the wire's type, sums to `shadows` shadows, weights back, and the updates of owner and shadow shares.
#[must_use]
pub fn exchange_nanoseconds(wire: Wire, elements: u64, replicas: u64, shadows: u64, threads: u32) -> u64 {
    let share = elements.div_ceil(replicas);
    let gradients = elements - elements / replicas;
    let bytes = (wire.dtype().bytes() + 4) * gradients + 4 * shadows * share;
    let messages = if bytes == 0 { 0 } else { 3 * MESSAGE_NANOSECONDS };
    messages + bytes / BYTES_PER_NANOSECOND + share * (1 + shadows) * UPDATE_NANOSECONDS / u64::from(threads.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layers_matrices_are_those_of_its_table() {
        for preset in ["tiny", "bench-m", "llama-tiny", "llama-s"] {
            let spec = shoal_config::preset(preset, "/".as_ref()).expect("a preset");
            let table = ModelTable::of(&spec.model);
            let layer = table.blocks[1].params.iter().filter(|p| p.matrix).map(|p| p.interval.len()).sum::<u64>();
            assert_eq!(matrices(&spec.model), layer, "{preset}");
        }
    }
}
