//! The AdamW update of one slot, in strides, with a cursor that outlives a panic.
//!
//! * UP-1 (each element once): the cursor moves past a stride in the same breath as the stride is done; a panic between two
//!   strides resumes, a panic inside one is found by its mark and the slot declared lost.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use shoal_config::spec::AdamWSpec;
use shoal_kernels::{AdamW, Arena, ArenaError, Device};
use shoal_plan::blocks::BlockTable;
use shoal_plan::holder::{Role, SlotId};
use shoal_plan::ledger::{LedgerEntry, Update};
use shoal_plan::space::Interval;

use super::slot::SlotCell;
use super::tensor::{Slice, exclusive};

/// Elements of a stride.
const STRIDE: usize = 1 << 18;

/// How far an update has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// No update is under way.
    Rest,
    /// The strides before `next` are done, the others untouched.
    Between {
        /// The step it leads to.
        step: u64,
        /// Stride.
        next: usize,
    },
    /// Stride `at` was begun and may be half done.
    Inside {
        /// Stride.
        at: usize,
    },
}

/// Why an update did not happen.
#[derive(Debug, thiserror::Error)]
pub(super) enum UpdateError {
    /// The buffers are being sent and there is no room for copies. Nothing was changed.
    #[error("no room to update while the piece is being sent")]
    Room(#[source] ArenaError),
    /// An update panicked inside a stride: the elements cannot be trusted.
    #[error("an earlier update ended inside stride {at}")]
    Torn {
        /// Stride.
        at: usize,
    },
}

/// One update, ready to be carried out.
#[derive(Clone, Debug)]
pub(super) struct UpdateJob {
    step: u64,
    scalars: AdamW,
    /// Elements of the slot, none longer than [`STRIDE`], with whether weight decay applies.
    strides: Vec<(Range<usize>, bool)>,
}

impl UpdateJob {
    /// The update of an interval, or nothing for a skip.
    pub(super) fn new(
        entry: &LedgerEntry,
        optimizer: &AdamWSpec,
        table: &BlockTable,
        interval: Interval,
    ) -> Option<Self> {
        let Update::Apply(scalars) = entry.update else { return None };
        let scalars = AdamW {
            scale: f32::from_bits(scalars.scale),
            decay: f32::from_bits(scalars.decay),
            step_size: f32::from_bits(scalars.step_size),
            root_correction: f32::from_bits(scalars.root_correction),
            beta1: optimizer.beta1,
            beta2: optimizer.beta2,
            epsilon: optimizer.epsilon,
        };
        Some(Self { step: entry.step, scalars, strides: strides(table, interval, STRIDE) })
    }

    /// Carries the update out, or the rest of it. `between` is called before each stride.
    pub(super) fn apply(
        &self,
        (device, arena): (&Device, &Arena),
        cell: &SlotCell,
        gradient: &Slice,
        mut between: impl FnMut(usize),
    ) -> Result<(), UpdateError> {
        let mut body = cell.lock();
        let first = match body.progress {
            Progress::Rest => 0,
            Progress::Between { step, next } => {
                assert_eq!(step, self.step, "UP-2 (an update is finished before the next begins)");
                next
            }
            Progress::Inside { at } => return Err(UpdateError::Torn { at }),
        };
        // Copies, if any are needed, are made before the first element changes.
        for kind in &mut body.kinds {
            exclusive(kind, device, arena).map_err(UpdateError::Room)?;
        }
        let body = &mut *body;
        for (at, (range, decayed)) in self.strides.iter().enumerate().skip(first) {
            body.progress = Progress::Between { step: self.step, next: at };
            between(at);
            body.progress = Progress::Inside { at };
            let [weight, first, second] = &mut body.kinds;
            let part = |kind| exclusive(kind, device, arena).map_err(UpdateError::Room);
            let (weight, first, second) = (part(weight)?, part(first)?, part(second)?);
            device.adamw(
                weight.view_mut().range(range.clone()),
                (first.view_mut().range(range.clone()), second.view_mut().range(range.clone())),
                gradient.view().range(range.clone()),
                &self.scalars,
                *decayed,
            );
        }
        body.progress = Progress::Rest;
        Ok(())
    }
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

/// The parameters' parts of an interval, relative to its start, none longer than `stride`. Gaps stay zero.
fn strides(table: &BlockTable, interval: Interval, stride: usize) -> Vec<(Range<usize>, bool)> {
    let mut out = Vec::new();
    for param in &table.params {
        let Some(part) = param.interval.intersection(interval) else { continue };
        let (mut at, end) = ((part.start - interval.start) as usize, (part.end - interval.start) as usize);
        while at < end {
            let next = (at + stride).min(end);
            out.push((at..next, param.decay));
            at = next;
        }
    }
    out
}

#[cfg(test)]
mod tests;
