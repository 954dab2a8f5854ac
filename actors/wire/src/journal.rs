//! What the coordinator keeps: one entry a change, each found again under a key of its own.
//!
//! The store holds the newest entry of every key; a second copy is the plain sequence of entries. Folding the sequence
//! gives the store, so either can be rebuilt from the other.
//!
//! JN-1 (newer by itself): of two different entries under one key the one of the higher [`Entry::revision`] is newer. An
//! entry without a revision is written once under its key, so whatever is learned later has a key of its own.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use shoal_config::JobSpec;
use shoal_plan::engine::Record;
use shoal_plan::ids::{JobId, NodeId};
use shoal_plan::job::DataFacts;
use shoal_plan::weights::WeightFacts;

/// Version of everything in this module, in front of every stored value.
pub const VERSION: u16 = 10;

/// One change of the coordinator's state.
#[allow(clippy::large_enum_variant, reason = "one entry at a time; a box would cost more than the copy")]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Entry {
    /// A counter was raised.
    Counter {
        /// Which.
        counter: Counter,
        /// To what.
        value: u64,
    },
    /// A node id was given out; no later process gets it.
    Node {
        /// The id.
        id: NodeId,
        /// The operator's name for the node.
        name: String,
        /// Where its process listens as long as it lives.
        address: SocketAddr,
    },
    /// A job was submitted.
    Job {
        /// Its id.
        id: JobId,
        /// What was asked for.
        spec: JobSpec,
    },
    /// A job's journal grew by a line.
    Line {
        /// Whose.
        job: JobId,
        /// Counted from 0 within the job.
        number: u64,
        /// The line.
        line: Line,
    },
    /// The process with a node id is lost, or has left; it never has that id again.
    Gone {
        /// The id.
        id: NodeId,
        /// The operator's name for the node.
        name: String,
    },
    /// A job's files were read through.
    Facts {
        /// Whose.
        job: JobId,
        /// What was found in its data.
        data: DataFacts,
        /// What was found in the files of its initial weights; none if they are drawn.
        weights: Option<WeightFacts>,
    },
    /// A job has its turn: nodes work for it until it is over.
    Turn {
        /// Counted from 1 over all jobs.
        number: u64,
        /// Which.
        job: JobId,
    },
}

/// Numbers that are never given out twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Counter {
    /// Coordinator starts so far.
    Incarnation,
    /// Job ids given out so far.
    Jobs,
}

/// One line of a job's journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// What the engine said.
    pub record: Record,
}

impl Entry {
    /// The key that a newer entry of the same thing replaces. What was learned later of a thing sorts behind the thing,
    /// and lines of a job by number behind all jobs.
    #[must_use]
    pub fn key(&self) -> Vec<u8> {
        match self {
            Self::Counter { counter, .. } => vec![b'c', *counter as u8],
            Self::Node { id, .. } => [&b"n"[..], &id.0.to_be_bytes()].concat(),
            Self::Gone { id, .. } => [&b"n"[..], &id.0.to_be_bytes(), &b"g"[..]].concat(),
            Self::Job { id, .. } => [&b"j"[..], &id.0.to_be_bytes()].concat(),
            Self::Facts { job, .. } => [&b"j"[..], &job.0.to_be_bytes(), &b"f"[..]].concat(),
            Self::Line { job, number, .. } => [&b"l"[..], &job.0.to_be_bytes(), &number.to_be_bytes()].concat(),
            Self::Turn { .. } => vec![b't'],
        }
    }

    /// Grows with every entry under the same key; 0 where there is only one.
    #[must_use]
    pub fn revision(&self) -> u64 {
        match self {
            Self::Counter { value, .. } => *value,
            Self::Turn { number, .. } => *number,
            Self::Node { .. } | Self::Gone { .. } | Self::Job { .. } | Self::Facts { .. } | Self::Line { .. } => 0,
        }
    }
}
