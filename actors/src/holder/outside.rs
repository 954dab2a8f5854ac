//! What a holder needs of the world outside its process. The node's transport in a worker, a recording one in tests.

use futures_util::future::BoxFuture;
use shoal_plan::ids::{Generation, JobId, NodeId};
use shoal_plan::protocol::FromNode;
use shoal_wire::api::TrafficLine;
use shoal_wire::control::ToPeer;
use shoal_wire::data::Header;

use crate::transport::Payload;

/// Why something did not reach a peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// Its generation was fenced here meanwhile: nobody waits for it.
    #[error("its generation is over")]
    Over,
    /// The peer cannot be reached, or would not take it.
    #[error("{0}")]
    Unreachable(String),
}

/// The world outside one worker.
pub trait Outside: Send + Sync + 'static {
    /// Tells a job's engine. What cannot be said now is not said later: a new link begins with a fence.
    fn tell_engine(&self, job: JobId, message: FromNode);

    /// Asks another worker; connects first if need be.
    fn ask(&self, peer: NodeId, message: ToPeer) -> BoxFuture<'static, Result<(), LinkError>>;

    /// Sends elements to another worker; connects first if need be. Done when they are all there.
    fn send(&self, peer: NodeId, header: Header, payload: Payload) -> BoxFuture<'static, Result<(), LinkError>>;

    /// Ends every transfer of a job under an older generation.
    fn fence(&self, job: JobId, generation: Generation);

    /// Bytes and messages of a job's transfers so far, by peer and purpose.
    fn traffic(&self, job: JobId) -> Vec<TrafficLine>;
}
