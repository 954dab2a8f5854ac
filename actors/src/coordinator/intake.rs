//! Jobs on their way in. A submission is acknowledged as soon as it is durable; its data is read once after that, off the
//! actor, and only then does an engine see the job.
//!
//! IN-1 (facts last): a job in the journal without facts about its data is one whose data has not been read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use shoal_config::JobSpec;
use shoal_plan::blocks::ModelTable;
use shoal_plan::engine::{Happening, Offer, Order, OrderAnswer, Record, State};
use shoal_plan::ids::{Digest, JobId, NodeId};
use shoal_plan::job::{DataFacts, Job};
use shoal_plan::planner::{self, WhyPlain};
use shoal_wire::api;
use shoal_wire::journal::{Counter, Entry, Line};

use super::error::RequestError;
use super::flusher::After;
use super::job::{self, JobEntry};
use super::joblog::JobLog;
use super::journal::{JournalError, RestoredJob};
use super::message::{CoordinatorMsg, IntakeMsg, Repeat, Reply, Submitted};
use super::sources::{Facts, Readings, SourceError, Sources};
use super::state::Coordinator;

/// A reading that stands still for so long is worth a look.
const STILL: Duration = Duration::from_secs(10);

/// In place of what nobody has read yet. Real data has at least one sample.
const UNREAD: DataFacts = DataFacts {
    digest: Digest([0; 32]),
    train_tokens: 0,
    validation_digest: Digest([0; 32]),
    validation_tokens: 0,
    tokenizer: None,
};

/// Whether nobody has read the job's data to its end (IN-1).
pub(super) fn is_unread(job: &Job) -> bool {
    job.data == UNREAD
}

/// A job whose data is being read.
#[derive(Debug)]
pub(super) struct Intake {
    pub(super) job: Arc<Job>,
    lines: Vec<Line>,
    readings: Wanted,
}

/// A reading that stops when nobody waits for it any more: neither a cancelled job nor a coordinator's end is held up.
#[derive(Debug, Default)]
struct Wanted(Arc<Readings>);

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// A job as its journal left it.
pub(super) enum Coming {
    /// Its data is to be read.
    Unread(Intake),
    /// Its data was read, or it ended before.
    Known(Arc<Job>, Vec<Line>),
}

/// A job as its journal left it.
pub(super) fn restore(job: RestoredJob) -> Coming {
    let RestoredJob { spec, data, weights, lines } = job;
    let ended = lines.iter().any(|line| matches!(&line.record, Record::State(state) if state.is_over()));
    let unread = data.is_none() && !ended;
    let job = Arc::new(Job { spec, data: data.unwrap_or(UNREAD), weights });
    if unread { Coming::Unread(Intake { job, lines, readings: Wanted::default() }) } else { Coming::Known(job, lines) }
}

impl Intake {
    /// What `status` shows.
    pub(super) fn status(&self, id: JobId) -> api::JobStatus {
        let Readings { data, weights } = &*self.readings.0;
        let (tokens, of_tokens) = data.progress();
        let (now, what, path) = match (weights.progress(), self.job.spec.init.path()) {
            ((_, 1..), Some(path)) => (weights, WEIGHTS, path),
            ((_, 0..), _) => (data, DATA, &*self.job.spec.data.path),
        };
        let idle = now.idle();
        let reason = progress(id, what, path, now.progress(), idle);
        api::JobStatus {
            reason: Some(reason),
            reading: Some(api::DataReading { tokens, of_tokens, idle_seconds: idle.as_secs() }),
            ..job::unstarted(id, &self.job)
        }
    }

    /// What `events` shows.
    pub(super) fn log(&self) -> JobLog {
        let mut log = JobLog::default();
        for line in &self.lines {
            log.push(line);
        }
        log
    }
}

impl Coordinator {
    /// A job is submitted: its files are looked at off the actor.
    pub(super) fn submit(&self, spec: Box<JobSpec>, repeat: Repeat, reply: Reply<Submitted>) {
        let me = self.me.clone();
        tokio::task::spawn_blocking(move || {
            let sources = Sources::open(&spec).map(Box::new);
            // An error means that the coordinator is gone.
            let _ = me.cast(CoordinatorMsg::Intake(IntakeMsg::Opened { spec, repeat, sources, reply }));
        });
    }

    /// Something about a job on its way in is known now.
    pub(super) fn intake(&mut self, news: IntakeMsg) -> Result<(), JournalError> {
        match news {
            IntakeMsg::Opened { spec, repeat, sources, reply } => self.opened(*spec, repeat, sources, reply),
            IntakeMsg::Read { job, facts } => self.read_through(job, facts),
        }
    }

    /// Accepts a job whose files are there and that fits the cluster. It is acknowledged when it is durable.
    fn opened(
        &mut self,
        spec: JobSpec,
        repeat: Repeat,
        sources: Result<Box<Sources>, SourceError>,
        reply: Reply<Submitted>,
    ) -> Result<(), JournalError> {
        let me = self.me.clone();
        if repeat == Repeat::Join
            && let Some(known) = self.unfinished_twin(&spec)
        {
            self.flusher.request(&me, After::Submitted(Submitted::Known(known), reply));
            return Ok(());
        }
        let job = Job { spec, data: UNREAD, weights: None };
        let (sources, plain) = match sources
            .map_err(RequestError::from)
            .and_then(|sources| Ok((sources, fits(&job, &self.members.offers())?)))
        {
            Ok(fitting) => fitting,
            Err(error) => {
                tracing::info!(error = &error as &dyn std::error::Error, "job refused");
                // An error means that whoever asked is gone.
                let _ = reply.send(Err(error));
                return Ok(());
            }
        };
        self.last_job += 1;
        let (id, job) = (JobId(self.last_job), Arc::new(job));
        let line = Line { at_ms: Self::wall_ms(), record: Record::Happened(Happening::Submitted) };
        self.journal.append(&Entry::Counter { counter: Counter::Jobs, value: self.last_job })?;
        self.journal.append(&Entry::Job { id, spec: job.spec.clone() })?;
        self.journal.append(&Entry::Line { job: id, number: 0, line: line.clone() })?;
        self.flusher.request(&me, After::Submitted(Submitted::New { job: id, plain }, reply));
        let readings = Arc::new(Readings::default());
        self.intake.insert(id, Intake { job, lines: vec![line], readings: Wanted(Arc::clone(&readings)) });
        tokio::task::spawn_blocking(move || {
            let facts = sources.read(&readings);
            // An error means that the coordinator is gone.
            let _ = me.cast(CoordinatorMsg::Intake(IntakeMsg::Read { job: id, facts }));
        });
        Ok(())
    }

    /// Begins again to read the data of jobs that a coordinator before this one had accepted.
    pub(super) fn read_again(&mut self) {
        for (id, intake) in &self.intake {
            let (me, job, readings, id) =
                (self.me.clone(), Arc::clone(&intake.job), Arc::clone(&intake.readings.0), *id);
            tracing::info!(job = %id, "its data is read again");
            tokio::task::spawn_blocking(move || {
                let facts = Sources::open(&job.spec).and_then(|sources| sources.read(&readings));
                // An error means that the coordinator is gone.
                let _ = me.cast(CoordinatorMsg::Intake(IntakeMsg::Read { job: id, facts }));
            });
        }
    }

    fn read_through(&mut self, id: JobId, facts: Result<Facts, SourceError>) -> Result<(), JournalError> {
        // It was cancelled meanwhile if it is not there.
        let Some(intake) = self.intake.remove(&id) else { return Ok(()) };
        match facts {
            Ok((data, weights)) => {
                let job = Arc::new(Job { spec: intake.job.spec.clone(), data, weights: weights.clone() });
                tracing::info!(job = %id, tokens = data.train_tokens, "job accepted");
                self.journal.append(&Entry::Facts { job: id, data, weights })?;
                self.jobs.insert(id, JobEntry::restore(job, intake.lines, self.incarnation, self.members.timing()));
                self.changed();
                self.next_job()
            }
            Err(error) => {
                tracing::info!(job = %id, error = &error as &dyn std::error::Error, "job failed before it began");
                let reason = crate::chain(&error);
                self.end(id, intake, State::Failed { reason: reason.clone() }, reason)
            }
        }
    }

    /// The operator says something about a job whose data is being read; none if it is no such job.
    pub(super) fn order_intake(
        &mut self,
        id: JobId,
        order: &Order,
        reply: Reply<OrderAnswer>,
    ) -> Result<Option<Reply<OrderAnswer>>, JournalError> {
        if !self.intake.contains_key(&id) {
            return Ok(Some(reply));
        }
        match order {
            Order::Cancel => {
                if let Some(intake) = self.intake.remove(&id) {
                    self.end(id, intake, State::Cancelled, "cancelled by the operator".to_owned())?;
                }
                let me = self.me.clone();
                self.flusher.request(&me, After::Answered(OrderAnswer::Accepted, reply));
            }
            Order::Pause { .. } | Order::Resume | Order::Persist { .. } => {
                // An error means that whoever asked is gone.
                let _ = reply.send(Err(RequestError::Unread(id)));
            }
        }
        Ok(None)
    }

    fn end(&mut self, id: JobId, intake: Intake, state: State, reason: String) -> Result<(), JournalError> {
        let mut lines = intake.lines;
        for record in [Record::State(state), Record::Happened(Happening::Ended { reason })] {
            let line = Line { at_ms: Self::wall_ms(), record };
            self.journal.append(&Entry::Line { job: id, number: lines.len() as u64, line: line.clone() })?;
            lines.push(line);
        }
        self.jobs.insert(id, JobEntry::restore(intake.job, lines, self.incarnation, self.members.timing()));
        self.changed();
        Ok(())
    }

    /// A job that was submitted in the same words and is not over.
    fn unfinished_twin(&self, spec: &JobSpec) -> Option<JobId> {
        let coming = self.intake.iter().map(|(id, intake)| (*id, &intake.job));
        let there = self.jobs.iter().filter(|(_, entry)| !entry.has_ended()).map(|(id, entry)| (*id, &entry.job));
        coming.chain(there).find(|(_, job)| job.spec == *spec).map(|(id, _)| id)
    }
}

/// What is read, and in which units.
const DATA: (&str, &str) = ("its data is", "tokens");
const WEIGHTS: (&str, &str) = ("its initial weights are", "elements");

/// How far the reading of a job's files is, in words.
fn progress(id: JobId, (what, units): (&str, &str), path: &Path, (read, of): (u64, u64), idle: Duration) -> String {
    let read = format!("{what} being read: {read} of {of} {units}");
    if idle < STILL {
        return read;
    }
    let (path, seconds) = (path.display(), idle.as_secs());
    format!("{read}, and none for {seconds} s: look whether {path} can be read, or `shoalctl cancel {id}`")
}

/// Whether a plan for it exists on the present nodes, and why it would be of plain products, if it would. With no node present
/// nothing can be said, and the job waits.
fn fits(job: &Job, offers: &[(NodeId, Offer)]) -> Result<Option<WhyPlain>, RequestError> {
    if offers.is_empty() {
        return Ok(None);
    }
    let members: BTreeMap<NodeId, Offer> = offers.iter().cloned().collect();
    let table = ModelTable::of_job(&job.spec);
    planner::first_plan(job, &table, &members, &BTreeSet::new()).map(|first| first.plain).map_err(RequestError::Layout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_that_stands_still_is_named_with_the_time() {
        let path = Path::new("/data/text.txt");
        let said = |seconds| progress(JobId(3), DATA, path, (5, 90), Duration::from_secs(seconds));
        assert_eq!(said(2), "its data is being read: 5 of 90 tokens");
        let still = said(61);
        assert!(
            still.starts_with("its data is being read: 5 of 90 tokens, and none for 61 s: look whether "),
            "{still}"
        );
        assert!(still.contains("/data/text.txt") && still.ends_with("`shoalctl cancel j3`"), "{still}");
    }
}
