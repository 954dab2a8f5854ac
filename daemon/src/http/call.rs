//! Asking the coordinator actor, with a deadline.

use std::time::Duration;

use ractor::rpc::CallResult;
use serde::de::DeserializeOwned;
use shoal_actors::coordinator::{CoordinatorMsg, NodeAnswer, Read, Reply, To};
use shoal_plan::ids::JobId;
use shoal_wire::control::Question;

use super::App;
use super::fault::Fault;

/// For what the actor knows by itself.
pub(super) const READ: Duration = Duration::from_secs(10);
/// For a submission: the files of its data are listed and opened; they are read later.
pub(super) const SUBMIT: Duration = Duration::from_secs(60);
/// For an order, which waits for a flush.
pub(super) const ORDER: Duration = Duration::from_secs(30);
/// For a state at a step to come.
pub(super) const STATE: Duration = Duration::from_secs(24 * 3600);

impl App {
    /// Asks, and waits for the answer at most so long.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        wait: Duration,
        message: impl FnOnce(Reply<T>) -> CoordinatorMsg,
    ) -> Result<T, Fault> {
        match self.coordinator.call(message, Some(wait)).await {
            Ok(CallResult::Success(answer)) => Ok(answer?),
            Ok(CallResult::Timeout) => Err(Fault::NoAnswer { seconds: wait.as_secs() }),
            Ok(CallResult::SenderError) | Err(_) => Err(Fault::Gone),
        }
    }

    /// Reads something.
    pub(super) async fn read<T: Send + 'static>(&self, read: impl FnOnce(Reply<T>) -> Read) -> Result<T, Fault> {
        self.ask(READ, |reply| CoordinatorMsg::Read(read(reply))).await
    }

    /// Asks workers. The actor itself gives up on those that are silent.
    pub(super) async fn question(&self, to: To, question: Question) -> Result<Vec<NodeAnswer>, Fault> {
        self.ask(READ * 3, |reply| CoordinatorMsg::Read(Read::Ask(to, question, reply))).await
    }
}

/// `j12` as a job's id.
pub(super) fn job_id(text: &str) -> Result<JobId, Fault> {
    let number = text.strip_prefix('j').and_then(|digits| digits.parse().ok());
    number.map(JobId).ok_or_else(|| Fault::Malformed(format!("`{text}` is no job; jobs are called j1, j2 and so on")))
}

/// A JSON body; an empty one stands for the default.
pub(super) fn body<T: DeserializeOwned + Default>(bytes: &[u8]) -> Result<T, Fault> {
    if bytes.is_empty() { Ok(T::default()) } else { full_body(bytes) }
}

/// A JSON body.
pub(super) fn full_body<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Fault> {
    serde_json::from_slice(bytes).map_err(|error| Fault::Malformed(format!("the body is not what this takes: {error}")))
}
