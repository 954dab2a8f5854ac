//! What the coordinator needs of a store.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use shoal_config::JobSpec;
use shoal_plan::ids::{JobId, NodeId};
use shoal_plan::job::DataFacts;
use shoal_plan::weights::WeightFacts;
use shoal_wire::journal::{Counter, Entry, Line};

/// A store of [`Entry`]s. Shared: one thread may flush while another appends.
pub trait Journal: Send + Sync + 'static {
    /// Everything kept, in order of key: counters, jobs, each with its facts, lines of each job by number, nodes, each
    /// with its end.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn load(&self) -> Result<Vec<Entry>, JournalError>;

    /// Keeps an entry, in place of the one with the same key. A line takes microseconds; it is durable after the next
    /// [`Journal::flush`].
    ///
    /// # Errors
    /// If the store cannot be written.
    fn append(&self, entry: &Entry) -> Result<(), JournalError>;

    /// Makes everything appended before the call durable. Blocks on the disk.
    ///
    /// # Errors
    /// If that cannot be promised.
    fn flush(&self) -> Result<(), JournalError>;
}

/// Why the coordinator's state could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Reading failed.
    #[error("the coordinator's journal cannot be read")]
    Load(#[source] Box<dyn Error + Send + Sync>),
    /// Writing failed.
    #[error("the coordinator's journal cannot be written")]
    Append(#[source] Box<dyn Error + Send + Sync>),
    /// It could not be made durable.
    #[error("the coordinator's journal cannot be made durable")]
    Flush(#[source] Box<dyn Error + Send + Sync>),
}

/// The state of a coordinator that ran before, or of none.
#[derive(Debug, Default)]
pub struct Restored {
    /// Value of every counter that was raised.
    pub counters: BTreeMap<Counter, u64>,
    /// Every node id that was given out, with the node's name.
    pub nodes: BTreeMap<NodeId, String>,
    /// Where those of them listen whose process may still be there.
    pub addresses: BTreeMap<NodeId, SocketAddr>,
    /// Those of them whose process is known to be gone.
    pub gone: BTreeSet<NodeId>,
    /// Every job, in order of id.
    pub jobs: BTreeMap<JobId, RestoredJob>,
    /// Turns given so far, and the job that had the last one.
    pub turn: (u64, Option<JobId>),
}

/// A job as its journal left it.
#[derive(Debug)]
pub struct RestoredJob {
    /// What was asked for.
    pub spec: JobSpec,
    /// What was found in its data, once that was read.
    pub data: Option<DataFacts>,
    /// What was found in the files of its initial weights, if it has such.
    pub weights: Option<WeightFacts>,
    /// Its lines.
    pub lines: Vec<Line>,
}

impl Restored {
    /// Folds the entries of a store, in order of key. What belongs to a job that is not there is dropped: the job's
    /// submission was never acknowledged.
    #[must_use]
    pub fn from_entries(entries: Vec<Entry>) -> Self {
        let mut restored = Self::default();
        for entry in entries {
            match entry {
                Entry::Counter { counter, value } => {
                    restored.counters.insert(counter, value);
                }
                Entry::Node { id, name, address } => {
                    restored.nodes.insert(id, name);
                    restored.addresses.insert(id, address);
                }
                Entry::Gone { id, name } => {
                    restored.nodes.insert(id, name);
                    restored.gone.insert(id);
                    restored.addresses.remove(&id);
                }
                Entry::Job { id, spec } => {
                    restored.jobs.insert(id, RestoredJob { spec, data: None, weights: None, lines: Vec::new() });
                }
                Entry::Facts { job, data, weights } => {
                    if let Some(job) = restored.jobs.get_mut(&job) {
                        (job.data, job.weights) = (Some(data), weights);
                    }
                }
                Entry::Turn { number, job } => restored.turn = (number, Some(job)),
                Entry::Line { job, number: _, line } => {
                    if let Some(job) = restored.jobs.get_mut(&job) {
                        job.lines.push(line);
                    }
                }
            }
        }
        restored
    }

    /// The count of the coordinator start that begins: one more than any before.
    #[must_use]
    pub fn incarnation(&self) -> u32 {
        self.counters.get(&Counter::Incarnation).map_or(1, |before| *before as u32 + 1)
    }

    /// What must be durable before that start does anything.
    #[must_use]
    pub fn next_incarnation(&self) -> Entry {
        Entry::Counter { counter: Counter::Incarnation, value: u64::from(self.incarnation()) }
    }
}

/// A journal in memory, for clusters that live within one process (tests, simulations). It outlives the coordinator that
/// uses it, not the process.
#[derive(Debug, Default)]
pub struct MemoryJournal {
    entries: Mutex<BTreeMap<Vec<u8>, Entry>>,
}

impl MemoryJournal {
    fn entries(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Journal for MemoryJournal {
    fn load(&self) -> Result<Vec<Entry>, JournalError> {
        Ok(self.entries().values().cloned().collect())
    }

    fn append(&self, entry: &Entry) -> Result<(), JournalError> {
        self.entries().insert(entry.key(), entry.clone());
        Ok(())
    }

    fn flush(&self) -> Result<(), JournalError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
