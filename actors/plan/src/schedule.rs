//! Instruction lists: what a seat does in one pass, as a value. Planner, simulator and stage actors read the same ones.

use serde::{Deserialize, Serialize};
use shoal_config::spec::Schedule;

use crate::blocks::ModelTable;
use crate::ids::{MicroBatch, Seat};
use crate::layout::Plan;
use crate::space::GradUnit;

pub mod timeline;

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

/// The instruction list of one seat for one pass over `micro_batches` micro-batches of its replica.
///
/// ```text
/// GPipe   stage 0  F0 F1 F2 F3 .  .  B0 B1 B2 B3       1F1B   stage 0  F0 F1 F2 .  B0 F3 B1 B2 B3
/// (p = 3) stage 1     F0 F1 F2 F3 .  B0 B1 B2 B3      (p = 3) stage 1     F0 F1 B0 F2 B1 F3 ..
///         stage 2        F0 F1 F2 F3 B0 B1 B2 B3              stage 2        F0 B0 F1 B1 ..
/// ```
///
/// Backwards are ascending in both, so a lane adds its micro-batches in the same order whatever the schedule. GPipe keeps
/// all micro-batches in flight, 1F1B on stage s at most `min(m, p - s)`: warm-up is `min(m, p - s - 1)` forwards
/// (Narayanan et al., "Efficient large-scale language model training on GPU clusters using Megatron-LM").
#[must_use]
pub fn program(plan: &Plan, table: &ModelTable, seat: Seat, pass: Pass, micro_batches: u32) -> Vec<Instruction> {
    let place = (u32::from(seat.stage.0), plan.stages.len() as u32);
    let mut out = slots(plan.schedule, place, pass, micro_batches);
    if pass == Pass::Train && micro_batches > 0 {
        let blocks = plan.stages[usize::from(seat.stage.0)].blocks.clone();
        out.extend(table.units_computed_by(blocks).into_iter().rev().map(Instruction::Reduce));
    }
    out
}

/// A seat's list without its reductions, for stage `place.0` of `place.1`.
pub(crate) fn slots(schedule: Schedule, place: (u32, u32), pass: Pass, micro_batches: u32) -> Vec<Instruction> {
    let role = Role { stage: place.0, stages: place.1 };
    let mut out = Vec::with_capacity(micro_batches as usize * 8 + 16);
    match pass {
        Pass::Evaluate => {
            for m in 0..micro_batches {
                role.forward(m, &mut out);
                if role.is_last() {
                    out.push(Instruction::Loss(MicroBatch(m)));
                }
            }
        }
        Pass::Train => {
            let ahead = role.in_flight(schedule, micro_batches);
            for m in 0..ahead {
                role.forward(m, &mut out);
            }
            for m in 0..micro_batches {
                role.backward(m, &mut out);
                if ahead + m < micro_batches {
                    role.forward(ahead + m, &mut out);
                }
            }
        }
    }
    out
}

/// Micro-batches that stage `stage` of `stages` holds between forward and backward, at most.
#[must_use]
pub fn in_flight(schedule: Schedule, stage: u32, stages: u32, micro_batches: u32) -> u32 {
    Role { stage, stages }.in_flight(schedule, micro_batches)
}

/// Where a seat stands in its pipeline.
#[derive(Clone, Copy)]
struct Role {
    stage: u32,
    stages: u32,
}

impl Role {
    fn is_first(self) -> bool {
        self.stage == 0
    }

    fn is_last(self) -> bool {
        self.stage + 1 == self.stages
    }

    fn in_flight(self, schedule: Schedule, micro_batches: u32) -> u32 {
        match schedule {
            Schedule::GPipe => micro_batches,
            Schedule::OneFOneB => micro_batches.min(self.stages - self.stage),
        }
    }

    fn forward(self, m: u32, out: &mut Vec<Instruction>) {
        let m = MicroBatch(m);
        if self.is_first() || self.is_last() {
            out.push(Instruction::Load(m));
        }
        if !self.is_first() {
            out.push(Instruction::RecvActivation(m));
        }
        out.push(Instruction::Forward(m));
        if !self.is_last() {
            out.push(Instruction::SendActivation(m));
        }
    }

    fn backward(self, m: u32, out: &mut Vec<Instruction>) {
        let m = MicroBatch(m);
        out.push(if self.is_last() { Instruction::Loss(m) } else { Instruction::RecvGradient(m) });
        out.push(Instruction::Backward(m));
        if !self.is_first() {
            out.push(Instruction::SendGradient(m));
        }
    }
}

#[cfg(test)]
mod tests;
