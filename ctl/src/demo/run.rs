//! One job, from submission to its final digest.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use shoal_config::JobSpec;
use shoal_wire::api::{JobState, JobStatus, RedundancyState};

use super::audit;
use super::disturbance::{Disturbance, Kill};
use super::interrupt::Interrupt;
use super::outcome::RunResult;
use super::stage::Stage;
use crate::failure::Failure;
use crate::output::table::word;
use crate::output::{bar, units};

/// Between two looks at the job.
const LOOK: Duration = Duration::from_millis(15);
/// A job that commits nothing for so long is stuck.
const STUCK: Duration = Duration::from_secs(60);
/// For the final digest, which is read from files by then.
const DIGEST: Duration = Duration::from_secs(30);

/// A job that is running.
pub struct Run<'a> {
    stage: &'a Stage,
    interrupt: &'a Interrupt,
    bar: ProgressBar,
    job: String,
}

/// A job that is done.
#[derive(Clone, Debug)]
pub struct Finished {
    /// What it came to.
    pub result: RunResult,
    /// As the ledger shows it.
    pub samples_exactly_once: bool,
}

/// How the progress of a run is drawn.
#[must_use]
pub fn bar_style() -> ProgressStyle {
    bar::style("{prefix} [{bar:32}] {pos}/{len}  {msg}")
}

impl<'a> Run<'a> {
    /// Submits the job.
    ///
    /// # Errors
    /// If it is refused.
    pub fn submit(
        stage: &'a Stage,
        spec: &JobSpec,
        bar: ProgressBar,
        interrupt: &'a Interrupt,
    ) -> Result<Self, Failure> {
        let job = stage.client.submit(spec.clone(), true)?.job;
        Ok(Self { stage, interrupt, bar, job })
    }

    /// Follows it to its end and collects what it did.
    ///
    /// # Errors
    /// If the job fails or gets stuck, or the operator interrupts.
    pub fn finish(self, disturbance: Option<Disturbance>) -> Result<Finished, Failure> {
        let mut kills = Vec::new();
        let mut joins = 0;
        if let Some(when) = disturbance {
            let ripe =
                |status: &JobStatus| status.step >= when.kill_after && status.redundancy.state == RedundancyState::Full;
            let at = self.follow(ripe)?;
            let kill = Kill::one(self.stage, at.generation)?;
            self.say(&format!("step {}: killed {} (SIGKILL)", at.step, kill.node));
            kills.push(kill);
            let at = self.follow(|status| status.step >= when.join_after)?;
            let raised = self.stage.raise()?;
            self.say(&format!("step {}: {} joins", at.step, raised.started.join(", ")));
            joins = self.count_joined(at.step, &raised.started)?;
        }
        let last = self.follow(|status| status.state == JobState::Done)?;
        let ledger = self.stage.client.ledger(&self.job)?;
        let job = self.stage.client.job(&self.job)?;
        let final_loss = ledger.iter().rev().find_map(|line| line.mean_loss);
        let result = RunResult {
            final_loss: final_loss.ok_or_else(|| Failure::No(format!("{} is done without a loss", self.job)))?,
            state_blake3: self.stage.client.digest(&self.job, None, DIGEST)?.state_blake3,
            kills: kills.len() as u32,
            joins,
            recovery_ms: kills.iter().filter_map(|kill| kill.recovery_ms(&ledger)).collect(),
            steps_lost: last.steps_lost,
            steps_redone: last.steps_redone,
        };
        Ok(Finished { result, samples_exactly_once: audit::samples_exactly_once(&job, &ledger) })
    }

    /// Looks at the job until `until`, drawing its progress.
    fn follow(&self, until: impl Fn(&JobStatus) -> bool) -> Result<JobStatus, Failure> {
        let mut progress = (0, Instant::now());
        loop {
            self.interrupt.check()?;
            let status = self.stage.client.status(&self.job)?;
            self.bar.set_position(status.step);
            self.bar.set_message(format!(
                "loss {}  {}",
                units::loss(status.loss),
                units::rate(status.tokens_per_second)
            ));
            if until(&status) {
                return Ok(status);
            }
            match status.state {
                JobState::Done | JobState::Failed | JobState::Cancelled => return Err(self.ended(&status)),
                JobState::Queued
                | JobState::Planning
                | JobState::Training
                | JobState::Recovering
                | JobState::Paused
                | JobState::Parked => {}
            }
            if status.step != progress.0 {
                progress = (status.step, Instant::now());
            }
            if progress.1.elapsed() > STUCK {
                return Err(Failure::Timeout(format!(
                    "{} is {} and has committed nothing for {} s after step {}",
                    self.job,
                    word(&status.state),
                    STUCK.as_secs(),
                    status.step
                )));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// How many of `names` are part of the job: it says so in an event, or it ended first.
    fn count_joined(&self, since: u64, names: &[String]) -> Result<u32, Failure> {
        let give_up = Instant::now() + STUCK;
        loop {
            self.interrupt.check()?;
            let over = self.stage.client.status(&self.job)?.state == JobState::Done;
            let events = self.stage.client.all_events(&self.job)?;
            let joined = events.iter().filter(|event| event.kind == "node_joined" && event.step >= since).count();
            if joined >= names.len() || over || Instant::now() >= give_up {
                return Ok(joined.min(names.len()) as u32);
            }
            std::thread::sleep(LOOK);
        }
    }

    fn ended(&self, status: &JobStatus) -> Failure {
        let reason = status.reason.clone().unwrap_or_else(|| "no reason was given".to_owned());
        Failure::No(format!("{} is {} at step {}: {reason}", self.job, word(&status.state), status.step))
    }

    fn say(&self, what: &str) {
        self.bar.suspend(|| eprintln!("{what}"));
    }
}
