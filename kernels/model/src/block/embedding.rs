//! Token embedding, with learned positions or without.

use std::ops::Range;

use shoal_kernels::{ArenaError, Buffer, DropoutSite, Tag};
use shoal_plan::blocks::{BlockTable, TOKEN_TABLE};
use shoal_plan::ids::BlockId;

use super::{Scope, range};
use crate::sums::Accumulator;
use crate::weights::Opened;

/// Where its parameters lie.
#[derive(Clone, Debug)]
pub(crate) struct Embedding {
    block: BlockId,
    wte: Range<usize>,
    wpe: Option<Range<usize>>,
}

impl Embedding {
    pub(crate) fn of(table: &BlockTable) -> Self {
        let wpe = table.param("wpe").map(|param| param.interval.range());
        Self { block: table.id, wte: range(table, TOKEN_TABLE), wpe }
    }

    /// `[rows, width]` from the tokens of each row.
    pub(crate) fn forward(&self, scope: &Scope<'_>, tokens: &[u32], tag: Tag) -> Result<Buffer, ArenaError> {
        let mut y = scope.per_row(tag, scope.sizes.width)?;
        let (wte, rows) = scope.rows_of((self.block, self.wte.clone()), tokens)?;
        let (width, context) = (scope.sizes.width, scope.sizes.context);
        let positions = |wpe: &Range<usize>| {
            let first = wpe.start + scope.first() * width;
            scope.open(self.block, first..first + context * width)
        };
        let wpe = self.wpe.as_ref().map(positions).transpose()?;
        let dropout = scope.dropout(self.block, DropoutSite::Embedding);
        let tables = (wte.view(), wpe.as_ref().map(Opened::view));
        scope.device.embedding(y.view_mut(), &rows, tables, context, dropout.as_ref());
        Ok(y)
    }

    /// Adds the lookup's part of the tables' gradient.
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
        let parts = match &self.wpe {
            Some(wpe) => {
                let (dwte, dwpe) = into.two_parts(self.wte.clone(), wpe.clone());
                (dwte, Some(dwpe))
            }
            None => (into.part(self.wte.clone()), None),
        };
        scope.device.embedding_backward(parts, dy.view(), tokens, scope.sizes.context, write);
        Ok(())
    }
}
