//! What a holder actor is told, and at its start.

use std::sync::Arc;

use ractor::RpcReplyPort;
use shoal_kernels::{Buffer, JobPanic};
use shoal_plan::holder::{HolderEvent, SlotId};
use shoal_plan::ids::{Generation, JobId, NodeId, PieceId, Seat};
use shoal_plan::job::Job;
use shoal_plan::ledger::Version;
use shoal_plan::protocol::{LossSum, ToNode};
use shoal_wire::api::NodeReport;
use shoal_wire::control::ToPeer;
use shoal_wire::data::Header;

use super::gather::{GatherError, Gathered};
use super::moves::FetchId;
use super::outside::Outside;
use super::update::{UpdateError, Updating};
use crate::device::Devices;
use crate::stage::{SeatNews, StageFault};
use crate::written::Shelf;

/// What a holder actor is told.
#[derive(Debug)]
pub enum HolderMsg {
    /// By the job's engine.
    Engine(ToNode),
    /// A bulk transfer is here.
    Arrived(Header, Buffer),
    /// Another worker asks.
    Asked(NodeId, ToPeer),
    /// Something that the books must know.
    Fact(HolderEvent),
    /// Work of this actor's own is done.
    Work(Work),
    /// By a seat of this node, under a generation.
    Seat(Generation, Seat, SeatNews),
    /// About the link to another worker.
    Link(LinkNews),
    /// Counters and high-water marks are wanted; none if this job is in no arena here.
    Report(RpcReplyPort<Option<Box<NodeReport>>>),
    /// The first seat's next instruction is to fail so.
    FailStage(StageFault),
}

/// Work of the holder's own that is done.
#[derive(Debug)]
pub struct Work(pub(super) WorkDone);

/// What was done.
#[derive(Debug)]
pub(super) enum WorkDone {
    /// One local part of a new slot.
    Built(SlotId, Result<(), CopyError>),
    /// One part of something fetched was copied to where it goes.
    Copied(FetchId, u64, Result<(), CopyError>),
    /// A part of a fill was copied into its slot.
    Filled {
        /// Under which it was sent.
        generation: Generation,
        /// The slot.
        slot: SlotId,
        /// At this version.
        version: Version,
        /// Elements of the part.
        elements: u64,
        /// Whether it was.
        result: Result<(), CopyError>,
    },
    /// What was to be hashed or written was not.
    Unwritten {
        /// Of the order.
        generation: Generation,
        /// What was found.
        cause: String,
    },
    /// Weights were copied to the seats.
    Handed(Box<HolderEvent>, Result<(), JobPanic>),
    /// A whole gradient was made.
    Gathered {
        /// Of the partials.
        generation: Generation,
        /// The step it would commit.
        step: u64,
        /// The piece.
        piece: PieceId,
        /// Loss of the step, with the head block's first piece.
        loss: Option<LossSum>,
        /// The gradient, or why there is none.
        whole: Result<Result<Gathered, GatherError>, JobPanic>,
    },
    /// An update ended.
    Updated(Arc<Updating>, Result<Result<(), UpdateError>, JobPanic>),
}

/// Why elements are not where they were to be copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CopyError {
    /// There was no room: the plan does not fit.
    Room(String),
    /// The files of the initial weights are missing here, or differ from what was submitted.
    Files(String),
    /// The copying failed, or its source was gone: worth another try.
    Lost(String),
}

/// About the link to another worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkNews {
    /// The connection broke, however that came about.
    Down {
        /// The other end.
        peer: NodeId,
        /// What was seen.
        cause: String,
    },
    /// Something of a generation did not get there.
    Failed {
        /// The other end.
        peer: NodeId,
        /// Of what was to be sent.
        generation: Generation,
        /// What was seen.
        cause: String,
    },
    /// It was [`LinkNews::Failed`] a while ago; if no fence came since, the engine has to know.
    Overdue {
        /// The other end.
        peer: NodeId,
        /// Of what was to be sent.
        generation: Generation,
        /// What was seen.
        cause: String,
    },
}

/// What a holder actor is told at its start.
#[derive(Clone)]
pub struct HolderArgs {
    /// This worker.
    pub node: NodeId,
    /// The job's name.
    pub id: JobId,
    /// The job.
    pub job: Arc<Job>,
    /// Where it computes and keeps.
    pub devices: Devices,
    /// Whom it talks to.
    pub outside: Arc<dyn Outside>,
    /// Where it writes.
    pub shelf: Shelf,
}
