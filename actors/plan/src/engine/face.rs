//! What goes into the engine and what comes out.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use shoal_exact::Arithmetic;

use crate::blocks::ModelTable;
use crate::ids::{Generation, NodeId};
use crate::job::Job;
use crate::layout::Plan;
use crate::ledger::LedgerEntry;
use crate::protocol::{FromNode, LossSum, Persist, PersistMode, ToNode};

/// What an engine starts from.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The job.
    pub job: Arc<Job>,
    /// Its block table.
    pub table: Arc<ModelTable>,
    /// This start of the coordinator, from 1. The engine goes beyond any that its records or a holder report.
    pub incarnation: u32,
    /// How long it waits for what.
    pub timing: Timing,
}

/// How long the engine waits for what, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// After a node joined an idle job, for others that join at the same time.
    pub gather: u64,
    /// From a commit to the flush of its record, at most.
    pub flush: u64,
    /// After a coordinator restart, or when only absent nodes hold an interval, for nodes to come back.
    pub absence: u64,
    /// For a member's answer to a fence; then the others go on without it until it speaks again. Twice as long for one that
    /// came back so, and so on.
    pub answer: u64,
    /// For the next member to be ready, beside the time for the bytes of the whole state; then it is tried again, and whoever is to blame evicted.
    pub deploy: u64,
    /// Without progress in a step, a validation pass, hashing or writing, or a fill, at least; then it is tried again, and
    /// whoever is to blame evicted. Every attempt in vain doubles this and the next three.
    pub progress: u64,
    /// As `progress`, in multiples of the longest of the newest steps: the greater of the two counts.
    pub progress_steps: u64,
    /// As `progress`, as long as no step was committed since this start of the coordinator, and for whole pieces of state.
    pub first_step: u64,
}

impl Timing {
    /// What a cluster of real machines waits.
    pub const STANDARD: Self = Self {
        gather: 30,
        flush: 500,
        absence: 10_000,
        answer: 10_000,
        deploy: 120_000,
        progress: 30_000,
        progress_steps: 10,
        first_step: 600_000,
    };
}

impl Default for Timing {
    fn default() -> Self {
        Self::STANDARD
    }
}

/// Milliseconds on a clock that only the caller reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub u64);

/// What a node brings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Offer {
    /// Bytes that jobs may take of its arenas, all tiers: its memory less what its devices take for themselves.
    pub budget_bytes: u64,
    /// Compute threads.
    pub threads: u32,
    /// Instruction-set class, for people.
    pub class: String,
    /// What its matrix products compute: the nodes of a job have one arithmetic.
    pub arithmetic: Arithmetic,
}

/// One fact for the engine.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A node can take part.
    Joined {
        /// Which.
        node: NodeId,
        /// What it brings.
        offer: Offer,
    },
    /// A node is gone. If it comes back after all it joins again under its id, and what it holds is judged by its version.
    Lost {
        /// Which.
        node: NodeId,
        /// How that is known.
        cause: LossCause,
    },
    /// The link to a living node broke and came back: messages may be missing.
    LinkReset {
        /// Which.
        node: NodeId,
    },
    /// A node wishes to leave; it stays a holder until released.
    Draining {
        /// Which.
        node: NodeId,
    },
    /// A node says something.
    From {
        /// Which.
        node: NodeId,
        /// What.
        message: FromNode,
    },
    /// The operator says something.
    Operator {
        /// Names the answer.
        request: u64,
        /// What.
        order: Order,
    },
    /// Everything journaled before [`Command::Flush`] with this mark is durable.
    Flushed {
        /// The mark.
        mark: u64,
    },
    /// Time passed, as asked for by [`Command::WakeAt`].
    Tick,
}

/// How a loss is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LossCause {
    /// The death-watch closed and a reconnect was refused.
    Died,
    /// Heartbeats stopped.
    Silent,
    /// It did not come back after a coordinator restart.
    NotReturned,
    /// Two nodes cannot reach each other; this one was evicted.
    Evicted,
    /// It left on request and was released.
    Left,
    /// It lives, but what it was to do made no progress; it was evicted.
    Stalled,
    /// It owed an answer to a fence for too long. If it speaks again it is a member again.
    Mute,
}

impl std::fmt::Display for LossCause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Died => "its process died",
            Self::Silent => "no heartbeat came in time",
            Self::NotReturned => "it did not come back after the coordinator's restart",
            Self::Evicted => "it was sent away",
            Self::Left => "it left on request",
            Self::Stalled => "it lives, but makes no progress",
            Self::Mute => "it did not answer in time",
        })
    }
}

/// What the operator can say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Hold after this step, or after the one in flight.
    Pause {
        /// Committed step to hold at.
        at: Option<u64>,
    },
    /// Go on.
    Resume,
    /// End the job.
    Cancel,
    /// Hash or write the state at the next commit, or at this step.
    Persist {
        /// Committed step to act at.
        at: Option<u64>,
        /// How much.
        mode: PersistMode,
    },
}

/// One thing for the caller to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Tell a node.
    Send {
        /// Which.
        node: NodeId,
        /// What.
        message: ToNode,
    },
    /// Append to the job's journal; order matters, durability comes with the next flush.
    Journal(Record),
    /// Make everything journaled so far durable, then answer [`Event::Flushed`].
    Flush {
        /// The mark.
        mark: u64,
    },
    /// Answer the operator.
    Answer {
        /// The order's number.
        request: u64,
        /// The answer.
        answer: OrderAnswer,
    },
    /// Send [`Event::Tick`] at this time.
    WakeAt(Millis),
    /// End a node's process: its device does nothing more, for the next job either. Whoever ends can be started anew.
    Dismiss {
        /// Which.
        node: NodeId,
    },
}

/// The answer to an order.
#[derive(Clone, Debug, PartialEq)]
pub enum OrderAnswer {
    /// It is journaled and will happen.
    Accepted,
    /// The state was hashed or written at a step; all leaves are here.
    Persisted {
        /// What was asked of the holders.
        persist: Persist,
        /// At this step.
        step: u64,
        /// Digest of the whole state.
        digest: crate::ids::Digest,
    },
    /// It cannot happen, and why.
    Refused(String),
}

/// One line of a job's journal. Folding a job's records gives the engine a restarted coordinator goes on from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Record {
    /// A generation begins; flushed before its fence is sent.
    Fenced {
        /// Its number.
        generation: Generation,
        /// Who takes part.
        members: Vec<NodeId>,
    },
    /// A plan was adopted; flushed before it is deployed.
    Planned {
        /// Under this generation.
        generation: Generation,
        /// The plan.
        plan: Arc<Plan>,
        /// Shadows still to be filled.
        unfilled: Vec<(crate::ids::PieceId, NodeId)>,
    },
    /// A shadow counts from the next step on.
    Restored {
        /// Under this generation.
        generation: Generation,
        /// The piece.
        piece: crate::ids::PieceId,
        /// Where.
        node: NodeId,
    },
    /// A step was committed.
    Committed(LedgerEntry),
    /// A validation pass finished.
    Evaluated {
        /// At this step.
        step: u64,
        /// Its loss.
        loss: LossSum,
    },
    /// Committed steps were given up: the ledger is cut back to `to`.
    RolledBack {
        /// Steps before.
        from: u64,
        /// Steps after.
        to: u64,
    },
    /// An order was accepted.
    Ordered(Order),
    /// The job's state changed.
    State(State),
    /// Something a person may want to know: kind and reason of the event log.
    Happened(crate::engine::Happening),
}

/// Where a job stands. What each state waits for lives in the engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// Waits for its turn or its first members.
    Queued,
    /// First plan being deployed.
    Planning,
    /// Stepping.
    Training,
    /// Between a fence and the next start.
    Recovering,
    /// Held by the operator at this step.
    Paused {
        /// Committed steps.
        step: u64,
    },
    /// No node to run on.
    Parked,
    /// All steps committed and written.
    Done,
    /// Cannot go on.
    Failed {
        /// Why.
        reason: String,
    },
    /// Ended by the operator.
    Cancelled,
}

impl State {
    /// Whether nothing will ever happen again.
    #[must_use]
    pub fn is_over(&self) -> bool {
        match self {
            Self::Done | Self::Failed { .. } | Self::Cancelled => true,
            Self::Queued | Self::Planning | Self::Training | Self::Recovering | Self::Paused { .. } | Self::Parked => {
                false
            }
        }
    }
}
