//! What is put into a stage from outside, and looked at: weights, the loss scale, faults.

use shoal_config::JobSpec;
use shoal_kernels::{Device, View, ViewMut};
use shoal_plan::ids::BlockId;
use shoal_plan::ledger::backward_seed;
use shoal_plan::space::Interval;

use super::StageModel;

impl StageModel {
    /// Overwrites weights from host memory; elements that this stage does not compute with are passed over.
    ///
    /// # Panics
    /// If there is not one value an element.
    pub fn write_weights(&mut self, device: &Device, block: BlockId, interval: Interval, values: &[f32]) {
        self.weights.write(device, block, interval, values);
    }

    /// Overwrites weights from the device's own memory; elements that this stage does not compute with are passed over.
    ///
    /// # Panics
    /// If there is not one value an element.
    pub fn copy_weights(&mut self, device: &Device, block: BlockId, interval: Interval, values: View<'_>) {
        self.weights.copy(device, block, interval, values);
    }

    /// Gradients of losses from now on have this factor beside the job's own.
    pub fn set_loss_scale(&mut self, spec: &JobSpec, factor: f32) {
        self.seed = backward_seed(spec) * factor;
    }

    /// Puts a value, infinite or not a number, into the gradient of the next micro-batch that comes here: a fault on purpose.
    pub fn poison(&mut self, value: f32) {
        self.poison = Some(value);
    }

    /// Some weights of this stage, to be updated where they are.
    pub(crate) fn weights_mut(&mut self, block: BlockId, interval: Interval) -> ViewMut<'_> {
        self.weights.view_mut(block, interval.range())
    }

    /// Some weights of this stage, if it computes with full precision.
    ///
    /// # Panics
    /// If the stage does not compute with all of them, or has them in a half type.
    #[must_use]
    pub fn read_weights(&self, block: BlockId, interval: Interval) -> View<'_> {
        self.weights.view(block, interval.range())
    }
}
