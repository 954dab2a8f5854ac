//! What the coordinator actor is told and asked.

use std::sync::Arc;

use ractor::RpcReplyPort;
use shoal_config::JobSpec;
use shoal_plan::engine::{Order, OrderAnswer};
use shoal_plan::ids::{Generation, JobId, NodeId};
use shoal_plan::job::Job;
use shoal_plan::layout::Plan;
use shoal_plan::ledger::Version;
use shoal_plan::planner::WhyPlain;
use shoal_wire::api::{EventLine, JobStatus, LedgerLine, NodeInfo};
use shoal_wire::control::{Answer, Chaos, Question};

use super::error::RequestError;
use super::flusher::After;
use super::journal::JournalError;
use super::sources::{Facts, SourceError, Sources};
use crate::transport::Inbound;

/// The answer to a request.
pub type Reply<T> = RpcReplyPort<Result<T, RequestError>>;

/// What the coordinator actor is told.
#[derive(Debug)]
pub enum CoordinatorMsg {
    /// From the transport.
    Inbound(Box<Inbound>),
    /// The journal is durable up to where these were queued, or cannot be made so.
    Flushed(Result<Vec<After>, JournalError>),
    /// Something about who is there.
    Watch(Sight),
    /// A job's engine asked to be woken.
    Wake(JobId),
    /// A job is submitted.
    Submit(Box<JobSpec>, Repeat, Reply<Submitted>),
    /// Something about a job on its way in is known now.
    Intake(IntakeMsg),
    /// The operator says something about a job.
    Order(JobId, Order, Reply<OrderAnswer>),
    /// The operator says something about a node.
    Node(NodeOrder),
    /// Something is read.
    Read(Read),
    /// The whole cluster should stop.
    Shutdown(Reply<()>),
}

/// What the coordinator is told about who is there, other than by a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// Time to look at deadlines.
    Time,
    /// Nobody listens where a worker had its death-watch: it is dead.
    Refused(NodeId),
}

/// What a submission means if the same job was submitted before and is not over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// That job is meant: whoever is not sure that a submission arrived can repeat it.
    Join,
    /// Another one is meant.
    Again,
}

/// What became of a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// A new job.
    New {
        /// Its id.
        job: JobId,
        /// Why its products will be plain, if its first plan is for the nodes that are here now.
        plain: Option<WhyPlain>,
    },
    /// A job that was there.
    Known(JobId),
}

impl Submitted {
    /// The job.
    #[must_use]
    pub fn job(&self) -> JobId {
        match self {
            Self::New { job, .. } | Self::Known(job) => *job,
        }
    }
}

/// What is found out about a job on its way in, off the actor.
#[derive(Debug)]
pub enum IntakeMsg {
    /// Its files were looked at.
    Opened {
        /// What was submitted.
        spec: Box<JobSpec>,
        /// If it was submitted before.
        repeat: Repeat,
        /// The files.
        sources: Result<Box<Sources>, SourceError>,
        /// To whoever submitted it.
        reply: Reply<Submitted>,
    },
    /// Its files were read.
    Read {
        /// Which.
        job: JobId,
        /// What was found.
        facts: Result<Facts, SourceError>,
    },
}

/// What the operator can say about a node, by its name or id.
#[derive(Debug)]
pub enum NodeOrder {
    /// Move its work elsewhere and let it go.
    Drain(String, Reply<()>),
    /// Make a fault there.
    Chaos(String, Chaos, Reply<()>),
}

/// What can be read.
#[derive(Debug)]
pub enum Read {
    /// All workers.
    Nodes(Reply<Vec<NodeInfo>>),
    /// All jobs.
    Jobs(Reply<Vec<JobStatus>>),
    /// One job's status.
    Status(JobId, Reply<JobStatus>),
    /// What a job is.
    Job(JobId, Reply<Arc<Job>>),
    /// A job's plan in force.
    Plan(JobId, Reply<(Generation, Option<Arc<Plan>>)>),
    /// Events with a number above this one.
    Events(JobId, u64, Reply<Vec<EventLine>>),
    /// Ledger lines of steps above this one.
    Ledger(JobId, u64, Reply<Vec<LedgerLine>>),
    /// The version after this committed step, or the newest.
    Version(JobId, Option<u64>, Reply<Version>),
    /// Names of the nodes that the job's last plan gave pieces to and that have no link, under whatever id.
    AbsentHolders(JobId, Reply<Vec<String>>),
    /// A question to workers; those that answer in time.
    Ask(To, Question, Reply<Vec<NodeAnswer>>),
}

/// Whom to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// Everyone with a link.
    All,
    /// One.
    One(NodeId),
}

/// One worker's answer.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeAnswer {
    /// Who.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// What.
    pub answer: Answer,
}
