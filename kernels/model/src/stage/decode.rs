//! One token after another: what a whole model says comes next.
//!
//! * DE-1 (the cache has room): nobody reads on by more tokens than were asked room for.
//! * DE-2 (the whole model): only a stage of all blocks goes on with a text.
//! * DE-3 (a sequence is no longer than the context): positions have a table, or were trained, up to there.
//! * DE-4 (there is a token): nobody reads on by none.

use std::sync::Arc;

use shoal_kernels::{Attention, Buffer, Device, Tag};
use shoal_plan::blocks::ModelTable;
use shoal_plan::ids::BlockId;

use super::flow::checked;
use super::{Block, StageModel};
use crate::ModelError;
use crate::block::{Phase, Scope, Sizes};
use crate::kv_cache::KvCache;

impl StageModel {
    /// Room to remember `positions` tokens of a sequence, at most the context.
    ///
    /// # Errors
    /// If the arena has no room.
    ///
    /// # Panics
    /// If it is more than the context.
    pub fn kv_cache(&self, positions: usize) -> Result<KvCache, ModelError> {
        let Sizes { context, heads, kv_heads, head_size, .. } = self.sizes;
        assert!(positions <= context, "DE-3 (a sequence is no longer than the context): {positions} of {context}");
        let cached = Attention { samples: 1, positions, heads, kv_heads, size: head_size }.cached();
        let block = BlockId(0);
        KvCache::new(&self.arena, layers(&self.table), positions, cached)
            .map_err(|source| ModelError::Forward { block, source })
    }

    /// Reads tokens behind those of `cache`; the logits `[vocab]` of what follows the last one. They have the bits of that
    /// token's row in a pass over the whole sequence.
    ///
    /// # Errors
    /// If memory runs out, or a token is outside the vocabulary. `cache` has the tokens before it then.
    ///
    /// # Panics
    /// If this is not the whole model, there is no token, or `cache` has no room for them.
    pub fn read_on(&self, device: &Device, cache: &mut KvCache, tokens: &[u32]) -> Result<Buffer, ModelError> {
        assert!(
            !tokens.is_empty() && cache.len() + tokens.len() <= cache.capacity(),
            "DE-1 (the cache has room): {} and {} of {}",
            cache.len(),
            tokens.len(),
            cache.capacity()
        );
        // The beginning is read at once; after that a token has its own row.
        let run = if cache.is_empty() { tokens.len() } else { 1 };
        let mut last = None;
        for tokens in tokens.chunks(run) {
            last = Some(self.read_run(device, cache, tokens)?);
            cache.length += tokens.len();
        }
        let row = last.expect("DE-4 (there is a token)");
        let Some(Block::Head(head)) = self.blocks.last() else { panic!("DE-2 (the whole model)") };
        let sizes = self.sizes.of_tokens(1);
        let scope = self.one(device, &sizes, None);
        head.predict(&scope, &row).map_err(|source| ModelError::Loss { source })
    }

    /// The last row `[width]` before the head.
    fn read_run(&self, device: &Device, cache: &KvCache, tokens: &[u32]) -> Result<Buffer, ModelError> {
        let sizes = self.sizes.of_tokens(tokens.len());
        let scope = self.one(device, &sizes, Some(cache));
        let tokens = checked(tokens, &scope)?;
        let (mut x, mut last) = (None, None);
        for (block, calls) in self.blocks.iter().zip(&self.calls) {
            let failed = |source| ModelError::Forward { block: calls.block, source };
            let mut y = match (block, x) {
                (Block::Embedding(embedding), None) => {
                    embedding.forward(&scope, &tokens, Tag::Temporary).map_err(failed)?
                }
                (Block::Layer(layer), Some(x)) => layer.forward(&scope, Arc::new(x), Tag::Temporary).map_err(failed)?.0,
                (Block::Head(_), Some(x)) => {
                    last = Some(x);
                    break;
                }
                (Block::Embedding(_), Some(_)) | (Block::Layer(_) | Block::Head(_), None) => {
                    panic!("DE-2 (the whole model)")
                }
            };
            scope.round(&mut y);
            self.wire.round(device, y.view_mut());
            x = Some(y);
        }
        let x = last.expect("DE-2 (the whole model)");
        let failed = |source| ModelError::Loss { source };
        let mut row = self.arena.alloc(Tag::Temporary, sizes.width).map_err(failed)?;
        device.copy(row.view_mut(), x.view().range(x.len() - sizes.width..x.len()));
        Ok(row)
    }

    /// For one sample.
    fn one<'a>(&'a self, device: &'a Device, sizes: &'a Sizes, cache: Option<&'a KvCache>) -> Scope<'a> {
        let (arena, weights, rotary) = (&self.arena, &self.weights, self.rotary.as_ref());
        Scope { cache, ..Scope::of((device, arena), (weights, rotary), sizes, &[0], Phase::Evaluate) }
    }
}

fn layers(table: &ModelTable) -> usize {
    table.blocks.len() - 2
}

#[cfg(test)]
mod tests;
