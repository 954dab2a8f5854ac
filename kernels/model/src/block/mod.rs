//! The blocks of a network, forward and backward, built from device operations.
//!
//! [`embedding`] -> [`layer`] x n -> [`head`]. Rows are tokens: `rows = samples x context`. A forward pass in training
//! keeps what its backward needs as [`Tag::Stash`]; in evaluation nothing outlives it. Norm outputs are computed again
//! in the backward pass: cheaper than keeping them, and the same bits.

pub(crate) mod embedding;
pub(crate) mod head;
pub(crate) mod layer;
mod map;
pub(crate) mod norm;

use std::ops::Range;

use shoal_config::JobSpec;
use shoal_kernels::{Arena, ArenaError, Buffer, Device, Dropout, DropoutKey, DropoutSite, Tag};
use shoal_plan::blocks::BlockTable;
use shoal_plan::ids::BlockId;

use crate::kv_cache::KvCache;
use crate::rounding::Rounding;
use crate::weights::Weights;
use norm::Norm;

/// Which pass over the model a call belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Forward, loss and backward of a step, counted from 1: it names the dropout masks.
    Train {
        /// The step that the pass leads to.
        step: u64,
    },
    /// Forward and loss: no dropout, nothing kept.
    Evaluate,
}

/// Sizes that every block needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) context: usize,
    pub(crate) width: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_size: usize,
    pub(crate) inner: usize,
    pub(crate) vocab: usize,
    pub(crate) epsilon: f32,
    pub(crate) stored: Rounding,
    dropout: f32,
    attention_dropout: f32,
    seed: u64,
}

impl Sizes {
    pub(crate) fn of(spec: &JobSpec) -> Self {
        let model = &spec.model;
        Self {
            context: model.context() as usize,
            width: model.width() as usize,
            heads: model.heads() as usize,
            kv_heads: model.kv_heads() as usize,
            head_size: model.head_size() as usize,
            inner: model.inner() as usize,
            vocab: model.vocab() as usize,
            epsilon: model.norm_epsilon(),
            stored: Rounding::of_precision(spec),
            dropout: model.dropout(),
            attention_dropout: model.attention_dropout(),
            seed: spec.seed,
        }
    }

    /// For so many tokens of one sample.
    pub(crate) fn of_tokens(&self, tokens: usize) -> Self {
        Self { context: tokens, ..*self }
    }
}

/// What a block needs to compute one micro-batch.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    pub(crate) device: &'a Device,
    pub(crate) arena: &'a Arena,
    pub(crate) weights: &'a Weights,
    /// Turns of positions, of models that have them.
    pub(crate) rotary: Option<&'a Buffer>,
    pub(crate) sizes: &'a Sizes,
    pub(crate) samples: &'a [u64],
    pub(crate) phase: Phase,
    /// Tokens of the one sample that came before these.
    pub(crate) cache: Option<&'a KvCache>,
}

impl<'a> Scope<'a> {
    /// For whole samples.
    pub(crate) fn of(
        (device, arena): (&'a Device, &'a Arena),
        (weights, rotary): (&'a Weights, Option<&'a Buffer>),
        sizes: &'a Sizes,
        samples: &'a [u64],
        phase: Phase,
    ) -> Self {
        Self { device, arena, weights, rotary, sizes, samples, phase, cache: None }
    }

    /// Position of the first token.
    pub(crate) fn first(&self) -> usize {
        self.cache.map_or(0, KvCache::len)
    }

    /// Tokens of the micro-batch.
    pub(crate) fn rows(&self) -> usize {
        self.samples.len() * self.sizes.context
    }

    /// Room for `columns` elements a token.
    pub(crate) fn per_row(&self, tag: Tag, columns: usize) -> Result<Buffer, ArenaError> {
        self.arena.alloc(tag, self.rows() * columns)
    }

    /// How memory counts that a backward pass would need.
    pub(crate) fn kept(&self) -> Tag {
        match self.phase {
            Phase::Train { .. } => Tag::Stash,
            Phase::Evaluate => Tag::Temporary,
        }
    }

    /// The mask of a site, if this pass drops anything.
    pub(crate) fn dropout(&self, block: BlockId, site: DropoutSite) -> Option<Dropout<'a>> {
        let probability = match site {
            DropoutSite::Attention => self.sizes.attention_dropout,
            DropoutSite::Embedding | DropoutSite::AttentionOutput | DropoutSite::MlpOutput => self.sizes.dropout,
        };
        match self.phase {
            Phase::Train { step } if probability > 0.0 => Some(Dropout {
                key: DropoutKey { seed: self.sizes.seed, step, block: block.0, site },
                probability,
                samples: self.samples,
            }),
            Phase::Train { .. } | Phase::Evaluate => None,
        }
    }
}

/// Where a parameter lies in its block.
fn range(table: &BlockTable, name: &str) -> Range<usize> {
    table.place(name).range()
}
