//! Borrowed parts of buffers, as operations take them. What they point at is the device's business.

use std::ops::Range;

/// Elements to read.
#[derive(Clone, Copy)]
pub struct View<'a> {
    memory: &'a [f32],
}

/// Elements to write.
pub struct ViewMut<'a> {
    memory: &'a mut [f32],
}

impl<'a> View<'a> {
    pub(crate) fn host_slice(memory: &'a [f32]) -> Self {
        Self { memory }
    }

    /// The slice behind it, for devices that compute on the host.
    pub(crate) fn host(self) -> &'a [f32] {
        self.memory
    }

    /// Elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// No elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.memory.is_empty()
    }

    /// Elements `range` of it.
    ///
    /// # Panics
    /// If the range is not within it.
    #[must_use]
    pub fn range(self, range: Range<usize>) -> Self {
        Self { memory: &self.memory[range] }
    }

    /// The elements, where the host can see them.
    #[must_use]
    pub fn host_visible(self) -> Option<&'a [f32]> {
        Some(self.memory)
    }
}

impl<'a> ViewMut<'a> {
    pub(crate) fn host_slice(memory: &'a mut [f32]) -> Self {
        Self { memory }
    }

    /// The slice behind it, for devices that compute on the host.
    pub(crate) fn into_host(self) -> &'a mut [f32] {
        self.memory
    }

    /// Elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// No elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.memory.is_empty()
    }

    /// The same elements for a shorter time.
    #[must_use]
    pub fn reborrow(&mut self) -> ViewMut<'_> {
        ViewMut { memory: self.memory }
    }

    /// The same elements to read.
    #[must_use]
    pub fn as_view(&self) -> View<'_> {
        View { memory: self.memory }
    }

    /// Elements `range` of it.
    ///
    /// # Panics
    /// If the range is not within it.
    #[must_use]
    pub fn range(self, range: Range<usize>) -> Self {
        Self { memory: &mut self.memory[range] }
    }

    /// The first `at` elements and the rest.
    ///
    /// # Panics
    /// If there are fewer than `at`.
    #[must_use]
    pub fn split_at(self, at: usize) -> (Self, Self) {
        let (head, tail) = self.memory.split_at_mut(at);
        (Self { memory: head }, Self { memory: tail })
    }

    /// The elements, where the host can see them.
    #[must_use]
    pub fn host_visible(self) -> Option<&'a mut [f32]> {
        Some(self.memory)
    }
}
