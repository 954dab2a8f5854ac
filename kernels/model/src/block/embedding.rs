//! Token and position embedding.

use std::ops::Range;

use shoal_kernels::{ArenaError, Buffer, DropoutSite, Tag};
use shoal_plan::blocks::BlockTable;
use shoal_plan::ids::BlockId;

use super::{Scope, range};
use crate::sums::Accumulator;

/// Where its parameters lie.
#[derive(Clone, Debug)]
pub(crate) struct Embedding {
    block: BlockId,
    wte: Range<usize>,
    wpe: Range<usize>,
}

impl Embedding {
    pub(crate) fn of(table: &BlockTable) -> Self {
        Self { block: table.id, wte: range(table, "wte"), wpe: range(table, "wpe") }
    }

    /// `[rows, width]` from the tokens of each row.
    pub(crate) fn forward(&self, scope: &Scope<'_>, tokens: &[u32], tag: Tag) -> Result<Buffer, ArenaError> {
        let mut y = scope.per_row(tag, scope.sizes.width)?;
        let tables =
            (scope.weights.view(self.block, self.wte.clone()), scope.weights.view(self.block, self.wpe.clone()));
        let dropout = scope.dropout(self.block, DropoutSite::Embedding);
        scope.device.embedding(y.view_mut(), tokens, tables, scope.sizes.context, dropout.as_ref());
        Ok(y)
    }

    /// Adds the lookup's part of both tables' gradient.
    pub(crate) fn backward(
        &self,
        scope: &Scope<'_>,
        tokens: &[u32],
        dy: Buffer,
        into: &mut Accumulator<'_>,
    ) -> Result<(), ArenaError> {
        let write = into.write;
        let dy = match scope.dropout(self.block, DropoutSite::Embedding) {
            Some(dropout) => {
                let mut undone = scope.per_row(Tag::Temporary, scope.sizes.width)?;
                scope.device.dropout(undone.view_mut(), dy.view(), &dropout);
                undone
            }
            None => dy,
        };
        let parts = into.two_parts(self.wte.clone(), self.wpe.clone());
        scope.device.embedding_backward(parts, dy.view(), tokens, scope.sizes.context, write);
        Ok(())
    }
}
