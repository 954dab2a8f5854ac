//! Why the coordinator cannot do what it is asked.

use shoal_model::files::FilesError;
use shoal_plan::ids::JobId;
use shoal_plan::planner::NoPlan;

use crate::loader::DataError;

/// Why the coordinator cannot do what it is asked. Messages say what was asked, what was found, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// No such job.
    #[error("there is no job {0}; `shoalctl list` names those that there are")]
    NoJob(JobId),
    /// No such node.
    #[error("there is no living node {0}; `shoalctl nodes` names those that there are")]
    NoNode(String),
    /// The data of a submitted job cannot be used.
    #[error("the job's data cannot be used")]
    Data(#[source] DataError),
    /// The files that a submitted job is to begin with cannot be used.
    #[error("the job's initial weights cannot be used")]
    Weights(#[source] FilesError),
    /// No layout on the present nodes is possible.
    #[error("the job cannot run on this cluster")]
    Layout(#[source] NoPlan),
    /// The job's engine refused an order.
    #[error("{0}")]
    Refused(String),
    /// The job has no such version.
    #[error("{job} has no committed step {step}; `shoalctl status {job}` says where it is")]
    NoStep {
        /// The job.
        job: JobId,
        /// What was asked.
        step: u64,
    },
    /// The job's data is being read.
    #[error(
        "{0} is queued: its data is still being read, so there is nothing to hold, hash or write; ask again later, `shoalctl status {0}` shows how far it is"
    )]
    Unread(JobId),
    /// The coordinator stops.
    #[error("the coordinator is stopping; `shoalctl up` starts it again")]
    Stopping,
}
