//! The handle that the rest of a process uses.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use shoal_plan::ids::{Generation, JobId};
use shoal_wire::api::TrafficLine;
use shoal_wire::control::{self, Control, Hello};
use shoal_wire::data::Header;
use shoal_wire::frame;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use super::bearer::Callee;
use super::config::EndpointConfig;
use super::connect::ConnectError;
use super::control::{Outgoing, Unqueued};
use super::counters::Counters;
use super::fences::Fences;
use super::instance::Instance;
use super::link::Stop;
use super::patience::within;
use super::payload::{BulkSink, Payload};
use super::peer::{Inbound, PeerId};
use super::quic::{self, Configs};
use super::send::{BulkError, SendError};
use super::shared::{Books, Shared};
use super::table::Begin;
use super::{accept, bulk, dial, watch};

/// For goodbyes to go out at the end.
const FAREWELL: Duration = Duration::from_millis(500);

/// Tasks between two looks at the sockets: a transfer that is begun may cost an allocation.
const SOCKETS_EVERY: u32 = 8;
/// Of the transport's thread; on Linux this value is a thread's own.
const NICE: i32 = -10;

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

/// How a connection does, as QUIC sees it.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// Estimated round trip.
    pub round_trip: Duration,
    /// Largest packet.
    pub packet_bytes: u16,
    /// Bytes that may be under way.
    pub window_bytes: u64,
    /// Packets sent so far.
    pub sent_packets: u64,
    /// Packets taken for lost.
    pub lost_packets: u64,
    /// Times the window was cut for it.
    pub congestion_events: u64,
}

/// One process's transport. Cloning shares it; when the last clone is dropped every connection is closed.
#[derive(Clone)]
pub struct Endpoint {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    runtime: Handle,
    /// Dropped with the last handle, which ends the transport's thread.
    _alive: oneshot::Sender<()>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({})", self.local_address())
    }
}

impl Endpoint {
    /// Listens, and starts the transport's own thread. Everything that happens comes out of the receiver; `sink` says
    /// where bulk elements go.
    ///
    /// # Errors
    /// If the port is taken or the certificate cannot be used.
    pub fn bind(config: EndpointConfig, sink: Arc<dyn BulkSink>) -> Result<(Self, mpsc::Receiver<Inbound>), BindError> {
        let own = Instance::draw().map_err(BindError::Tls)?;
        let (udp, tcp, buffer) = quic::sockets(config.listen)?;
        let configs = Configs::new(&config.identity, &config.timing, buffer)?;
        let local = udp.local_addr().map_err(BindError::Thread)?;
        let runtime = Builder::new_current_thread()
            .enable_all()
            .event_interval(SOCKETS_EVERY)
            .build()
            .map_err(BindError::Thread)?;
        let (inbound, receiver) = mpsc::channel(config.limits.inbound_queue);
        let quic = {
            let _context = runtime.enter();
            let large = config.tuning.large_packets(local.ip());
            let server = Arc::unwrap_or_clone(configs.server(large));
            quinn::Endpoint::new(quic::endpoint_config(), Some(server), udp, Arc::new(quinn::TokioRuntime))
                .map_err(BindError::Thread)?
        };
        let shared = Arc::new(Shared {
            local,
            own,
            limits: config.limits,
            timing: config.timing,
            tuning: config.tuning,
            quic,
            configs,
            sink,
            inbound,
            desk: Arc::default(),
            fences: Fences::default(),
            counters: Counters::default(),
            books: Books::default(),
        });
        let handle = runtime.handle().clone();
        let (alive, ended) = oneshot::channel();
        let serving = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("shoal-transport".to_owned())
            .spawn(move || serve(&runtime, serving, tcp, ended))
            .map_err(BindError::Thread)?;
        Ok((Self { inner: Arc::new(Inner { shared, runtime: handle, _alive: alive }) }, receiver))
    }

    /// The address it listens on, with the port that was taken.
    #[must_use]
    pub fn local_address(&self) -> SocketAddr {
        self.shared().local
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }

    /// Makes sure that there is a connection to the callee, which listens on `address` and must show its own certificate;
    /// at once if there is one. `PeerUp` comes before this returns. If the connection breaks while the process at its end
    /// lives, the dialler dials again with the same hello (see [`Self::set_hello`]).
    ///
    /// # Errors
    /// If there is no connection within the connect timeout, and why.
    pub async fn connect(&self, callee: Callee, address: SocketAddr, hello: Hello) -> Result<(), ConnectError> {
        let peer = callee.peer;
        self.shared().dialled().insert(peer, (callee.clone(), hello.clone()));
        let mut outcome = loop {
            let begin = self.shared().table().begin(peer);
            match begin {
                Begin::Up => return Ok(()),
                Begin::Closed => return Err(ConnectError::ShutDown),
                Begin::Wait(outcome) => break outcome,
                Begin::Dial(token, outcome) => {
                    let shared = Arc::clone(self.shared());
                    self.inner.runtime.spawn(dial::open(shared, callee, address, hello, token, outcome.clone()));
                    break outcome;
                }
                Begin::After(mut told) => {
                    // An error means that the slot is free.
                    let _ = told.wait_for(|told| *told).await;
                }
            }
        };
        match outcome.wait_for(Option::is_some).await.map(|outcome| outcome.clone()) {
            Ok(Some(outcome)) => outcome,
            Ok(None) | Err(_) => Err(ConnectError::ShutDown),
        }
    }

    /// What to say when a broken connection to a peer that this end has dialled is dialled again.
    pub fn set_hello(&self, peer: PeerId, hello: Hello) {
        if let Some((_, known)) = self.shared().dialled().get_mut(&peer) {
            *known = hello;
        }
    }

    /// Queues a control message. Never waits; messages to one peer arrive in order, or `PeerDown` says that some may not.
    ///
    /// # Errors
    /// If there is no connection, its queue is full (which ends the link, so that both ends hear that a message is
    /// missing), or the message is too large.
    pub fn send(&self, peer: PeerId, message: &Control) -> Result<(), SendError> {
        let link = self.shared().table().link(peer).ok_or(SendError::NotConnected(peer))?;
        let bytes = frame::encode(control::VERSION, frame::MAX_CONTROL_BYTES, message)
            .map_err(|source| SendError::Encode { peer, source })?;
        link.queue.push(Outgoing::Frame(bytes.into())).map_err(|error| match error {
            Unqueued::Full { messages } => {
                link.end(Stop::Overrun);
                SendError::QueueFull { peer, messages }
            }
            Unqueued::Closed => SendError::NotConnected(peer),
        })
    }

    /// Sends elements straight from a buffer. Returns when the peer's transport has them all and the buffer is not
    /// referred to any more; what the peer then does with them, its own messages tell. Dropping the future gives the
    /// transfer up.
    ///
    /// # Errors
    /// If the peer is gone, does not want it, or [`Self::fence`] ended its generation.
    pub async fn send_bulk(&self, peer: PeerId, header: Header, payload: Payload) -> Result<(), BulkError> {
        let link = self.shared().table().link(peer).ok_or(BulkError::NotConnected(peer))?;
        let shared = Arc::clone(self.shared());
        let task = self.inner.runtime.spawn(async move { bulk::send(&shared, &link, header, payload).await });
        let _abort = AbortOnDrop(task.abort_handle());
        task.await.unwrap_or(Err(BulkError::LinkBroken(peer)))
    }

    /// Ends every transfer of the job under an older generation, both ways, and refuses those that come later.
    pub fn fence(&self, job: JobId, generation: Generation) {
        self.shared().fences.raise(job, generation);
    }

    /// Ends every transfer of the job and forgets its fence.
    pub fn forget(&self, job: JobId) {
        self.shared().fences.forget(job);
    }

    /// Says goodbye and closes. The peer gets what was sent before, then `PeerDown` with [`super::DownCause::Closed`];
    /// this end hears nothing more of it.
    pub fn disconnect(&self, peer: PeerId, reason: &str) {
        self.shared().dialled().remove(&peer);
        let dropped = self.shared().table().drop_peer(peer);
        if let Some(entry) = dropped {
            entry.link.stop.send_replace(Some(Stop::Goodbye(reason.to_owned())));
        }
    }

    /// [`Self::disconnect`]s every worker; connections that are being opened, or opened again, are given up, too.
    pub fn disconnect_workers(&self, reason: &str) {
        let known = self.shared().table().known();
        for peer in known {
            match peer {
                PeerId::Worker(_) => self.disconnect(peer, reason),
                PeerId::Coordinator => {}
            }
        }
    }

    /// The peers that are connected now, ascending.
    #[must_use]
    pub fn peers(&self) -> Vec<PeerId> {
        self.shared().table().peers()
    }

    /// Bytes and messages so far, by peer and purpose.
    #[must_use]
    pub fn traffic(&self) -> Vec<TrafficLine> {
        self.shared().counters.snapshot(None)
    }

    /// Bytes and messages of one job's bulk transfers so far, by peer and purpose.
    #[must_use]
    pub fn traffic_of(&self, job: JobId) -> Vec<TrafficLine> {
        self.shared().counters.snapshot(Some(job))
    }

    /// How the connection to a peer does, if there is one.
    #[must_use]
    pub fn path(&self, peer: PeerId) -> Option<Path> {
        let link = self.shared().table().link(peer)?;
        let path = link.connection.stats().path;
        Some(Path {
            round_trip: path.rtt,
            packet_bytes: path.current_mtu,
            window_bytes: path.cwnd,
            sent_packets: path.sent_packets,
            lost_packets: path.lost_packets,
            congestion_events: path.congestion_events,
        })
    }

    /// Says goodbye to everyone and lets nobody in any more; returns when the goodbyes are out or half a second has passed.
    pub async fn shutdown(&self, reason: &str) {
        let links = self.shared().table().close();
        for entry in &links {
            entry.link.stop.send_replace(Some(Stop::Goodbye(reason.to_owned())));
        }
        let shared = Arc::clone(self.shared());
        let farewell = self.inner.runtime.spawn(within(FAREWELL, async move {
            for mut entry in links {
                // An error means that its task is over.
                let _ = entry.told.wait_for(|told| *told).await;
            }
            shared.quic.wait_idle().await;
        }));
        // An error means that the transport's thread is gone, and every connection with it.
        let _ = farewell.await;
    }
}

struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Asks the kernel to run this thread before those that compute, so that their work never looks like this process's
/// silence. Not everyone may; then the thread's long sleeps have to be enough.
fn go_first() {
    let thread = rustix::thread::gettid();
    if let Err(error) = rustix::process::setpriority_process(Some(thread), NICE) {
        tracing::debug!(%error, "transport thread keeps its usual priority");
    }
}

/// The transport's thread, until the last handle is dropped.
fn serve(runtime: &Runtime, shared: Arc<Shared>, tcp: TcpListener, ended: oneshot::Receiver<()>) {
    go_first();
    runtime.block_on(async {
        let listener = match tokio::net::TcpListener::from_std(tcp) {
            Ok(listener) => listener,
            Err(error) => {
                tracing::error!(%error, "death-watch cannot listen");
                return;
            }
        };
        tokio::spawn(watch::serve(listener, shared.own, Arc::clone(&shared.desk)));
        tokio::spawn(accept::serve(Arc::clone(&shared)));
        // The sender is never used: an error is its drop.
        let _ = ended.await;
        let links = shared.table().close();
        for entry in &links {
            entry.link.stop.send_replace(Some(Stop::Goodbye("its endpoint was dropped".to_owned())));
        }
        for mut entry in links {
            within(FAREWELL, entry.told.wait_for(|told| *told)).await.map(drop).unwrap_or_default();
        }
        shared.quic.close(quinn::VarInt::from_u32(0), b"its endpoint was dropped");
        within(FAREWELL, shared.quic.wait_idle()).await.unwrap_or_default();
    });
}
