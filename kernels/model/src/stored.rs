//! Rows that are kept in the job's precision.
//!
//! Forward passes compute with the rounded values, so what is kept of them in half the room is all there was.

use std::sync::Arc;

use shoal_kernels::{ArenaError, Buffer, Half, Tag};

use crate::block::{Phase, Scope};

/// Rows that wait for their backward pass.
pub(crate) enum Kept {
    /// As they are.
    Plain(Arc<Buffer>),
    /// Two values a slot.
    Packed {
        /// Of the arena.
        slots: Buffer,
        /// Values.
        elements: usize,
        /// Their type.
        half: Half,
    },
}

impl Scope<'_> {
    /// How memory counts in which rows are made that [`Self::keep`] gets.
    pub(crate) fn wide(&self) -> Tag {
        if self.sizes.stored.is_rounded() { Tag::Temporary } else { self.kept() }
    }

    /// Rounds rows to the job's precision.
    pub(crate) fn round(&self, rows: &mut Buffer) {
        self.sizes.stored.round(self.device, rows.view_mut());
    }

    /// Keeps rounded rows for the backward pass, in half the room if that loses nothing.
    pub(crate) fn keep(&self, rows: Arc<Buffer>) -> Result<Kept, ArenaError> {
        match (self.sizes.stored.half(), self.phase) {
            (Some(half), Phase::Train { .. }) => {
                let elements = rows.len();
                let mut slots = self.arena.alloc(Tag::Stash, Half::slots(elements))?;
                self.device.pack(slots.view_mut(), rows.view(), half);
                Ok(Kept::Packed { slots, elements, half })
            }
            (None, Phase::Train { .. }) | (_, Phase::Evaluate) => Ok(Kept::Plain(rows)),
        }
    }
}

impl Kept {
    /// The rows, which go on being kept.
    pub(crate) fn look(&self, scope: &Scope<'_>) -> Result<Arc<Buffer>, ArenaError> {
        match self {
            Self::Plain(rows) => Ok(Arc::clone(rows)),
            Self::Packed { slots, elements, half } => unpacked(scope, slots, *elements, *half),
        }
    }

    /// The rows again.
    pub(crate) fn open(self, scope: &Scope<'_>) -> Result<Arc<Buffer>, ArenaError> {
        match self {
            Self::Plain(rows) => Ok(rows),
            Self::Packed { slots, elements, half } => unpacked(scope, &slots, elements, half),
        }
    }
}

fn unpacked(scope: &Scope<'_>, slots: &Buffer, elements: usize, half: Half) -> Result<Arc<Buffer>, ArenaError> {
    let mut rows = scope.arena.alloc(Tag::Temporary, elements)?;
    scope.device.unpack(rows.view_mut(), slots.view(), half);
    Ok(Arc::new(rows))
}
