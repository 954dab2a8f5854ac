//! What a stage actor is told, and what it says.

use std::sync::Arc;

use shoal_kernels::{Buffer, JobPanic, LossSum};
use shoal_model::LaneSum;
use shoal_plan::blocks::ModelTable;
use shoal_plan::ids::{Generation, MicroBatch, Seat};
use shoal_plan::job::Job;
use shoal_plan::layout::Plan;
use shoal_plan::protocol::{LossSum as WireLoss, Trouble};
use shoal_plan::schedule::Pass;
use shoal_plan::space::GradUnit;

use super::core::{Outcome, SeatCore};
use crate::device::DeviceThread;
use crate::loader::Loader;

/// Which way something flows along the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Flow {
    /// An activation, to the next stage.
    Forward,
    /// Its gradient, to the stage before.
    Backward,
}

/// Names what flows along the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cargo {
    /// In which pass.
    pub pass: Pass,
    /// At which step (training: the one being computed; validation: committed ones).
    pub step: u64,
    /// Of which micro-batch.
    pub micro_batch: MicroBatch,
    /// Which way.
    pub flow: Flow,
}

/// What a stage actor is told.
#[derive(Debug)]
pub enum StageMsg {
    /// Walk one pass, after those ordered before.
    Run {
        /// Which.
        pass: Pass,
        /// At which step.
        step: u64,
        /// Factor of its gradients beside the job's own.
        scale: f32,
    },
    /// The stage before or after has sent something.
    Arrived(Cargo, Buffer),
    /// The loader has the tokens of a pass, or cannot have them.
    Loaded {
        /// Which pass.
        pass: Pass,
        /// At which step.
        step: u64,
        /// `context + 1` tokens a sample, by micro-batch; or what was found instead.
        windows: Result<Vec<Vec<u32>>, String>,
    },
    /// The device has done what it was given.
    Done(Result<Outcome, JobPanic>),
    /// Do this at the next instruction.
    Fail(StageFault),
}

/// A fault made on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageFault {
    /// The actor panics.
    Panic,
    /// The device's thread never comes back, while the actor lives.
    Hang,
    /// A gradient becomes infinite.
    Poison,
}

/// What a stage actor says to the holder of its node.
#[derive(Debug)]
pub enum SeatNews {
    /// To be handed to another seat.
    Send(Seat, Cargo, Buffer),
    /// Lane subtree sums of one contribution, each with the loss of its lanes if this stage has it.
    Sums {
        /// The step.
        step: u64,
        /// Which contribution.
        unit: GradUnit,
        /// Left to right.
        sums: Vec<(LaneSum, Option<WireLoss>)>,
    },
    /// This replica's part of a validation pass.
    Evaluated {
        /// Committed steps.
        step: u64,
        /// Its loss.
        loss: WireLoss,
    },
    /// It cannot go on, though it did not panic.
    Trouble(Trouble),
}

/// What a stage actor is told at its start.
#[derive(Clone)]
pub struct StageArgs {
    /// Under this generation.
    pub generation: Generation,
    /// Whose part it plays.
    pub seat: Seat,
    /// The job.
    pub job: Arc<Job>,
    /// Its block table.
    pub table: Arc<ModelTable>,
    /// The plan.
    pub plan: Arc<Plan>,
    /// Its weights and computation.
    pub core: Arc<SeatCore>,
    /// Where it computes.
    pub device: DeviceThread,
    /// Where its tokens come from.
    pub loader: Loader,
    /// To whom it speaks.
    pub holder: ractor::ActorRef<crate::holder::HolderMsg>,
}

/// A loss as the protocol says it.
#[must_use]
pub fn wire_loss(loss: &LossSum) -> WireLoss {
    let sum =
        if loss.finite { shoal_plan::protocol::Norm::Finite(loss.sum) } else { shoal_plan::protocol::Norm::NotFinite };
    WireLoss { loss: sum, tokens: loss.tokens }
}
