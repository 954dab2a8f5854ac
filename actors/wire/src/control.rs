//! What is said on the control stream of a connection: framed postcard, in order.

use std::net::SocketAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use shoal_exact::Arithmetic;
use shoal_plan::ids::{BlockId, Digest, Generation, JobId, NodeId};
use shoal_plan::job::Job;
use shoal_plan::ledger::Version;
use shoal_plan::protocol::{FromNode, ToNode};
use shoal_plan::space::{Interval, Kind};

use crate::api::NodeReport;

/// Version of everything in this module; both ends must have the same.
pub const VERSION: u16 = 9;

/// First message on a connection, both ways; a mismatch closes it with a reason that names both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// [`VERSION`] of the speaker.
    pub protocol: u16,
    /// Who speaks.
    pub who: Who,
}

/// Who speaks on a connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Who {
    /// The coordinator, with its start count.
    Coordinator {
        /// Grows at each start.
        incarnation: u32,
    },
    /// A worker that has no id yet, or comes back with the one it had.
    Worker(Introduction),
    /// A worker, to another worker.
    Peer(NodeId),
}

/// What a worker offers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Introduction {
    /// The id it had under an earlier connection of the same process.
    pub node: Option<NodeId>,
    /// Operator's name for the node, unique in the cluster.
    pub name: String,
    /// Where peers reach its transport (UDP; TCP of the same number is the death-watch).
    pub address: SocketAddr,
    /// Process that holds tensors.
    pub pid: u32,
    /// Bytes its arenas may hold, all tiers.
    pub budget_bytes: u64,
    /// Compute threads.
    pub threads: u32,
    /// Instruction-set class of its kernels.
    pub class: String,
    /// What its matrix products compute.
    pub arithmetic: Arithmetic,
    /// Jobs with pieces written in its data directory.
    pub written: Vec<JobId>,
}

/// Coordinator to worker.
#[allow(clippy::large_enum_variant, reason = "one message at a time; a box would cost more than the copy")]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToWorker {
    /// Answer to an introduction.
    Welcome {
        /// The id of this process from now on.
        node: NodeId,
    },
    /// Everyone else, whenever it changes.
    Peers(Vec<Peer>),
    /// A job that this worker takes part in; before any `Holder` of it.
    Job {
        /// Its id.
        id: JobId,
        /// What it is.
        job: Arc<Job>,
    },
    /// From the job's engine.
    Holder {
        /// Of this job.
        job: JobId,
        /// What it says.
        message: ToNode,
    },
    /// Something is wanted that changes nothing.
    Ask {
        /// Names the answer.
        request: u64,
        /// What is wanted.
        question: Question,
    },
    /// A fault to be made on purpose (`shoalctl chaos`).
    Chaos(Chaos),
    /// The daemon should stop.
    Shutdown,
    /// Answer to a heartbeat.
    HeartbeatAck {
        /// The heartbeat's number.
        number: u64,
    },
}

/// Another worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// Its id.
    pub node: NodeId,
    /// Its name, which its certificate carries.
    pub name: String,
    /// Where its transport listens.
    pub address: SocketAddr,
}

/// Something is wanted that changes nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Question {
    /// Counters and high-water marks.
    Report {
        /// Of this job.
        job: JobId,
    },
    /// The manifest of the pieces written at a version.
    Manifest {
        /// Of this job.
        job: JobId,
    },
    /// Some of the bytes of a written piece, as little-endian f32; at most 4 MiB an answer.
    Written {
        /// Of this job.
        job: JobId,
        /// At this step.
        step: u64,
        /// Whose space.
        block: BlockId,
        /// Which kind.
        kind: Kind,
        /// Elements.
        interval: Interval,
    },
}

/// Worker to coordinator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromWorker {
    /// To the job's engine.
    Holder {
        /// Of this job.
        job: JobId,
        /// What it says.
        message: FromNode,
    },
    /// Answer to a question.
    Answer {
        /// The question's number.
        request: u64,
        /// The answer.
        answer: Answer,
    },
    /// Still here, with what the arenas hold.
    Heartbeat {
        /// Counted up.
        number: u64,
        /// Bytes held by arenas, all tiers.
        used_bytes: u64,
    },
    /// The operator's or the machine's wish to leave (SIGTERM, drain notice).
    Leaving,
}

/// Answer to a question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// Counters and high-water marks.
    Report(Box<NodeReport>),
    /// What is written for a job, newest last.
    Manifest(Vec<WrittenPiece>),
    /// Little-endian f32 elements.
    Written(#[serde(with = "crate::bytes")] Vec<u8>),
    /// It cannot be answered, and why.
    Refused(String),
}

/// One kind of one piece in a node's data directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenPiece {
    /// At this version.
    pub version: Version,
    /// Whose space.
    pub block: BlockId,
    /// Which kind.
    pub kind: Kind,
    /// Elements.
    pub interval: Interval,
    /// Leaf hashes, see `shoal_plan::digest`.
    pub leaves: Vec<Digest>,
}

/// Worker to worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToPeer {
    /// Send me every kind of state.
    FetchState {
        /// Of this job.
        job: JobId,
        /// Under this generation.
        generation: Generation,
        /// At this version.
        version: Version,
        /// Whose space.
        block: BlockId,
        /// Elements.
        interval: Interval,
    },
    /// Send me weights for a seat.
    FetchWeights {
        /// Of this job.
        job: JobId,
        /// Under this generation.
        generation: Generation,
        /// At this version.
        version: Version,
        /// Whose space.
        block: BlockId,
        /// Elements.
        interval: Interval,
    },
}

/// A fault to be made on purpose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Chaos {
    /// The stage actor of the job's first seat on this node panics at its next instruction.
    PanicStage {
        /// Of this job.
        job: JobId,
    },
    /// The compute device of this node hangs at the next instruction of the job's first seat here, for good.
    HangStage {
        /// Of this job.
        job: JobId,
    },
    /// The next gradient that the job's first seat on this node makes is infinite.
    PoisonStage {
        /// Of this job.
        job: JobId,
    },
}

impl Chaos {
    /// Which job it is about.
    #[must_use]
    pub fn job(&self) -> JobId {
        match self {
            Self::PanicStage { job } | Self::HangStage { job } | Self::PoisonStage { job } => *job,
        }
    }
}

/// One message of a control stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Control {
    /// First, both ways.
    Hello(Hello),
    /// Coordinator to worker.
    ToWorker(Box<ToWorker>),
    /// Worker to coordinator.
    FromWorker(FromWorker),
    /// Worker to worker.
    ToPeer(ToPeer),
    /// The connection will close, and why.
    Goodbye(String),
}
