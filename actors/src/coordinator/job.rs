//! One job: its engine, and its journal for people.

use std::sync::Arc;

use shoal_plan::blocks::ModelTable;
use shoal_plan::engine::{Engine, Millis, RedundancyState, Setup, State, Status, Timing};
use shoal_plan::ids::JobId;
use shoal_plan::job::Job;
use shoal_wire::api;
use shoal_wire::journal::Line;

use super::joblog::JobLog;

/// Committed steps over which the rate is taken.
const RATE_STEPS: usize = 20;

/// One job.
pub(super) struct JobEntry {
    pub(super) job: Arc<Job>,
    pub(super) engine: Engine,
    pub(super) log: JobLog,
    /// When the engine is to be woken next.
    pub(super) wake: Option<Millis>,
}

impl JobEntry {
    /// A job that was just submitted.
    pub(super) fn new(job: Arc<Job>, incarnation: u32) -> Self {
        let engine = Engine::new(setup(&job, incarnation));
        Self { job, engine, log: JobLog::default(), wake: None }
    }

    /// A job as its journal left it.
    pub(super) fn restore(job: Arc<Job>, lines: Vec<Line>, incarnation: u32) -> Self {
        let mut log = JobLog::default();
        for line in &lines {
            log.push(line);
        }
        let engine = Engine::restore(setup(&job, incarnation), lines.into_iter().map(|line| line.record));
        Self { job, engine, log, wake: None }
    }

    /// Whether nothing will ever happen again and nodes are free.
    pub(super) fn is_over(&self) -> bool {
        self.engine.has_released()
    }

    /// What `status` shows.
    pub(super) fn status(&self, id: JobId) -> api::JobStatus {
        let Status {
            state, step, loss, val_loss, generation, redundancy, steps_lost, steps_redone, plan, reason, ..
        } = self.engine.status();
        api::JobStatus {
            job: id.to_string(),
            name: self.job.spec.name.clone(),
            state: word(&state),
            step,
            steps: self.job.spec.train.steps,
            loss,
            val_loss,
            generation: generation.to_string(),
            redundancy: api::Redundancy {
                have: redundancy.have,
                want: redundancy.want,
                state: match redundancy.state {
                    RedundancyState::Full => api::RedundancyState::Full,
                    RedundancyState::Restoring => api::RedundancyState::Restoring,
                    RedundancyState::Short => api::RedundancyState::Short,
                },
            },
            steps_lost,
            steps_redone,
            tokens_per_second: self.log.tokens_per_second(RATE_STEPS),
            plan,
            reason,
        }
    }
}

fn setup(job: &Arc<Job>, incarnation: u32) -> Setup {
    let table = Arc::new(ModelTable::of(&job.spec.model));
    Setup { job: Arc::clone(job), table, incarnation, timing: Timing::default() }
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
