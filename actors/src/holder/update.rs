//! The update of one slot, stroke by stroke, with a cursor that outlives a panic.
//!
//! * UP-1 (each stroke once): the cursor moves past a stroke in the same breath as the stroke is done, and takes along what
//!   strokes have measured; a panic between two strokes resumes, a panic inside one is found by its mark and the slot declared
//!   lost.
//! * UP-2 (an update is finished before the next begins): records are applied to a slot in their order, the next one when
//!   the one before has told its end.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use shoal_kernels::{Arena, ArenaError, Device};
use shoal_model::update::{Measured, Optimizer, State, Strokes};
use shoal_plan::holder::{Role, SlotId};
use shoal_plan::ids::BlockId;
use shoal_plan::ledger::LedgerEntry;
use shoal_plan::space::Interval;

use super::slot::{Kinds, SlotCell};
use super::tensor::{Slice, exclusive};

/// Elements of a stroke, if its optimizer goes element by element or a row is no longer.
const STROKE: usize = 1 << 18;

/// How far an update has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Progress {
    /// No update is under way.
    Rest,
    /// The strokes before `next` are done, the others not begun.
    Between {
        /// The step it leads to.
        step: u64,
        /// Stroke.
        next: usize,
        /// What the ones before it have measured.
        measured: Measured,
    },
    /// Stroke `at` was begun and may be half done.
    Inside {
        /// Stroke.
        at: usize,
    },
}

/// Why an update did not happen.
#[derive(Debug, thiserror::Error)]
pub(super) enum UpdateError {
    /// The buffers are being sent and there is no room for copies. Nothing was changed.
    #[error("no room to update while the piece is being sent")]
    Room(#[source] ArenaError),
    /// An update panicked inside a stroke: the elements cannot be trusted.
    #[error("an earlier update ended inside stroke {at}")]
    Torn {
        /// Stroke.
        at: usize,
    },
}

/// One update, ready to be carried out.
#[derive(Clone, Debug)]
pub(super) struct UpdateJob {
    step: u64,
    strokes: Strokes,
}

impl UpdateJob {
    /// The update of an interval, or nothing for a skip.
    pub(super) fn new(
        entry: &LedgerEntry,
        optimizer: &Optimizer,
        (block, interval): (BlockId, Interval),
    ) -> Option<Self> {
        Some(Self { step: entry.step, strokes: optimizer.update(entry, block, interval, STROKE)? })
    }

    /// Carries the update out, or the rest of it. `between` is called before each stroke.
    pub(super) fn apply(
        &self,
        (device, arena): (&Device, &Arena),
        cell: &SlotCell,
        gradient: &Slice,
        mut between: impl FnMut(usize),
    ) -> Result<(), UpdateError> {
        let mut body = cell.lock();
        let (first, mut measured) = match body.progress {
            Progress::Rest => (0, Measured::default()),
            Progress::Between { step, next, measured } => {
                assert_eq!(step, self.step, "UP-2 (an update is finished before the next begins)");
                (next, measured)
            }
            Progress::Inside { at } => return Err(UpdateError::Torn { at }),
        };
        // Copies, if any are needed, are made before the first element changes.
        for (_, kind) in &mut body.kinds {
            exclusive(kind, device, arena).map_err(UpdateError::Room)?;
        }
        let body = &mut *body;
        for at in first..self.strokes.count() {
            body.progress = Progress::Between { step: self.step, next: at, measured };
            between(at);
            body.progress = Progress::Inside { at };
            let state = state(&mut body.kinds, device, arena).map_err(UpdateError::Room)?;
            measured = self.strokes.carry_out(device, at, state, gradient.view(), measured);
        }
        body.progress = Progress::Rest;
        Ok(())
    }
}

/// A slot's kinds to be changed.
fn state<'k>(kinds: &'k mut Kinds, device: &Device, arena: &Arena) -> Result<State<'k>, ArenaError> {
    let mut kinds = kinds.iter_mut();
    let (_, weights) = kinds.next().expect("SL-5 (weights are the first kind)");
    let mut state = State::new(exclusive(weights, device, arena)?.view_mut());
    for (kind, buffer) in kinds {
        state = state.with(*kind, exclusive(buffer, device, arena)?.view_mut());
    }
    Ok(state)
}

/// An update under way, with all it takes to go on after a panic.
#[derive(Debug)]
pub(super) struct Updating {
    pub(super) slot: SlotId,
    pub(super) step: u64,
    pub(super) role: Role,
    pub(super) cell: Arc<SlotCell>,
    /// Nothing for a skip.
    pub(super) job: Option<(UpdateJob, Slice)>,
    pub(super) attempts: AtomicU32,
}

#[cfg(test)]
mod tests;
