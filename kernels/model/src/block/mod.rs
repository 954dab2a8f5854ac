//! The blocks of a network, forward and backward, built from device operations.
//!
//! [`embedding`] -> [`layer`] x n -> [`head`]. Rows are tokens: `rows = samples x context`. A forward pass in training
//! keeps what its backward needs as [`Tag::Stash`]; in evaluation nothing outlives it. LayerNorm outputs are computed again
//! in the backward pass: cheaper than keeping them, and the same bits.

pub(crate) mod embedding;
pub(crate) mod head;
pub(crate) mod layer;

use std::ops::Range;

use shoal_config::JobSpec;
use shoal_kernels::{Arena, ArenaError, Buffer, Device, Dropout, DropoutKey, DropoutSite, NormParams, Tag, Write};
use shoal_plan::blocks::BlockTable;
use shoal_plan::ids::BlockId;

use crate::sums::Accumulator;
use crate::weights::Weights;

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
    pub(crate) vocab: usize,
    pub(crate) epsilon: f32,
    dropout: f32,
    seed: u64,
}

impl Sizes {
    pub(crate) fn of(spec: &JobSpec) -> Self {
        let model = &spec.model;
        Self {
            context: model.context() as usize,
            width: model.width() as usize,
            heads: model.heads() as usize,
            vocab: model.vocab() as usize,
            epsilon: model.norm_epsilon(),
            dropout: model.dropout(),
            seed: spec.seed,
        }
    }
}

/// What a block needs to compute one micro-batch.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    pub(crate) device: &'a Device,
    pub(crate) arena: &'a Arena,
    pub(crate) weights: &'a Weights,
    pub(crate) sizes: &'a Sizes,
    pub(crate) samples: &'a [u64],
    pub(crate) phase: Phase,
}

impl<'a> Scope<'a> {
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
        match self.phase {
            Phase::Train { step } if self.sizes.dropout > 0.0 => Some(Dropout {
                key: DropoutKey { seed: self.sizes.seed, step, block: block.0, site },
                probability: self.sizes.dropout,
                samples: self.samples,
            }),
            Phase::Train { .. } | Phase::Evaluate => None,
        }
    }
}

/// Scale and shift of a LayerNorm in its block's space.
#[derive(Clone, Debug)]
pub(crate) struct Norm {
    pub(crate) gamma: Range<usize>,
    pub(crate) beta: Range<usize>,
}

impl Norm {
    fn of(table: &BlockTable, name: &str) -> Self {
        Self { gamma: range(table, &format!("{name}.weight")), beta: range(table, &format!("{name}.bias")) }
    }

    fn params<'a>(&self, scope: &Scope<'a>, block: BlockId) -> NormParams<'a> {
        NormParams {
            gamma: scope.weights.view(block, self.gamma.clone()),
            beta: scope.weights.view(block, self.beta.clone()),
            epsilon: scope.sizes.epsilon,
        }
    }

    /// The normalised rows (temporary), and `stats [rows, 2]` for the backward pass.
    fn forward(&self, scope: &Scope<'_>, block: BlockId, x: &Buffer, stats: &mut Buffer) -> Result<Buffer, ArenaError> {
        let mut y = scope.per_row(Tag::Temporary, scope.sizes.width)?;
        scope.device.layer_norm(y.view_mut(), stats.view_mut(), x.view(), self.params(scope, block));
        Ok(y)
    }

    /// Writes the gradient of the input as told, and adds those of scale and shift.
    fn backward(
        &self,
        scope: &Scope<'_>,
        block: BlockId,
        (dx, write): (&mut Buffer, Write),
        dy: &Buffer,
        (x, stats): (&Buffer, &Buffer),
        into: &mut Accumulator<'_>,
    ) {
        let params_write = into.write;
        let (dgamma, dbeta) = into.two_parts(self.gamma.clone(), self.beta.clone());
        scope.device.layer_norm_backward(
            (dx.view_mut(), write),
            (dgamma, dbeta, params_write),
            dy.view(),
            (x.view(), stats.view()),
            scope.weights.view(block, self.gamma.clone()),
        );
    }
}

/// Where a parameter lies in its block.
fn range(table: &BlockTable, name: &str) -> Range<usize> {
    let param = table.params.iter().find(|p| p.name == name);
    param.expect("BL-1 (a block has the parameters of its kind)").interval.range()
}
