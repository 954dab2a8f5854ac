//! Final LayerNorm, the product with the token table, and the loss.

use std::ops::Range;
use std::sync::Arc;

use shoal_kernels::{ArenaError, Buffer, Layout, Linear, LossSum, Tag, Write};
use shoal_plan::blocks::{BlockTable, ModelTable};
use shoal_plan::ids::BlockId;

use super::{Norm, Phase, Scope};
use crate::sums::Accumulator;

/// Where its parameters lie.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    block: BlockId,
    ln_f: Norm,
    /// The token table, in the embedding's block.
    wte: (BlockId, Range<usize>),
}

/// A micro-batch whose loss is known and whose gradient is about to be.
pub(crate) struct Scored {
    /// `[rows, width]`, the head's input.
    x: Arc<Buffer>,
    /// `[rows, 2]`
    ln_f: Buffer,
    /// `[rows, width]`
    normed: Buffer,
    /// `[rows, vocab]`
    dlogits: Buffer,
}

impl Head {
    pub(crate) fn of(table: &BlockTable, model: &ModelTable) -> Self {
        let (block, wte) = model.tied();
        Self { block: table.id, ln_f: Norm::of(table, "ln_f"), wte: (block, wte.range()) }
    }

    /// The summed loss of a micro-batch; in training also the gradient of the logits times `seed`.
    pub(crate) fn loss(
        &self,
        scope: &Scope<'_>,
        x: Arc<Buffer>,
        targets: &[u32],
        seed: f32,
    ) -> Result<(LossSum, Option<Scored>), ArenaError> {
        let (kept, device) = (scope.kept(), scope.device);
        let mut ln_f = scope.per_row(kept, 2)?;
        let mut normed = self.ln_f.forward(scope, self.block, &x, &mut ln_f)?;
        let mut logits = self.logits(scope, &normed)?;
        match scope.phase {
            Phase::Evaluate => Ok((device.cross_entropy_loss(logits.view(), targets), None)),
            Phase::Train { .. } => {
                let loss = device.cross_entropy(logits.view_mut(), targets, seed);
                logits.retag(Tag::Stash);
                normed.retag(Tag::Stash);
                Ok((loss, Some(Scored { x, ln_f, normed, dlogits: logits })))
            }
        }
    }

    /// `[rows, vocab]` from the normalised input.
    fn logits(&self, scope: &Scope<'_>, normed: &Buffer) -> Result<Buffer, ArenaError> {
        let mut logits = scope.per_row(Tag::Temporary, scope.sizes.vocab)?;
        let wte = scope.weights.view(self.wte.0, self.wte.1.clone());
        scope.device.linear(logits.view_mut(), normed.view(), wte, None, shape(scope));
        Ok(logits)
    }

    /// Logits alone.
    pub(crate) fn predict(&self, scope: &Scope<'_>, x: &Buffer) -> Result<Buffer, ArenaError> {
        let mut ln_f = scope.per_row(Tag::Temporary, 2)?;
        let normed = self.ln_f.forward(scope, self.block, x, &mut ln_f)?;
        self.logits(scope, &normed)
    }

    /// The gradient of the input; adds the LayerNorm's gradient to `own` and the token table's to `tied`.
    pub(crate) fn backward(
        &self,
        scope: &Scope<'_>,
        scored: Scored,
        own: &mut Accumulator<'_>,
        tied: &mut Accumulator<'_>,
    ) -> Result<Buffer, ArenaError> {
        let Scored { x, ln_f, normed, dlogits } = scored;
        let (device, shape, write) = (scope.device, shape(scope), tied.write);
        device.linear_weight_gradient(tied.part(0..self.wte.1.len()), dlogits.view(), normed.view(), shape, write);
        drop(normed);
        let mut dnormed = scope.per_row(Tag::Temporary, scope.sizes.width)?;
        let wte = scope.weights.view(self.wte.0, self.wte.1.clone());
        device.linear_input_gradient(dnormed.view_mut(), dlogits.view(), wte, shape);
        drop(dlogits);
        let mut dx = scope.per_row(Tag::Activation, scope.sizes.width)?;
        self.ln_f.backward(scope, self.block, (&mut dx, Write::Overwrite), &dnormed, (&x, &ln_f), own);
        Ok(dx)
    }
}

fn shape(scope: &Scope<'_>) -> Linear {
    Linear { rows: scope.rows(), inputs: scope.sizes.width, outputs: scope.sizes.vocab, layout: Layout::OutIn }
}
