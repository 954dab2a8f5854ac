//! The block table of a model: every parameter's shape and place in its block's flat f32 space.
//!
//! Parameters are stored with their tensor-parallel dimension major, so that a tensor slice is one run. Each starts at a
//! multiple of [`CHUNK`] elements; the gap before the next one is zero and stays zero.
//!
//! * BL-1 (a block has the parameters of its kind): a name that is asked of a block's table stands in its family's list for
//!   that kind of block.
//! * BL-2 (a head's part is of a tied table): contributions are named by [`ModelTable::units_of`], which gives none of a
//!   head that has its own table.

mod families;

use serde::{Deserialize, Serialize};
use shoal_config::spec::ModelSpec;

use crate::ids::BlockId;
use crate::space::{GradPart, GradUnit, Interval};
use crate::state::StateForm;

/// Elements whose squares are summed in f64 in a fixed order; every cut of a space is at a multiple of it.
pub const CHUNK: u64 = 16;

/// The token table.
pub const TOKEN_TABLE: &str = "wte";
/// The table of a head that does not share the embedding's, `[vocab, width]`.
pub const HEAD_TABLE: &str = "lm_head.weight";

/// All blocks of a model, in forward order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelTable {
    /// Indexed by [`BlockId`].
    pub blocks: Vec<BlockTable>,
    /// Kinds of state beside the weights.
    pub(crate) state: StateForm,
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
    /// Token table `wte [vocab, width]`, and of GPT-2 positions `wpe [context, width]`.
    Embedding,
    /// One transformer layer.
    Layer,
    /// The last norm and the product with the embedding's `wte`, or with [`HEAD_TABLE`] of its own.
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
    /// Whether it has two or more dimensions in the usual model definition: matrices decay unless a rule says otherwise, and
    /// Adafactor factors their moments.
    pub matrix: bool,
    /// Initial values.
    pub init: Init,
}

impl Param {
    /// Rows and columns as stored, leading dimensions taken together, if it has two or more dimensions in the usual model
    /// definition: some vectors are stored in several (`attn.q.bias [heads, d]`).
    #[must_use]
    pub fn matrix(&self) -> Option<(u64, u64)> {
        let columns = self.shape.last().copied().filter(|_| self.matrix)?;
        Some((self.interval.len() / columns, columns))
    }
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
    /// Normal with `init_range / sqrt(2 layers)`: a GPT-2's projections into the residual stream.
    NormalResidual,
}

impl ModelTable {
    /// The table of a model that is not trained: weights and no other state. A job has [`ModelTable::of_job`].
    #[must_use]
    pub fn of(model: &ModelSpec) -> Self {
        match model {
            ModelSpec::Gpt2(spec) => families::gpt2(spec),
            ModelSpec::Llama(spec) => families::llama(spec),
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

    /// The token table's block and place, if the head shares it.
    #[must_use]
    pub fn tied(&self) -> Option<(BlockId, Interval)> {
        let (embedding, head) = (self.block(self.embedding()), self.block(self.head()));
        head.param(HEAD_TABLE).is_none().then(|| (embedding.id, embedding.place(TOKEN_TABLE)))
    }

    /// The table that the head multiplies by: its block and place.
    #[must_use]
    pub fn head_table(&self) -> (BlockId, Interval) {
        self.tied().unwrap_or_else(|| (self.head(), self.block(self.head()).place(HEAD_TABLE)))
    }

    /// The contributions whose sum, in this order, is the block's gradient.
    #[must_use]
    pub fn units_of(&self, block: BlockId) -> Vec<GradUnit> {
        let own = GradUnit { block, part: GradPart::Own };
        match self.tied() {
            Some((tied, _)) if tied == block => vec![own, GradUnit { block, part: GradPart::TiedHead }],
            Some(_) | None => vec![own],
        }
    }

    /// The interval that a contribution covers.
    ///
    /// # Panics
    /// If it is a tied head's of a model that has none.
    #[must_use]
    pub fn extent(&self, unit: GradUnit) -> Interval {
        match unit.part {
            GradPart::Own => Interval::new(0, self.block(unit.block).len),
            GradPart::TiedHead => self.tied().expect("BL-2 (a head's part is of a tied table)").1,
        }
    }

    /// The contributions computed by whoever computes blocks `blocks`.
    #[must_use]
    pub fn units_computed_by(&self, blocks: std::ops::Range<u32>) -> Vec<GradUnit> {
        let mut units: Vec<_> = blocks.clone().map(|b| GradUnit { block: BlockId(b), part: GradPart::Own }).collect();
        if let (true, Some((block, _))) = (blocks.contains(&self.head().0), self.tied()) {
            units.push(GradUnit { block, part: GradPart::TiedHead });
        }
        units
    }

    /// The intervals whose weights a stage with these blocks computes with: its blocks, and the token table for a tied head
    /// that is not on the embedding's stage.
    #[must_use]
    pub fn weights_needed_by(&self, blocks: std::ops::Range<u32>) -> Vec<(BlockId, Interval)> {
        let mut needed: Vec<_> =
            blocks.clone().map(|b| (BlockId(b), Interval::new(0, self.blocks[b as usize].len))).collect();
        if blocks.contains(&self.head().0) && !blocks.contains(&self.embedding().0) {
            needed.extend(self.tied());
        }
        needed
    }

    /// Parameters in all, gaps not counted, the tied table once.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        self.blocks.iter().flat_map(|b| &b.params).map(|p| p.interval.len()).sum()
    }
}

impl BlockTable {
    /// The parameter of this name, if the block has it.
    #[must_use]
    pub fn param(&self, name: &str) -> Option<&Param> {
        self.params.iter().find(|param| param.name == name)
    }

    /// What one product, norm or lookup reads of the block, each: a parameter and its bias, those of neighbouring maps together.
    #[must_use]
    pub fn products(&self) -> Vec<Interval> {
        fn part(param: &Param) -> &str {
            match param.name.rsplit_once('.') {
                Some(("attn.q" | "attn.kv", _)) => "attn.qkv",
                Some(("mlp.gate" | "mlp.up", _)) => "mlp.hidden",
                Some((map, "weight" | "bias")) => map,
                Some(_) | None => &param.name,
            }
        }
        let groups = self.params.chunk_by(|a, b| part(a) == part(b));
        let whole = |params: &[Param]| Interval::new(params[0].interval.start, params[params.len() - 1].interval.end);
        groups.map(whole).collect()
    }

    /// Where the parameter of this name lies.
    ///
    /// # Panics
    /// If the block has none.
    #[must_use]
    pub fn place(&self, name: &str) -> Interval {
        let param = self.param(name);
        param.unwrap_or_else(|| panic!("BL-1 (a block has the parameters of its kind): {name} in {}", self.id)).interval
    }
}

#[cfg(test)]
mod tests;
