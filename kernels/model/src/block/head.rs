//! The last norm, the product with the token table or one of the head's own, and the loss.

use std::ops::Range;
use std::sync::Arc;

use shoal_config::spec::ModelSpec;
use shoal_kernels::{ArenaError, Buffer, Layout, Linear, LossSum, SLICE, Tag, Write};
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
    norm_f: Norm,
    /// The table it multiplies by: the embedding's, or its own.
    table: (BlockId, Range<usize>),
    /// Where the table's gradient lies: a tied one has an accumulator for itself.
    dtable: Range<usize>,
}

/// A micro-batch whose loss is known, with all that the head's own backward pass still needs.
pub(crate) struct Scored {
    /// `[rows, width]`, the head's input.
    x: Arc<Buffer>,
    /// `[rows, statistics]`
    norm_f: Buffer,
    /// `[rows, width]`, the gradient of the normalised input.
    dnormed: Buffer,
}

impl Head {
    pub(crate) fn of(block: &BlockTable, table: &ModelTable, model: &ModelSpec) -> Self {
        let name = match model {
            ModelSpec::Gpt2(_) => "ln_f",
            ModelSpec::Llama(_) => "norm_f",
        };
        let (home, place) = table.head_table();
        let dtable = if home == block.id { place.range() } else { 0..place.range().len() };
        Self { block: block.id, norm_f: Norm::of(block, model, name), table: (home, place.range()), dtable }
    }

    /// The summed loss of a micro-batch.
    pub(crate) fn evaluate(&self, scope: &Scope<'_>, x: &Buffer, targets: &[u32]) -> Result<LossSum, ArenaError> {
        let mut norm_f = scope.per_row(Tag::Temporary, self.norm_f.statistics())?;
        let normed = self.norm_f.forward(scope, self.block, x, &mut norm_f)?;
        let table = scope.open(self.table.0, self.table.1.clone())?;
        let mut total = LossSum::ZERO;
        self.each_tile(scope, TILE, |rows, logits, shape| {
            let normed = normed.view().range(elements_of(&rows, shape.inputs));
            scope.device.linear(logits.view_mut(), normed, table.view(), None, shape);
            total.merge(&scope.device.cross_entropy_loss(logits.view(), &targets[rows]));
        })?;
        Ok(total)
    }

    /// The summed loss of a micro-batch, and the gradient of that sum times `seed` as far back as the normalised input; adds
    /// the table's gradient to `into`. The logits are never there as a whole: a tile of rows goes from the product to the
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
        into: &mut Accumulator<'_>,
    ) -> Result<(LossSum, Scored), ArenaError> {
        let device = scope.device;
        let mut norm_f = scope.per_row(Tag::Stash, self.norm_f.statistics())?;
        let normed = self.norm_f.forward(scope, self.block, &x, &mut norm_f)?;
        let mut dnormed = scope.per_row(Tag::Stash, scope.sizes.width)?;
        let (tile, mut write) = match into.write {
            Write::Overwrite => (TILE, Write::Overwrite),
            Write::Add => (scope.rows(), Write::Add),
        };
        let table = scope.open(self.table.0, self.table.1.clone())?;
        let mut total = LossSum::ZERO;
        self.each_tile(scope, tile, |rows, logits, shape| {
            let inputs = elements_of(&rows, shape.inputs);
            let normed = normed.view().range(inputs.clone());
            device.linear(logits.view_mut(), normed, table.view(), None, shape);
            total.merge(&device.cross_entropy(logits.view_mut(), &targets[rows], seed));
            device.linear_weight_gradient(into.part(self.dtable.clone()), logits.view(), normed, shape, write);
            write = Write::Add;
            device.linear_input_gradient(dnormed.view_mut().range(inputs), logits.view(), table.view(), shape);
        })?;
        Ok((total, Scored { x, norm_f, dnormed }))
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

    /// Logits alone, `[rows, vocab]`.
    pub(crate) fn predict(&self, scope: &Scope<'_>, x: &Buffer) -> Result<Buffer, ArenaError> {
        let mut norm_f = scope.per_row(Tag::Temporary, self.norm_f.statistics())?;
        let normed = self.norm_f.forward(scope, self.block, x, &mut norm_f)?;
        let mut all = scope.per_row(Tag::Temporary, scope.sizes.vocab)?;
        let (rows, inputs, outputs) = (scope.rows(), scope.sizes.width, scope.sizes.vocab);
        let shape = Linear { rows, inputs, outputs, layout: Layout::OutIn };
        let table = scope.open(self.table.0, self.table.1.clone())?;
        scope.device.linear(all.view_mut(), normed.view(), table.view(), None, shape);
        Ok(all)
    }

    /// The gradient of the input; adds the norm's gradient to `own`.
    pub(crate) fn backward(
        &self,
        scope: &Scope<'_>,
        scored: Scored,
        own: &mut Accumulator<'_>,
    ) -> Result<Buffer, ArenaError> {
        let Scored { x, norm_f, dnormed } = scored;
        let mut dx = scope.per_row(Tag::Activation, scope.sizes.width)?;
        self.norm_f.backward(scope, self.block, (&mut dx, Write::Overwrite), &dnormed, (&x, &norm_f), own)?;
        Ok(dx)
    }
}

/// Elements of some rows of a matrix with rows of `width`.
fn elements_of(rows: &Range<usize>, width: usize) -> Range<usize> {
    rows.start * width..rows.end * width
}
