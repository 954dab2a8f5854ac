//! The actor of one seat. Child of the holder of its node, which builds it anew at every deployment. Owns its place in the
//! instruction list and what has arrived for it; the model and its weights lie in a [`super::SeatCore`] that outlives it.
//!
//! Message-driven: `advance` does what can be done, gives the device one job at a time, and goes on when it is done. A
//! panic, here or in a device job, ends the actor; its supervisor tells the engine, and nothing but the step is lost.
//!
//! ST-3 (the device answers what it was given): it has one job at a time, and its outcome is of the same kind.

use std::collections::VecDeque;
use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use shoal_kernels::{Device, JobPanic};
use shoal_model::{Input, ModelError, StageModel};
use shoal_plan::batch::MicroBatch;
use shoal_plan::protocol::Trouble;
use shoal_plan::schedule::Pass;
use shoal_plan::space::GradUnit;

use super::core::Outcome;
use super::message::{SeatNews, StageArgs, StageFault, StageMsg, wire_loss};
use super::walk::{Inbox, Next, Walk};
use crate::chain::chain;
use crate::holder::HolderMsg;

/// The actor of one seat.
#[derive(Debug)]
pub struct StageActor;

/// Where a seat stands.
pub struct StageState {
    args: StageArgs,
    me: ActorRef<StageMsg>,
    inbox: Inbox,
    /// Ordered and not begun.
    due: VecDeque<(Pass, u64, f32)>,
    work: Work,
    /// To happen at the next instruction.
    fault: Option<StageFault>,
}

#[derive(Debug)]
enum Work {
    Idle,
    /// Between two device jobs.
    Walking(Box<Walk>),
    /// The device has a job of this walk.
    Computing(Box<Walk>, Job),
}

/// What the device was given.
#[derive(Debug)]
enum Job {
    Forward(MicroBatch),
    Loss(MicroBatch),
    Backward(MicroBatch),
    Take(GradUnit),
    Finish,
}

impl Actor for StageActor {
    type Msg = StageMsg;
    type State = StageState;
    type Arguments = StageArgs;

    async fn pre_start(&self, me: ActorRef<StageMsg>, args: StageArgs) -> Result<StageState, ActorProcessingErr> {
        let (inbox, due) = (Inbox::new(), VecDeque::new());
        Ok(StageState { args, me, inbox, due, work: Work::Idle, fault: None })
    }

    async fn handle(
        &self,
        _: ActorRef<StageMsg>,
        message: StageMsg,
        state: &mut StageState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            StageMsg::Run { pass, step, scale } => state.due.push_back((pass, step, scale)),
            StageMsg::Arrived(cargo, buffer) => {
                state.inbox.insert(cargo, buffer);
            }
            StageMsg::Loaded { pass, step, windows } => state.loaded(pass, step, windows)?,
            StageMsg::Done(result) => state.done(result)?,
            StageMsg::Fail(fault) => state.fault = Some(fault),
        }
        state.advance()
    }
}

impl StageState {
    /// Does what can be done until the device is busy or something must come.
    fn advance(&mut self) -> Result<(), ActorProcessingErr> {
        loop {
            let mut walk = match std::mem::replace(&mut self.work, Work::Idle) {
                Work::Walking(walk) => walk,
                Work::Idle => match self.due.pop_front() {
                    Some((pass, step, scale)) => self.begin(pass, step, scale),
                    None => return Ok(()),
                },
                computing @ Work::Computing(..) => {
                    self.work = computing;
                    return Ok(());
                }
            };
            let next = walk.next(self.args.seat, &mut self.inbox);
            if !matches!(next, Next::Wait) {
                match self.fault.take() {
                    None => {}
                    Some(StageFault::Panic) => {
                        panic!("a fault was asked for at step {} of {}", walk.step, self.args.seat)
                    }
                    Some(StageFault::Hang) => self.args.device.submit(|_| hang(), drop),
                    Some(StageFault::Poison) => self.poison(),
                }
            }
            match next {
                Next::Wait => {
                    self.work = Work::Walking(walk);
                    return Ok(());
                }
                Next::Send(to, cargo, buffer) => {
                    self.say(SeatNews::Send(to, cargo, buffer))?;
                    self.work = Work::Walking(walk);
                }
                Next::Forward(batch, activation) => {
                    let phase = walk.phase();
                    let tokens = if activation.is_none() { walk.tokens(&batch, false) } else { Vec::new() };
                    let micro_batch = batch.clone();
                    self.compute(walk, Job::Forward(batch), move |device, model| {
                        let input = match activation {
                            Some(activation) => Input::Activation(Arc::new(activation)),
                            None => Input::Tokens(&tokens),
                        };
                        model.forward(device, phase, &micro_batch, input).map(Outcome::Forward)
                    });
                }
                Next::Loss(batch) => {
                    let targets = walk.tokens(&batch, true);
                    let (micro_batch, job, scale) = (batch.clone(), Arc::clone(&self.args.job), walk.scale);
                    self.compute(walk, Job::Loss(batch), move |device, model| {
                        model.set_loss_scale(&job.spec, scale);
                        model.loss(device, &micro_batch, &targets).map(Outcome::Loss)
                    });
                }
                Next::Backward(batch, gradient) => {
                    let micro_batch = batch.clone();
                    self.compute(walk, Job::Backward(batch), move |device, model| {
                        model.backward(device, &micro_batch, gradient).map(Outcome::Backward)
                    });
                }
                Next::Take(unit) => {
                    self.compute(walk, Job::Take(unit), move |_, model| Ok(Outcome::Sums(model.take_gradient(unit))))
                }
                Next::End => match walk.pass {
                    Pass::Train => self.compute(walk, Job::Finish, |_, model| {
                        model.finish_step();
                        Ok(Outcome::Finished)
                    }),
                    Pass::Evaluate => self.evaluated(&walk)?,
                },
            }
        }
    }

    /// The next gradient made here is infinite.
    fn poison(&self) {
        let core = Arc::clone(&self.args.core);
        let poison = move |model: &mut StageModel| {
            model.poison(f32::INFINITY);
            Ok(Outcome::Finished)
        };
        self.args.device.submit(move |_| core.compute(poison), drop);
    }

    fn begin(&mut self, pass: Pass, step: u64, scale: f32) -> Box<Walk> {
        let walk = Box::new(Walk::new(&self.args, pass, step, scale));
        // What an abandoned pass left behind cannot be wanted any more.
        self.inbox.retain(|cargo, _| cargo.step >= step.saturating_sub(1));
        if let Some((split, windows)) = walk.windows(&self.args) {
            let me = self.me.clone();
            let reply = move |windows| {
                // An error means that this seat is gone.
                let _ = me.cast(StageMsg::Loaded { pass, step, windows });
            };
            self.args.loader.read(split, windows, Box::new(reply));
        }
        walk
    }

    fn compute(
        &mut self,
        walk: Box<Walk>,
        job: Job,
        run: impl FnOnce(&Device, &mut StageModel) -> Result<Outcome, ModelError> + Send + 'static,
    ) {
        let (core, me) = (Arc::clone(&self.args.core), self.me.clone());
        self.args.device.submit(
            move |device| core.compute(|model| run(device, model)),
            // An error means that this seat is gone.
            move |result| drop(me.cast(StageMsg::Done(result))),
        );
        self.work = Work::Computing(walk, job);
    }

    fn done(&mut self, result: Result<Outcome, JobPanic>) -> Result<(), ActorProcessingErr> {
        let Work::Computing(mut walk, job) = std::mem::replace(&mut self.work, Work::Idle) else {
            return Err("ST-3 (the device answers what it was given)".into());
        };
        match (job, result?) {
            (Job::Forward(batch), Outcome::Forward(output)) | (Job::Backward(batch), Outcome::Backward(output)) => {
                walk.made(batch.index, output);
            }
            (Job::Loss(batch), Outcome::Loss(loss)) => walk.scored(batch.lane, &loss),
            (Job::Take(unit), Outcome::Sums(sums)) => {
                let with_loss = |sum: shoal_model::LaneSum| {
                    let loss = walk.loss_of(sum.node).as_ref().map(wire_loss);
                    (sum, loss)
                };
                let sums = sums.into_iter().map(with_loss).collect();
                self.say(SeatNews::Sums { step: walk.step, unit, sums })?;
                walk.done();
            }
            (Job::Finish, Outcome::Finished) => return Ok(()),
            (_, Outcome::Failed(error)) => return self.failed(&error),
            // The holder has cancelled this generation and will end this actor.
            (_, Outcome::Cancelled) => return Ok(()),
            (
                Job::Forward(_) | Job::Loss(_) | Job::Backward(_) | Job::Take(_) | Job::Finish,
                Outcome::Forward(_) | Outcome::Loss(_) | Outcome::Backward(_) | Outcome::Sums(_) | Outcome::Finished,
            ) => return Err("ST-3 (the device answers what it was given)".into()),
        }
        self.work = Work::Walking(walk);
        Ok(())
    }

    fn loaded(
        &mut self,
        pass: Pass,
        step: u64,
        windows: Result<Vec<Vec<u32>>, String>,
    ) -> Result<(), ActorProcessingErr> {
        match windows {
            Err(cause) => self.say(SeatNews::Trouble(Trouble::Data { cause })),
            Ok(windows) => {
                if let Work::Walking(walk) = &mut self.work
                    && (walk.pass, walk.step) == (pass, step)
                {
                    walk.loaded(windows);
                }
                Ok(())
            }
        }
    }

    fn evaluated(&mut self, walk: &Walk) -> Result<(), ActorProcessingErr> {
        let last = usize::from(self.args.seat.stage.0) + 1 == self.args.plan.stages.len();
        if last {
            self.say(SeatNews::Evaluated { step: walk.step, loss: wire_loss(&walk.loss()) })?;
        }
        Ok(())
    }

    fn failed(&mut self, error: &ModelError) -> Result<(), ActorProcessingErr> {
        let cause = chain(error);
        let trouble = match error {
            ModelError::Weights { .. }
            | ModelError::Rotary { .. }
            | ModelError::Forward { .. }
            | ModelError::Loss { .. }
            | ModelError::Backward { .. } => Trouble::OverBudget { cause },
            ModelError::Token { .. } | ModelError::EmptyLane { .. } | ModelError::Initial { .. } => {
                Trouble::Data { cause }
            }
        };
        self.say(SeatNews::Trouble(trouble))
    }

    fn say(&self, news: SeatNews) -> Result<(), ActorProcessingErr> {
        Ok(self.args.holder.cast(HolderMsg::Seat(self.args.generation, self.args.seat, news))?)
    }
}

/// What a device does that never comes back.
fn hang() {
    loop {
        std::thread::park();
    }
}
