//! Parts of arena buffers as they travel between actors and nodes.
//!
//! * TN-1 (the host sees what travels): what is sent and what is received lies in its memory.
//! * TN-2 (a slice lies in its buffer): a part is cut by the bounds of what it is a part of.
//! * TN-3 (siblings have one length): both are sums of the same contribution to the same piece.
//! * TN-4 (nobody else refers to it): a buffer that is shared is copied before it is changed.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use shoal_kernels::{Arena, ArenaError, Buffer, Device, View, ViewMut};
use shoal_model::Rounding;

use crate::transport::{BulkSource, BulkTarget, Payload};

impl BulkSource for Buffer {
    fn elements(&self) -> &[f32] {
        self.host_visible().expect("TN-1 (the host sees what travels)")
    }
}

impl BulkTarget for Buffer {
    fn elements_mut(&mut self) -> &mut [f32] {
        self.host_visible_mut().expect("TN-1 (the host sees what travels)")
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}

/// Some elements of a shared buffer.
#[derive(Clone, Debug)]
pub struct Slice {
    buffer: Arc<Buffer>,
    range: Range<usize>,
}

impl Slice {
    /// Elements `range` of a buffer.
    ///
    /// # Panics
    /// If the range is not within it.
    #[must_use]
    pub fn new(buffer: Arc<Buffer>, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= buffer.len(), "TN-2 (a slice lies in its buffer)");
        Self { buffer, range }
    }

    /// A whole buffer.
    #[must_use]
    pub fn whole(buffer: Buffer) -> Self {
        let range = 0..buffer.len();
        Self { buffer: Arc::new(buffer), range }
    }

    /// Elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// No elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// To read.
    #[must_use]
    pub fn view(&self) -> View<'_> {
        self.buffer.view().range(self.range.clone())
    }

    /// To send.
    #[must_use]
    pub fn payload(&self) -> Payload {
        let source: Arc<dyn BulkSource> = self.buffer.clone();
        Payload::ranges(source, vec![self.range.clone()])
    }

    /// `self + other`, element by element: one f32 addition each, in whichever buffer nobody else refers to.
    ///
    /// # Errors
    /// If both are shared and the arena has no room for a third.
    pub fn add(mut self, mut other: Self, round: Rounding, device: &Device, arena: &Arena) -> Result<Self, ArenaError> {
        assert_eq!(self.len(), other.len(), "TN-3 (siblings have one length)");
        let add = |mut target: ViewMut<'_>, other: View<'_>| {
            device.add_into(target.reborrow(), other);
            round.round(device, target);
        };
        // Addition is commutative, and what is not finite is never applied, so either side may be the target.
        if let Some(target) = Arc::get_mut(&mut self.buffer) {
            add(target.view_mut().range(self.range.clone()), other.view());
            return Ok(self);
        }
        if let Some(target) = Arc::get_mut(&mut other.buffer) {
            add(target.view_mut().range(other.range.clone()), self.view());
            return Ok(other);
        }
        let mut sum = self.copy(device, arena)?;
        add(sum.view_mut(), other.view());
        Ok(Self::whole(sum))
    }

    /// Adds `other` to the elements from `at` on.
    ///
    /// # Errors
    /// If the buffer is shared and the arena has no room for a copy.
    pub fn add_at(mut self, at: usize, other: &Self, device: &Device, arena: &Arena) -> Result<Self, ArenaError> {
        if Arc::get_mut(&mut self.buffer).is_none() {
            self = Self::whole(self.copy(device, arena)?);
        }
        let target = Arc::get_mut(&mut self.buffer).expect("TN-4 (nobody else refers to it)");
        let start = self.range.start + at;
        device.add_into(target.view_mut().range(start..start + other.len()), other.view());
        Ok(self)
    }

    fn copy(&self, device: &Device, arena: &Arena) -> Result<Buffer, ArenaError> {
        let mut copy = arena.alloc(self.buffer.tag(), self.len())?;
        device.copy(copy.view_mut(), self.view());
        Ok(copy)
    }
}

/// The buffer to itself: a copy if someone else (a transfer under way) still refers to it.
///
/// # Errors
/// If the arena has no room for a copy.
pub(super) fn exclusive<'a>(
    shared: &'a mut Arc<Buffer>,
    device: &Device,
    arena: &Arena,
) -> Result<&'a mut Buffer, ArenaError> {
    if Arc::get_mut(shared).is_none() {
        let mut copy = arena.alloc(shared.tag(), shared.len())?;
        device.copy(copy.view_mut(), shared.view());
        *shared = Arc::new(copy);
    }
    Ok(Arc::get_mut(shared).expect("TN-4 (nobody else refers to it)"))
}
