//! Where a seat stands in its instruction list. Decides what is next; the actor does it.
//!
//! * WK-1 (a stage loads before it computes with tokens): tokens come before the first instruction that takes them.
//! * WK-2 (what is sent was made): a send stands behind the pass that makes what is sent.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use shoal_kernels::{Buffer, LossSum};
use shoal_model::Phase;
use shoal_plan::batch::{self, MicroBatch};
use shoal_plan::ids::{self, Lane, Seat, StageIndex};
use shoal_plan::lanes::TreeNode;
use shoal_plan::schedule::{Instruction, Pass, program};
use shoal_plan::space::GradUnit;

use super::message::{Cargo, Flow, StageArgs};
use crate::loader::Split;

/// What came before it was wanted. Bounded by the schedule: the stage before runs ahead by what is in flight.
pub(super) type Inbox = HashMap<Cargo, Buffer>;

/// One pass of one seat.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) pass: Pass,
    pub(super) step: u64,
    /// Factor of its gradients beside the job's own.
    pub(super) scale: f32,
    program: Vec<Instruction>,
    at: usize,
    batches: Vec<MicroBatch>,
    tokens: Tokens,
    /// Arrived and not yet consumed by a device job.
    received: BTreeMap<ids::MicroBatch, Buffer>,
    /// Made by a device job and not yet sent.
    made: BTreeMap<ids::MicroBatch, Buffer>,
    losses: BTreeMap<Lane, LossSum>,
}

#[derive(Debug)]
enum Tokens {
    /// A stage in the middle needs none.
    NotNeeded,
    Awaited,
    Here(Vec<Vec<u32>>),
}

/// What a seat does next.
#[derive(Debug)]
pub(super) enum Next {
    /// Wait for tokens, a neighbour or the device.
    Wait,
    /// Run a forward pass, on the activation if this is not the first stage.
    Forward(MicroBatch, Option<Buffer>),
    /// Compute a loss.
    Loss(MicroBatch),
    /// Run a backward pass, on the gradient if this is not the last stage.
    Backward(MicroBatch, Option<Buffer>),
    /// Take a contribution's sums.
    Take(GradUnit),
    /// Hand something to a neighbour.
    Send(Seat, Cargo, Buffer),
    /// The list is at its end.
    End,
}

impl Walk {
    pub(super) fn new(args: &StageArgs, pass: Pass, step: u64, scale: f32) -> Self {
        let lanes = args.plan.lanes[usize::from(args.seat.replica.0)].clone();
        let batches = match pass {
            Pass::Train => batch::micro_batches(&args.job, step, lanes),
            Pass::Evaluate => batch::validation_micro_batches(&args.job, lanes),
        };
        let program = program(&args.plan, &args.table, args.seat, pass, batches.len() as u32);
        let loads = program.iter().any(|i| matches!(i, Instruction::Load(_)));
        let tokens = if loads { Tokens::Awaited } else { Tokens::NotNeeded };
        let (received, made, losses) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { pass, step, scale, program, at: 0, batches, tokens, received, made, losses }
    }

    /// The windows to be read, if this stage needs any.
    pub(super) fn windows(&self, args: &StageArgs) -> Option<(Split, Vec<Vec<Range<u64>>>)> {
        match self.tokens {
            Tokens::NotNeeded => return None,
            Tokens::Awaited | Tokens::Here(_) => {}
        }
        let (split, window): (_, fn(&shoal_plan::job::Job, u64) -> Range<u64>) = match self.pass {
            Pass::Train => (Split::Train, batch::window_of),
            Pass::Evaluate => (Split::Validation, batch::validation_window_of),
        };
        let of = |b: &MicroBatch| b.samples.iter().map(|&sample| window(&args.job, sample)).collect();
        Some((split, self.batches.iter().map(of).collect()))
    }

    pub(super) fn loaded(&mut self, windows: Vec<Vec<u32>>) {
        self.tokens = Tokens::Here(windows);
    }

    /// What the model calls this pass.
    pub(super) fn phase(&self) -> Phase {
        match self.pass {
            Pass::Train => Phase::Train { step: self.step },
            Pass::Evaluate => Phase::Evaluate,
        }
    }

    /// Tokens of a micro-batch: all but each window's last, or (targets) all but each one's first.
    pub(super) fn tokens(&self, batch: &MicroBatch, targets: bool) -> Vec<u32> {
        let Tokens::Here(windows) = &self.tokens else {
            unreachable!("WK-1 (a stage loads before it computes with tokens)")
        };
        let all = &windows[batch.index.0 as usize];
        let window = all.len() / batch.samples.len();
        let shift = usize::from(targets);
        all.chunks_exact(window).flat_map(|w| &w[shift..window - 1 + shift]).copied().collect()
    }

    /// Takes what a device job made of the instruction under way, and moves on.
    pub(super) fn made(&mut self, batch: ids::MicroBatch, output: Option<Buffer>) {
        if let Some(output) = output {
            self.made.insert(batch, output);
        }
        self.at += 1;
    }

    /// Takes the loss of a micro-batch, and moves on.
    pub(super) fn scored(&mut self, lane: Lane, loss: &LossSum) {
        self.losses.entry(lane).or_insert(LossSum::ZERO).merge(loss);
        self.at += 1;
    }

    /// The instruction under way was done.
    pub(super) fn done(&mut self) {
        self.at += 1;
    }

    /// The loss of a subtree's lanes; none if this stage computes no loss.
    pub(super) fn loss_of(&self, node: TreeNode) -> Option<LossSum> {
        let lanes = self.losses.range(Lane(node.start)..Lane(node.end));
        lanes.map(|(_, loss)| *loss).reduce(|mut sum, loss| {
            sum.merge(&loss);
            sum
        })
    }

    /// The loss of the whole pass.
    pub(super) fn loss(&self) -> LossSum {
        self.losses.values().fold(LossSum::ZERO, |mut sum, loss| {
            sum.merge(loss);
            sum
        })
    }

    /// The next thing to do. Instructions that only move data are passed on the way.
    pub(super) fn next(&mut self, seat: Seat, inbox: &mut Inbox) -> Next {
        while let Some(&instruction) = self.program.get(self.at) {
            match instruction {
                Instruction::Load(_) => match self.tokens {
                    Tokens::Awaited => return Next::Wait,
                    Tokens::NotNeeded | Tokens::Here(_) => self.at += 1,
                },
                Instruction::RecvActivation(m) => {
                    let Some(buffer) = inbox.remove(&self.cargo(m, Flow::Forward)) else { return Next::Wait };
                    self.received.insert(m, buffer);
                    self.at += 1;
                }
                Instruction::RecvGradient(m) => {
                    let Some(buffer) = inbox.remove(&self.cargo(m, Flow::Backward)) else { return Next::Wait };
                    self.received.insert(m, buffer);
                    self.at += 1;
                }
                Instruction::Forward(m) => {
                    let input = self.received.remove(&m);
                    return Next::Forward(self.batch(m), input);
                }
                Instruction::Loss(m) => return Next::Loss(self.batch(m)),
                Instruction::Backward(m) => {
                    let gradient = self.received.remove(&m);
                    return Next::Backward(self.batch(m), gradient);
                }
                Instruction::SendActivation(m) => {
                    self.at += 1;
                    let to = Seat { stage: StageIndex(seat.stage.0 + 1), ..seat };
                    return self.send(m, to, Flow::Forward);
                }
                Instruction::SendGradient(m) => {
                    self.at += 1;
                    let to = Seat { stage: StageIndex(seat.stage.0 - 1), ..seat };
                    return self.send(m, to, Flow::Backward);
                }
                Instruction::Reduce(unit) => return Next::Take(unit),
            }
        }
        Next::End
    }

    fn send(&mut self, m: ids::MicroBatch, to: Seat, flow: Flow) -> Next {
        let buffer = self.made.remove(&m).expect("WK-2 (what is sent was made)");
        Next::Send(to, self.cargo(m, flow), buffer)
    }

    fn cargo(&self, micro_batch: ids::MicroBatch, flow: Flow) -> Cargo {
        Cargo { pass: self.pass, step: self.step, micro_batch, flow }
    }

    fn batch(&self, m: ids::MicroBatch) -> MicroBatch {
        self.batches[m.0 as usize].clone()
    }
}
