//! The block table of a model: every parameter's shape and place in its block's flat f32 space.
//!
//! Parameters are stored with their tensor-parallel dimension major, so that a tensor slice is one run. Each starts at a
//! multiple of [`CHUNK`] elements; the gap before the next one is zero and stays zero.

use serde::{Deserialize, Serialize};
use shoal_config::spec::{Gpt2Spec, ModelSpec};

use crate::ids::BlockId;
use crate::space::{GradPart, GradUnit, Interval};

/// Elements whose squares are summed in f64 in a fixed order; every cut of a space is at a multiple of it.
pub const CHUNK: u64 = 16;

/// All blocks of a model, in forward order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelTable {
    /// Indexed by [`BlockId`].
    pub blocks: Vec<BlockTable>,
}

/// One block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockTable {
    /// Its name.
    pub id: BlockId,
    /// What it computes.
    pub kind: BlockKind,
    /// Its parameters, ascending in the space.
    pub params: Vec<Param>,
    /// Elements of its space.
    pub len: u64,
}

/// What a block computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BlockKind {
    /// Token and position tables: `wte [vocab, width]`, `wpe [context, width]`.
    Embedding,
    /// One transformer layer.
    Layer,
    /// Final LayerNorm and the product with the embedding's `wte`.
    Head,
}

/// One parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Param {
    /// Name within the block, e.g. `attn.kv.weight`.
    pub name: String,
    /// Row-major shape as stored.
    pub shape: Vec<u64>,
    /// Where it lies in the block's space.
    pub interval: Interval,
    /// Weight decay applies (two or more dimensions in the usual model definition).
    pub decay: bool,
    /// Initial values.
    pub init: Init,
}

/// Initial values of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Init {
    /// All zero.
    Zeros,
    /// All one.
    Ones,
    /// Normal with mean 0 and the job's `init_range`.
    Normal,
    /// Normal with `init_range / sqrt(2 layers)`: projections into the residual stream.
    NormalResidual,
}

impl ModelTable {
    /// The table of a model.
    #[must_use]
    pub fn of(model: &ModelSpec) -> Self {
        match model {
            ModelSpec::Gpt2(spec) => gpt2(spec),
        }
    }

    /// One block.
    #[must_use]
    pub fn block(&self, id: BlockId) -> &BlockTable {
        &self.blocks[id.0 as usize]
    }

    /// The embedding block.
    #[must_use]
    pub fn embedding(&self) -> BlockId {
        BlockId(0)
    }

    /// The head block.
    #[must_use]
    pub fn head(&self) -> BlockId {
        BlockId(self.blocks.len() as u32 - 1)
    }

    /// The token table, which the head shares: its block and place.
    #[must_use]
    pub fn tied(&self) -> (BlockId, Interval) {
        (self.embedding(), self.blocks[0].params[0].interval)
    }

    /// The contributions whose sum, in this order, is the block's gradient.
    #[must_use]
    pub fn units_of(&self, block: BlockId) -> Vec<GradUnit> {
        let own = GradUnit { block, part: GradPart::Own };
        if block == self.embedding() { vec![own, GradUnit { block, part: GradPart::TiedHead }] } else { vec![own] }
    }

    /// The interval that a contribution covers.
    #[must_use]
    pub fn extent(&self, unit: GradUnit) -> Interval {
        match unit.part {
            GradPart::Own => Interval::new(0, self.block(unit.block).len),
            GradPart::TiedHead => self.tied().1,
        }
    }

    /// The contributions computed by whoever computes blocks `blocks`.
    #[must_use]
    pub fn units_computed_by(&self, blocks: std::ops::Range<u32>) -> Vec<GradUnit> {
        let mut units: Vec<_> = blocks.clone().map(|b| GradUnit { block: BlockId(b), part: GradPart::Own }).collect();
        if blocks.contains(&self.head().0) {
            units.push(GradUnit { block: self.embedding(), part: GradPart::TiedHead });
        }
        units
    }

    /// The intervals whose weights a stage with these blocks computes with: its blocks, and the token table for a head
    /// that is not on the embedding's stage.
    #[must_use]
    pub fn weights_needed_by(&self, blocks: std::ops::Range<u32>) -> Vec<(BlockId, Interval)> {
        let mut needed: Vec<_> =
            blocks.clone().map(|b| (BlockId(b), Interval::new(0, self.blocks[b as usize].len))).collect();
        if blocks.contains(&self.head().0) && !blocks.contains(&self.embedding().0) {
            needed.push(self.tied());
        }
        needed
    }

    /// Parameters in all, gaps not counted, the tied table once.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        self.blocks.iter().flat_map(|b| &b.params).map(|p| p.interval.len()).sum()
    }
}

fn gpt2(spec: &Gpt2Spec) -> ModelTable {
    let (h, v, s) = (u64::from(spec.width), u64::from(spec.vocab), u64::from(spec.context));
    let (heads, d) = (u64::from(spec.heads), u64::from(spec.width / spec.heads));
    let mut blocks = vec![table(
        BlockKind::Embedding,
        &[("wte", &[v, h], true, Init::Normal), ("wpe", &[s, h], true, Init::Normal)],
    )];
    for _ in 0..spec.layers {
        blocks.push(table(
            BlockKind::Layer,
            &[
                ("ln_1.weight", &[h], false, Init::Ones),
                ("ln_1.bias", &[h], false, Init::Zeros),
                // q and kv weights are neighbours, so that one product serves both: [3h, h].
                ("attn.q.weight", &[heads, d, h], true, Init::Normal),
                ("attn.kv.weight", &[heads, 2, d, h], true, Init::Normal),
                ("attn.q.bias", &[heads, d], false, Init::Zeros),
                ("attn.kv.bias", &[heads, 2, d], false, Init::Zeros),
                ("attn.proj.weight", &[h, h], true, Init::NormalResidual),
                ("attn.proj.bias", &[h], false, Init::Zeros),
                ("ln_2.weight", &[h], false, Init::Ones),
                ("ln_2.bias", &[h], false, Init::Zeros),
                ("mlp.fc.weight", &[4 * h, h], true, Init::Normal),
                ("mlp.fc.bias", &[4 * h], false, Init::Zeros),
                ("mlp.proj.weight", &[4 * h, h], true, Init::NormalResidual),
                ("mlp.proj.bias", &[h], false, Init::Zeros),
            ],
        ));
    }
    blocks.push(table(
        BlockKind::Head,
        &[("ln_f.weight", &[h], false, Init::Ones), ("ln_f.bias", &[h], false, Init::Zeros)],
    ));
    for (i, block) in blocks.iter_mut().enumerate() {
        block.id = BlockId(i as u32);
    }
    ModelTable { blocks }
}

fn table(kind: BlockKind, params: &[(&str, &[u64], bool, Init)]) -> BlockTable {
    let mut at = 0;
    let params = params
        .iter()
        .map(|&(name, shape, decay, init)| {
            let interval = Interval::new(at, at + shape.iter().product::<u64>());
            at = interval.end.next_multiple_of(CHUNK);
            Param { name: name.to_owned(), shape: shape.to_vec(), interval, decay, init }
        })
        .collect();
    BlockTable { id: BlockId(0), kind, params, len: at }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(layers: u32, heads: u32, width: u32, context: u32, vocab: u32) -> ModelSpec {
        ModelSpec::Gpt2(Gpt2Spec {
            layers,
            heads,
            width,
            context,
            vocab,
            dropout: 0.0,
            layer_norm_epsilon: 1e-5,
            init_range: 0.02,
        })
    }

    /// Counts of GPT-2 (124M) and of the reference model used for byte formulas.
    #[test]
    fn parameter_counts() {
        assert_eq!(ModelTable::of(&spec(12, 12, 768, 1024, 50257)).parameters(), 124_439_808);
        let tiny = ModelTable::of(&spec(4, 4, 64, 32, 512));
        assert_eq!(tiny.parameters(), 234_880);
        assert_eq!(tiny.blocks[1].params.iter().map(|p| p.interval.len()).sum::<u64>(), 49_984);
    }

    #[test]
    fn parameters_are_aligned_and_apart() {
        for block in ModelTable::of(&spec(2, 3, 48, 10, 65)).blocks {
            let mut end = 0;
            for p in &block.params {
                assert!(p.interval.start >= end && p.interval.start % CHUNK == 0);
                end = p.interval.end;
            }
            assert!(block.len >= end && block.len % CHUNK == 0);
        }
    }
}
