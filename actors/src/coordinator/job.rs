//! One job: its engine, and its journal for people.

use std::collections::BTreeSet;
use std::sync::Arc;

use shoal_plan::blocks::ModelTable;
use shoal_plan::engine::{Engine, Millis, RedundancyState, Setup, State, Status, Timing};
use shoal_plan::ids::{Generation, JobId};
use shoal_plan::job::Job;
use shoal_plan::loss_scale::LossScale;
use shoal_wire::api;
use shoal_wire::journal::Line;

use super::intake;
use super::joblog::JobLog;

/// Committed steps over which the rate is taken.
const RATE_STEPS: usize = 20;

/// One job.
pub(super) struct JobEntry {
    pub(super) job: Arc<Job>,
    pub(super) engine: Engine,
    pub(super) log: JobLog,
    /// When the engine is to be woken.
    pub(super) wakes: BTreeSet<Millis>,
}

impl JobEntry {
    /// A job as its journal has it.
    pub(super) fn restore(job: Arc<Job>, lines: Vec<Line>, incarnation: u32, timing: Timing) -> Self {
        let mut log = JobLog::default();
        for line in &lines {
            log.push(line);
        }
        let engine = Engine::restore(setup(&job, incarnation, timing), lines.into_iter().map(|line| line.record));
        Self { job, engine, log, wakes: BTreeSet::new() }
    }

    /// Whether nothing will ever happen again and nodes are free.
    pub(super) fn is_over(&self) -> bool {
        self.engine.has_released()
    }

    /// What `status` shows.
    pub(super) fn status(&self, id: JobId) -> api::JobStatus {
        let Status {
            state,
            arithmetic,
            step,
            loss,
            val_loss,
            loss_scale,
            generation,
            redundancy,
            steps_lost,
            steps_redone,
            plan,
            reason,
            plain,
            ..
        } = self.engine.status();
        // A job that stands still has no speed.
        let moves = matches!(state, State::Training | State::Done);
        let fault = match state {
            State::Failed { .. } if intake::is_unread(&self.job) => Some(api::Fault::Data),
            State::Failed { .. } => Some(api::Fault::Run),
            State::Queued
            | State::Planning
            | State::Training
            | State::Recovering
            | State::Paused { .. }
            | State::Parked
            | State::Done
            | State::Cancelled => None,
        };
        api::JobStatus {
            state: word(&state),
            arithmetic: arithmetic.map(|arithmetic| arithmetic.to_string()),
            step,
            fault,
            loss: loss.map(|(_, loss)| loss),
            loss_step: loss.map(|(step, _)| step),
            val_loss,
            loss_scale: loss_scale.map(|scale| f64::from(scale.factor())),
            generation: generation.to_string(),
            redundancy: api::Redundancy {
                have: redundancy.have,
                want: redundancy.want,
                state: match redundancy.state {
                    RedundancyState::Full => api::RedundancyState::Full,
                    RedundancyState::Restoring => api::RedundancyState::Restoring,
                    RedundancyState::Short => api::RedundancyState::Short,
                    RedundancyState::Gone => api::RedundancyState::Gone,
                },
            },
            steps_lost,
            steps_redone,
            tokens_per_second: self.log.tokens_per_second(RATE_STEPS).filter(|_| moves),
            plan,
            reason,
            plain,
            ..unstarted(id, &self.job)
        }
    }

    /// Whether it is done, failed or cancelled, though nodes may still have to let go of it.
    pub(super) fn has_ended(&self) -> bool {
        self.engine.status().state.is_over()
    }
}

/// Status of a job that nothing has happened to.
pub(super) fn unstarted(id: JobId, job: &Job) -> api::JobStatus {
    api::JobStatus {
        job: id.to_string(),
        name: job.spec.name.clone(),
        optimizer: job.spec.train.optimizer.name().to_owned(),
        precision: job.spec.train.numerics.precision.dtype().word().to_owned(),
        wire: job.spec.train.numerics.wire.dtype().word().to_owned(),
        arithmetic: None,
        state: api::JobState::Queued,
        step: 0,
        steps: job.spec.train.steps,
        loss: None,
        loss_step: None,
        val_loss: None,
        loss_scale: LossScale::first(&job.spec).map(|scale| f64::from(scale.factor())),
        generation: Generation::default().to_string(),
        redundancy: api::Redundancy {
            have: 0,
            want: job.spec.elastic.redundancy,
            state: match job.spec.elastic.redundancy {
                0 => api::RedundancyState::Full,
                _ => api::RedundancyState::Restoring,
            },
        },
        steps_lost: 0,
        steps_redone: 0,
        tokens_per_second: None,
        plan: None,
        reason: None,
        plain: None,
        fault: None,
        reading: None,
        tokenizer: job.data.tokenizer.map(|tokenizer| api::TokenizerInfo {
            kind: tokenizer.kind.to_string(),
            blake3: tokenizer.digest.to_hex(),
            vocab: tokenizer.vocab,
            end_of_text: tokenizer.end_of_text,
        }),
    }
}

fn setup(job: &Arc<Job>, incarnation: u32, timing: Timing) -> Setup {
    let table = Arc::new(ModelTable::of_job(&job.spec));
    Setup { job: Arc::clone(job), table, incarnation, timing }
}

fn word(state: &State) -> api::JobState {
    match state {
        State::Queued => api::JobState::Queued,
        State::Planning => api::JobState::Planning,
        State::Training => api::JobState::Training,
        State::Recovering => api::JobState::Recovering,
        State::Paused { .. } => api::JobState::Paused,
        State::Parked => api::JobState::Parked,
        State::Done => api::JobState::Done,
        State::Failed { .. } => api::JobState::Failed,
        State::Cancelled => api::JobState::Cancelled,
    }
}
