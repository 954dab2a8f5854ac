//! Keys and values of the tokens that a model has read, kept so that one more token costs one row.
//!
//! PA-1 (one sequence): row `t` of a layer's cache is the key and value part of token `t`'s packed row, as the layer made it.

use std::cell::RefCell;

use shoal_kernels::{Arena, ArenaError, Attention, Buffer, Device, Tag, View, ViewMut};
use shoal_plan::ids::BlockId;

/// What a whole model keeps of one sequence.
#[derive(Debug)]
pub struct KvCache {
    /// One a layer, `[positions, cached]`.
    layers: Vec<RefCell<Buffer>>,
    positions: usize,
    pub(crate) length: usize,
}

impl KvCache {
    /// Room for `positions` tokens of a model with so many layers.
    pub(crate) fn new(arena: &Arena, layers: usize, positions: usize, cached: usize) -> Result<Self, ArenaError> {
        let layer = || arena.alloc_zeroed(Tag::Activation, positions * cached).map(RefCell::new);
        Ok(Self { layers: (0..layers).map(|_| layer()).collect::<Result<_, _>>()?, positions, length: 0 })
    }

    /// Tokens read.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether nothing was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Tokens that there is room for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.positions
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// Attention of new tokens over all there are, of which the new ones' packed rows are in `qkv`: several that are the first,
    /// or one.
    pub(crate) fn attend(
        &self,
        device: &Device,
        block: BlockId,
        (y, statistics): (ViewMut<'_>, ViewMut<'_>),
        qkv: View<'_>,
        shape: Attention,
    ) {
        let mut cache = self.layers[block.0 as usize - 1].borrow_mut();
        let (packed, cached) = (shape.packed(), shape.cached());
        for row in 0..shape.positions {
            let at = (self.length + row) * cached;
            let kept = (row + 1) * packed - cached..(row + 1) * packed;
            device.copy(cache.view_mut().range(at..at + cached), qkv.range(kept));
        }
        if self.length == 0 {
            device.attention(y, statistics, qkv, shape, None);
        } else {
            let over = Attention { positions: self.positions, ..shape };
            device.attention_decode(y, qkv, cache.view(), &[self.length + 1], over);
        }
    }
}
