//! Instruction lists: what a seat does in one pass, as a value. Planner, simulator and stage actors read the same ones.

use serde::{Deserialize, Serialize};

use crate::ids::MicroBatch;
use crate::space::GradUnit;

/// Which pass over the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Pass {
    /// Forward, loss, backward, reduce.
    Train,
    /// Forward and loss.
    Evaluate,
}

/// One slot of a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Instruction {
    /// Take the micro-batch's tokens (first stage) or targets (last stage) from the loader.
    Load(MicroBatch),
    /// Wait for the activation from the stage before.
    RecvActivation(MicroBatch),
    /// Run every block of the stage; a head stops before its vocabulary product.
    Forward(MicroBatch),
    /// Hand the activation to the next stage.
    SendActivation(MicroBatch),
    /// Last stage: vocabulary product, loss, and in training its gradient. Comes right before the backward.
    Loss(MicroBatch),
    /// Wait for the gradient from the stage after.
    RecvGradient(MicroBatch),
    /// Differentiate every block of the stage and add to the lane accumulators.
    Backward(MicroBatch),
    /// Hand the gradient to the stage before.
    SendGradient(MicroBatch),
    /// Send the lane subtree sums of one contribution to the owners of its pieces.
    Reduce(GradUnit),
}
