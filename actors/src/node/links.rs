//! The world outside a worker, over its transport: the coordinator, and peers that are dialled when they are needed.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};

use futures_util::future::BoxFuture;
use shoal_plan::ids::{Generation, JobId, NodeId};
use shoal_plan::protocol::FromNode;
use shoal_wire::api::TrafficLine;
use shoal_wire::control::{Control, FromWorker, Hello, Peer, ToPeer, VERSION, Who};
use shoal_wire::data::Header;

use crate::holder::{LinkError, Outside};
use crate::transport::{BulkError, Callee, ConnectError, Endpoint, Payload, PeerId, Refused, SendError};

/// A worker's links. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Links {
    /// Its transport.
    pub(super) endpoint: Endpoint,
    table: Arc<RwLock<Table>>,
}

#[derive(Debug, Default)]
struct Table {
    me: Option<NodeId>,
    peers: BTreeMap<NodeId, (String, SocketAddr)>,
}

impl Links {
    pub(super) fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, table: Arc::default() }
    }

    /// This worker has a name, perhaps a new one.
    pub(super) fn named(&self, node: NodeId) {
        self.write(|table| table.me = Some(node));
    }

    /// This worker's name.
    pub(super) fn me(&self) -> Option<NodeId> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).me
    }

    /// Everyone else, as the coordinator says.
    pub(super) fn peers(&self, peers: &[Peer]) {
        let known = |peer: &Peer| (peer.node, (peer.name.clone(), peer.address));
        self.write(|table| table.peers = peers.iter().map(known).collect());
    }

    /// The name of another worker, if the coordinator has told of it.
    pub(super) fn name(&self, peer: NodeId) -> Option<String> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).peers.get(&peer).map(|(name, _)| name.clone())
    }

    /// How this worker greets another one.
    pub(super) fn hello(&self) -> Option<Hello> {
        self.me().map(|me| Hello { protocol: VERSION, who: Who::Peer(me) })
    }

    /// Tells the coordinator. What cannot be said now is dropped: either there is no link, or the transport ends it for
    /// that, and every new link begins with a fence.
    pub(super) fn tell(&self, message: FromWorker) {
        match self.endpoint.send(PeerId::Coordinator, &Control::FromWorker(message)) {
            Ok(()) => {}
            Err(error @ SendError::NotConnected(_)) => tracing::debug!(%error, "not told to the coordinator"),
            Err(error @ SendError::QueueFull { .. }) => {
                tracing::warn!(%error, "not told to the coordinator, link ended");
            }
            Err(error @ SendError::Encode { .. }) => {
                tracing::error!(error = &error as &dyn std::error::Error, "message cannot be sent");
            }
        }
    }

    /// Says goodbye to every other worker, and reaches none until the coordinator tells of them anew.
    pub(super) fn part(&self, reason: &str) {
        self.write(|table| table.peers.clear());
        self.endpoint.disconnect_workers(reason);
    }

    fn write(&self, change: impl FnOnce(&mut Table)) {
        change(&mut self.table.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// Makes sure that there is a connection.
    async fn reach(&self, peer: NodeId) -> Result<(), LinkError> {
        let (me, known) = {
            let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
            (table.me, table.peers.get(&peer).cloned())
        };
        let (Some(me), Some((name, address))) = (me, known) else {
            return Err(LinkError::Unreachable(format!("the coordinator has named no address of {peer}")));
        };
        let hello = Hello { protocol: VERSION, who: Who::Peer(me) };
        self.endpoint
            .connect(Callee::worker(peer, name), address, hello)
            .await
            .map_err(|error: ConnectError| LinkError::Unreachable(crate::chain(&error)))
    }
}

impl Outside for Links {
    fn tell_engine(&self, job: JobId, message: FromNode) {
        self.tell(FromWorker::Holder { job, message });
    }

    fn ask(&self, peer: NodeId, message: ToPeer) -> BoxFuture<'static, Result<(), LinkError>> {
        let links = self.clone();
        Box::pin(async move {
            links.reach(peer).await?;
            let sent = links.endpoint.send(PeerId::Worker(peer), &Control::ToPeer(message));
            sent.map_err(|error: SendError| LinkError::Unreachable(crate::chain(&error)))
        })
    }

    fn send(&self, peer: NodeId, header: Header, payload: Payload) -> BoxFuture<'static, Result<(), LinkError>> {
        let links = self.clone();
        Box::pin(async move {
            links.reach(peer).await?;
            links.endpoint.send_bulk(PeerId::Worker(peer), header, payload).await.map_err(|error| match error {
                BulkError::Fenced | BulkError::Refused { reason: Refused::Stale, .. } => LinkError::Over,
                BulkError::NotConnected(_)
                | BulkError::LinkBroken(_)
                | BulkError::Stalled { .. }
                | BulkError::Refused {
                    reason: Refused::Unknown | Refused::NoRoom | Refused::Header | Refused::Length | Refused::Stalled,
                    ..
                }
                | BulkError::Length { .. }
                | BulkError::Encode(_) => LinkError::Unreachable(crate::chain(&error)),
            })
        })
    }

    fn fence(&self, job: JobId, generation: Generation) {
        self.endpoint.fence(job, generation);
    }

    fn traffic(&self, job: JobId) -> Vec<TrafficLine> {
        self.endpoint.traffic_of(job)
    }
}
