//! One tensor's memory.

use super::block::Block;
use super::{Arena, Tag, Tier, View, ViewMut};

/// `len` f32 of an arena, 64-byte aligned; returns to the arena's free list when dropped. Shared as `Arc<Buffer>`.
pub struct Buffer {
    /// Taken only by `drop`.
    block: Option<Block>,
    len: usize,
    tag: Tag,
    arena: Arena,
}

impl Buffer {
    pub(super) fn new(block: Block, len: usize, tag: Tag, arena: Arena) -> Self {
        Self { block: Some(block), len, tag, arena }
    }

    /// Elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// No elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What it counts as.
    #[must_use]
    pub fn tag(&self) -> Tag {
        self.tag
    }

    /// Where it counts.
    #[must_use]
    pub fn tier(&self) -> Tier {
        self.arena.tier()
    }

    /// Counts it as something else from now on, e.g. a gradient that has arrived.
    pub fn retag(&mut self, tag: Tag) {
        self.arena.shared.retag(self.block().bytes(), self.tag, tag);
        self.tag = tag;
    }

    /// All of it, to read.
    #[must_use]
    pub fn view(&self) -> View<'_> {
        View::host_slice(self.block().elements(self.len))
    }

    /// All of it, to write.
    #[must_use]
    pub fn view_mut(&mut self) -> ViewMut<'_> {
        let len = self.len;
        let block = self.block.as_mut().expect("AR-5 (a buffer has its block until dropped)");
        ViewMut::host_slice(block.elements_mut(len))
    }

    /// The elements, where the host can see them.
    #[must_use]
    pub fn host_visible(&self) -> Option<&[f32]> {
        self.view().host_visible()
    }

    /// The elements to write in place, where the host can see them: what is received goes straight in.
    #[must_use]
    pub fn host_visible_mut(&mut self) -> Option<&mut [f32]> {
        self.view_mut().host_visible()
    }

    fn block(&self) -> &Block {
        self.block.as_ref().expect("AR-5 (a buffer has its block until dropped)")
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            self.arena.shared.give_back(block, self.tag);
        }
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} {}, {} f32)", self.tier(), self.tag, self.len)
    }
}
