//! What a seat computes with, outside of its actor: touched on the device's thread only.

use std::sync::{Mutex, MutexGuard, PoisonError};

use shoal_kernels::{Buffer, Device, LossSum, View};
use shoal_model::{BlockCalls, LaneSum, ModelError, StageModel};
use shoal_plan::ids::BlockId;
use shoal_plan::space::Interval;

use crate::device::Cancel;

/// A seat's model with its compute weights, until it is taken apart.
pub struct SeatCore {
    model: Mutex<Option<StageModel>>,
    /// As of the last job, so that a reader never waits for the device.
    calls: Mutex<Vec<BlockCalls>>,
    cancel: Cancel,
}

impl std::fmt::Debug for SeatCore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SeatCore")
    }
}

/// What a device job gave.
#[derive(Debug)]
pub enum Outcome {
    /// A forward pass: the activation for the next stage, if there is one.
    Forward(Option<Buffer>),
    /// A loss.
    Loss(LossSum),
    /// A backward pass: the gradient for the stage before, if there is one.
    Backward(Option<Buffer>),
    /// Lane subtree sums.
    Sums(Vec<LaneSum>),
    /// The step is at its end.
    Finished,
    /// It did not work.
    Failed(ModelError),
    /// Nobody wants it any more.
    Cancelled,
}

impl SeatCore {
    /// A seat around its model; its jobs are unwanted once `cancel` says so.
    #[must_use]
    pub fn new(model: StageModel, cancel: Cancel) -> Self {
        let calls = Mutex::new(model.calls().to_vec());
        Self { model: Mutex::new(Some(model)), calls, cancel }
    }

    /// Computes, unless it is unwanted or taken apart.
    pub(super) fn compute(&self, job: impl FnOnce(&mut StageModel) -> Result<Outcome, ModelError>) -> Outcome {
        if self.cancel.is_cancelled() {
            return Outcome::Cancelled;
        }
        match self.lock().as_mut() {
            Some(model) => {
                let outcome = job(model).unwrap_or_else(Outcome::Failed);
                *self.calls.lock().unwrap_or_else(PoisonError::into_inner) = model.calls().to_vec();
                outcome
            }
            None => Outcome::Cancelled,
        }
    }

    /// Overwrites compute weights.
    pub fn copy_weights(&self, device: &Device, block: BlockId, interval: Interval, values: View<'_>) {
        if let Some(model) = self.lock().as_mut() {
            model.copy_weights(device, block, interval, values);
        }
    }

    /// Takes the model apart: its memory goes back to the arena.
    pub fn dismantle(&self) {
        *self.lock() = None;
    }

    /// How often each block was computed here.
    #[must_use]
    pub fn calls(&self) -> Vec<BlockCalls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<StageModel>> {
        // A panic in the model raises a fence, after which the seat is built anew; until then nothing reads it.
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
