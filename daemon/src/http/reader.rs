//! A written state, read from the workers that have it.

use std::sync::Arc;
use std::time::Duration;

use shoal_actors::coordinator::written::{Catalogue, CatalogueError};
use shoal_actors::coordinator::{Read, To};
use shoal_plan::blocks::ModelTable;
use shoal_plan::ids::{BlockId, Digest, JobId};
use shoal_plan::job::Job;
use shoal_plan::space::{Interval, Kind};
use shoal_wire::control::{Answer, Question};
use tokio::time::{Instant, timeout_at};

use super::App;
use super::fault::{Absent, Fault};

/// Elements of one answer: 4 MiB.
const CHUNK_ELEMENTS: u64 = 1 << 20;

/// How long workers are waited for that may be on their way back.
const RETURN: Duration = Duration::from_secs(3);

/// A written state of a job at one version.
#[derive(Clone, Debug)]
pub(super) struct StateReader {
    app: App,
    id: JobId,
    job: Arc<Job>,
    table: Arc<ModelTable>,
    catalogue: Arc<Catalogue>,
    /// Who may have what is missing.
    absent: Arc<Absent>,
}

impl StateReader {
    /// Finds out who has what of a committed step, or of the newest. If something is missing, workers may still be on
    /// their way back to a coordinator that has just started: they are waited for, for a moment.
    pub(super) async fn open(app: &App, id: JobId, step: Option<u64>) -> Result<Self, Fault> {
        let deadline = Instant::now() + RETURN;
        let mut changes = app.changes.clone();
        loop {
            changes.mark_unchanged();
            let reader = Self::look(app, id, step).await?;
            let whole = reader.table.blocks.iter().all(|block| {
                reader.table.kinds().iter().all(|&kind| {
                    let interval = Interval::new(0, reader.table.space(kind, block.id).len);
                    reader.catalogue.complete(block.id, kind, interval).is_ok()
                })
            });
            if whole || !matches!(timeout_at(deadline, changes.changed()).await, Ok(Ok(()))) {
                return Ok(reader);
            }
        }
    }

    async fn look(app: &App, id: JobId, step: Option<u64>) -> Result<Self, Fault> {
        let version = app.read(|reply| Read::Version(id, step, reply)).await?;
        let job = app.read(|reply| Read::Job(id, reply)).await?;
        let answers = app.question(To::All, Question::Manifest { job: id }).await?;
        let names = app.read(|reply| Read::AbsentHolders(id, reply)).await?;
        let absent = Arc::new(Absent { names, here: answers.len() });
        let table = Arc::new(ModelTable::of_job(&job.spec));
        Ok(Self { app: app.clone(), id, job, table, absent, catalogue: Arc::new(Catalogue::new(version, answers)) })
    }

    pub(super) fn step(&self) -> u64 {
        self.catalogue.version().step
    }

    pub(super) fn job(&self) -> &Job {
        &self.job
    }

    pub(super) fn table(&self) -> &ModelTable {
        &self.table
    }

    /// Digest of the whole state.
    pub(super) fn digest(&self) -> Result<Digest, Fault> {
        let absent = || Arc::clone(&self.absent);
        self.catalogue.digest(&self.table).map_err(|source| Fault::Digest {
            step: self.step(),
            absent: absent(),
            source,
        })
    }

    /// A block by its number, with the whole space of a kind of its state.
    pub(super) fn block(&self, kind: Kind, number: u32) -> Result<(BlockId, Interval), Fault> {
        let kinds = self.table.kinds();
        if !kinds.contains(&kind) {
            let kinds = kinds.iter().map(Kind::to_string).collect::<Vec<_>>().join(", ");
            let optimizer = self.job.spec.train.optimizer.name();
            return Err(Fault::Malformed(format!("a job with {optimizer} has no {kind}; it has {kinds}")));
        }
        match self.table.blocks.get(number as usize) {
            Some(block) => Ok((block.id, Interval::new(0, self.table.space(kind, block.id).len))),
            None => {
                let last = self.table.blocks.len() - 1;
                Err(Fault::Malformed(format!("there is no block {number}; blocks go from 0 to {last}")))
            }
        }
    }

    /// Whether all of it is there.
    pub(super) fn complete(&self, block: BlockId, kind: Kind, interval: Interval) -> Result<(), Fault> {
        self.catalogue.complete(block, kind, interval).map_err(|source| self.missing(source))
    }

    /// The first elements of an interval as little-endian f32: as many as fit one answer. Whoever has them is asked, one
    /// after the other.
    pub(super) async fn read(&self, block: BlockId, kind: Kind, interval: Interval) -> Result<Vec<u8>, Fault> {
        let at = interval.start;
        for (node, end) in self.catalogue.holders(block, kind, at) {
            let part = Interval::new(at, end.min(interval.end).min(at + CHUNK_ELEMENTS));
            let question = Question::Written { job: self.id, step: self.step(), block, kind, interval: part };
            for answer in self.app.question(To::One(node), question).await? {
                match answer.answer {
                    Answer::Written(bytes) if bytes.len() as u64 == part.len() * 4 => return Ok(bytes),
                    Answer::Written(bytes) => {
                        tracing::warn!(job = %self.id, %node, %part, bytes = bytes.len(), "an answer of another length");
                    }
                    Answer::Refused(reason) => tracing::warn!(job = %self.id, %node, %part, reason, "not answered"),
                    Answer::Report(_) | Answer::Manifest(_) => {
                        tracing::warn!(job = %self.id, %node, "another answer than was asked for");
                    }
                }
            }
        }
        Err(self.missing(CatalogueError::Missing { step: self.step(), block, kind, at }))
    }

    fn missing(&self, missing: CatalogueError) -> Fault {
        Fault::Written { missing, absent: Arc::clone(&self.absent) }
    }
}
