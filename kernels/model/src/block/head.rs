//! Final LayerNorm, the product with the token table, and the loss.

use std::ops::Range;
use std::sync::Arc;

use shoal_kernels::{ArenaError, Buffer, Layout, Linear, LossSum, SLICE, Tag, View, ViewMut, Write};
use shoal_plan::blocks::{BlockTable, ModelTable};
use shoal_plan::ids::BlockId;
use shoal_plan::memory::LOGIT_ROWS;

use super::{Norm, Scope};
use crate::sums::Accumulator;

/// Rows of a tile of logits.
const TILE: usize = LOGIT_ROWS as usize;
const _: () = assert!(TILE == SLICE, "tiles are slices of the contraction over rows");

/// Where its parameters lie.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    block: BlockId,
    ln_f: Norm,
    /// The token table, in the embedding's block.
    wte: (BlockId, Range<usize>),
}

/// A micro-batch whose loss is known, with all that the head's own backward pass still needs.
pub(crate) struct Scored {
    /// `[rows, width]`, the head's input.
    x: Arc<Buffer>,
    /// `[rows, 2]`
    ln_f: Buffer,
    /// `[rows, width]`, the gradient of the normalised input.
    dnormed: Buffer,
}

impl Head {
    pub(crate) fn of(table: &BlockTable, model: &ModelTable) -> Self {
        let (block, wte) = model.tied();
        Self { block: table.id, ln_f: Norm::of(table, "ln_f"), wte: (block, wte.range()) }
    }

    /// The summed loss of a micro-batch.
    pub(crate) fn evaluate(&self, scope: &Scope<'_>, x: &Buffer, targets: &[u32]) -> Result<LossSum, ArenaError> {
        let mut ln_f = scope.per_row(Tag::Temporary, 2)?;
        let normed = self.ln_f.forward(scope, self.block, x, &mut ln_f)?;
        let mut total = LossSum::ZERO;
        self.each_tile(scope, TILE, |rows, logits, shape| {
            self.logits(scope, logits.view_mut(), normed.view().range(elements_of(&rows, shape.inputs)), shape);
            total.merge(&scope.device.cross_entropy_loss(logits.view(), &targets[rows]));
        })?;
        Ok(total)
    }

    /// The summed loss of a micro-batch, and the gradient of the mean of it times `seed` as far back as the normalised input; adds
    /// the token table's gradient to `tied`. The logits are never there as a whole: a tile of rows goes from the product to the
    /// loss, to both gradients, and makes room for the next.
    ///
    /// Tiles are slices of the contraction that makes the table's gradient, so that they change no bit. Where that gradient is
    /// added to another one it must be complete first, and the micro-batch is one tile.
    pub(crate) fn train(
        &self,
        scope: &Scope<'_>,
        x: Arc<Buffer>,
        targets: &[u32],
        seed: f32,
        tied: &mut Accumulator<'_>,
    ) -> Result<(LossSum, Scored), ArenaError> {
        let device = scope.device;
        let mut ln_f = scope.per_row(Tag::Stash, 2)?;
        let normed = self.ln_f.forward(scope, self.block, &x, &mut ln_f)?;
        let mut dnormed = scope.per_row(Tag::Stash, scope.sizes.width)?;
        let table = 0..self.wte.1.len();
        let (tile, mut write) = match tied.write {
            Write::Overwrite => (TILE, Write::Overwrite),
            Write::Add => (scope.rows(), Write::Add),
        };
        let mut total = LossSum::ZERO;
        self.each_tile(scope, tile, |rows, logits, shape| {
            let inputs = elements_of(&rows, shape.inputs);
            let normed = normed.view().range(inputs.clone());
            self.logits(scope, logits.view_mut(), normed, shape);
            total.merge(&device.cross_entropy(logits.view_mut(), &targets[rows], seed));
            device.linear_weight_gradient(tied.part(table.clone()), logits.view(), normed, shape, write);
            write = Write::Add;
            let wte = scope.weights.view(self.wte.0, self.wte.1.clone());
            device.linear_input_gradient(dnormed.view_mut().range(inputs), logits.view(), wte, shape);
        })?;
        Ok((total, Scored { x, ln_f, dnormed }))
    }

    /// Calls `body(rows, room for their logits, their shape)` for at most `tile` rows at a time.
    fn each_tile(
        &self,
        scope: &Scope<'_>,
        tile: usize,
        mut body: impl FnMut(Range<usize>, &mut Buffer, Linear),
    ) -> Result<(), ArenaError> {
        let (all, vocab) = (scope.rows(), scope.sizes.vocab);
        for start in (0..all).step_by(tile) {
            let rows = start..all.min(start + tile);
            let mut logits = scope.arena.alloc(Tag::Temporary, rows.len() * vocab)?;
            let shape = Linear { rows: rows.len(), inputs: scope.sizes.width, outputs: vocab, layout: Layout::OutIn };
            body(rows, &mut logits, shape);
        }
        Ok(())
    }

    fn logits(&self, scope: &Scope<'_>, logits: ViewMut<'_>, normed: View<'_>, shape: Linear) {
        let wte = scope.weights.view(self.wte.0, self.wte.1.clone());
        scope.device.linear(logits, normed, wte, None, shape);
    }

    /// Logits alone, `[rows, vocab]`.
    pub(crate) fn predict(&self, scope: &Scope<'_>, x: &Buffer) -> Result<Buffer, ArenaError> {
        let mut ln_f = scope.per_row(Tag::Temporary, 2)?;
        let normed = self.ln_f.forward(scope, self.block, x, &mut ln_f)?;
        let mut all = scope.per_row(Tag::Temporary, scope.sizes.vocab)?;
        let (rows, inputs, outputs) = (scope.rows(), scope.sizes.width, scope.sizes.vocab);
        let shape = Linear { rows, inputs, outputs, layout: Layout::OutIn };
        self.logits(scope, all.view_mut(), normed.view(), shape);
        Ok(all)
    }

    /// The gradient of the input; adds the LayerNorm's gradient to `own`.
    pub(crate) fn backward(
        &self,
        scope: &Scope<'_>,
        scored: Scored,
        own: &mut Accumulator<'_>,
    ) -> Result<Buffer, ArenaError> {
        let Scored { x, ln_f, dnormed } = scored;
        let mut dx = scope.per_row(Tag::Activation, scope.sizes.width)?;
        self.ln_f.backward(scope, self.block, (&mut dx, Write::Overwrite), &dnormed, (&x, &ln_f), own);
        Ok(dx)
    }
}

/// Elements of some rows of a matrix with rows of `width`.
fn elements_of(rows: &Range<usize>, width: usize) -> Range<usize> {
    rows.start * width..rows.end * width
}
