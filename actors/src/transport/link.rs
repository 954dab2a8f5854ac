//! One live connection: what runs on it, and what its end means.

use std::sync::Arc;

use quinn::{ConnectionError, RecvStream, SendStream};
use shoal_wire::control::{self, Control, Hello};
use shoal_wire::frame;
use tokio::sync::{mpsc, watch};

use super::bulk;
use super::control::{self as stream, Outgoing, Queue, ReadEnd};
use super::patience::within;
use super::peer::{DownCause, Inbound, PeerId};
use super::quic::CloseCode;
use super::restore::restore;
use super::shared::Shared;
use super::table::Outcome;
use super::watch::{Probe, Watch};

/// What the rest of an endpoint uses of a connection.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) peer: PeerId,
    pub(super) connection: quinn::Connection,
    pub(super) queue: Queue,
    pub(super) stop: watch::Sender<Option<Stop>>,
}

impl Link {
    /// Ends it for this reason, unless there is one already.
    pub(super) fn end(&self, reason: Stop) {
        self.stop.send_if_modified(|stop| {
            let first = stop.is_none();
            if first {
                *stop = Some(reason);
            }
            first
        });
    }
}

/// Why this end ends a connection.
#[derive(Clone, Debug)]
pub(super) enum Stop {
    /// The same peer has dialled anew.
    Replaced,
    /// The owner says goodbye, with this reason.
    Goodbye(String),
    /// A control message is lost: the queue was full.
    Overrun,
}

/// What only the task of a connection uses.
pub(super) struct Running {
    pub(super) link: Arc<Link>,
    pub(super) send: SendStream,
    pub(super) receive: RecvStream,
    pub(super) queue: mpsc::Receiver<Outgoing>,
    pub(super) hello: Hello,
    pub(super) watch: Watch,
    pub(super) told: watch::Sender<bool>,
    pub(super) outcome: watch::Sender<Outcome>,
}

/// How a connection ended.
#[derive(Debug)]
enum End {
    Stopped(Stop),
    Read(ReadEnd),
    Died,
    Lost(ConnectionError),
}

/// What the owner is told about an end.
#[derive(Debug)]
enum Verdict {
    /// Nothing: it was its own wish.
    Nothing,
    /// Gone for good, or a newer connection takes over (`LinkReset`).
    Gone(DownCause),
    /// To be restored.
    Reset,
}

/// Serves a connection from `PeerUp` to `PeerDown`.
pub(super) async fn run(shared: Arc<Shared>, running: Running) {
    let Running { link, send, mut receive, queue, hello, mut watch, told, outcome } = running;
    let peer = link.peer;
    let mut stop = link.stop.subscribe();
    shared.tell(Inbound::PeerUp { peer, hello }).await;
    outcome.send_replace(Some(Ok(())));
    drop(outcome);

    let write = stream::write(send, queue, &shared, peer);
    tokio::pin!(write);
    let mut written = false;
    let end = {
        let bulk = bulk::receive_all(Arc::clone(&shared), link.connection.clone(), peer);
        let read = stream::read(&mut receive, &shared, peer);
        let work = async {
            tokio::select! {
                biased;
                stop = stopped(&mut stop) => End::Stopped(stop),
                end = read => match end {
                    // The connection knows better why.
                    ReadEnd::Broken(quinn::ReadExactError::ReadError(quinn::ReadError::ConnectionLost(e))) => End::Lost(e),
                    end @ (ReadEnd::Goodbye(_) | ReadEnd::Unreadable(_) | ReadEnd::Broken(_)) => End::Read(end),
                },
                () = watch.dead() => End::Died,
                end = async { bulk.await; link.connection.closed().await } => End::Lost(end),
            }
        };
        tokio::pin!(work);
        loop {
            tokio::select! {
                biased;
                end = &mut work => break end,
                () = &mut write, if !written => written = true,
            }
        }
    };
    tracing::debug!(node = %peer, ?end, "connection ended");
    let verdict = match end {
        End::Stopped(Stop::Goodbye(reason)) => {
            if !written {
                goodbye(&shared, &link, &reason, write).await;
            }
            CloseCode::Goodbye.close(&link.connection, &reason);
            Verdict::Nothing
        }
        end @ (End::Stopped(Stop::Replaced | Stop::Overrun) | End::Read(_) | End::Died | End::Lost(_)) => {
            diagnose(&link, &watch, end).await
        }
    };
    let restoring = match verdict {
        Verdict::Nothing => None,
        Verdict::Gone(cause) => {
            if let Some(token) = tell_end(&shared, &link, cause).await {
                shared.table().told(peer, token);
            }
            None
        }
        Verdict::Reset => {
            tell_end(&shared, &link, DownCause::LinkReset).await.and_then(|token| shared.table().reopened(peer, token))
        }
    };
    told.send_replace(true);
    if let Some(opening) = restoring {
        restore(&shared, peer, link.connection.remote_address(), opening, watch).await;
    }
}

/// Tells the owner, if this link stood for its peer: then comes the token under which its slot is held.
async fn tell_end(shared: &Shared, link: &Arc<Link>, cause: DownCause) -> Option<u64> {
    let peer = link.peer;
    let token = shared.table().ending(peer, link)?;
    tracing::info!(node = %peer, %cause, "link down");
    shared.tell(Inbound::PeerDown { peer, cause }).await;
    Some(token)
}

async fn stopped(stop: &mut watch::Receiver<Option<Stop>>) -> Stop {
    match stop.wait_for(Option::is_some).await.map(|stop| stop.clone()) {
        Ok(Some(stop)) => stop,
        // The link's owner cannot be gone while the link is served.
        Ok(None) | Err(_) => std::future::pending().await,
    }
}

/// Lets the queue drain, ends it with a goodbye, and waits until the other end has it; not for long.
async fn goodbye(shared: &Shared, link: &Link, reason: &str, write: std::pin::Pin<&mut impl Future<Output = ()>>) {
    let Ok(last) = frame::encode(control::VERSION, frame::MAX_CONTROL_BYTES, &Control::Goodbye(reason.to_owned()))
    else {
        return;
    };
    let queued = async {
        link.queue.finish(Outgoing::Goodbye(last.into())).await;
        std::future::pending().await
    };
    let drained = async {
        tokio::select! {
            () = write => {}
            () = queued => {}
        }
    };
    if within(shared.timing.probe, drained).await.is_none() {
        tracing::debug!(node = %link.peer, "goodbye not acknowledged");
    }
}

/// What an end that this end did not wish means.
async fn diagnose(link: &Link, watch: &Watch, end: End) -> Verdict {
    match end {
        End::Stopped(Stop::Overrun) => {
            CloseCode::Overrun.close(&link.connection, "a control message was lost: it found the queue full");
            Verdict::Reset
        }
        End::Stopped(Stop::Replaced | Stop::Goodbye(_)) => {
            CloseCode::Replaced.close(&link.connection, "");
            Verdict::Gone(DownCause::LinkReset)
        }
        End::Died => {
            CloseCode::Goodbye.close(&link.connection, "");
            Verdict::Gone(DownCause::Died)
        }
        End::Read(ReadEnd::Goodbye(reason)) => {
            CloseCode::Goodbye.close(&link.connection, &reason);
            Verdict::Gone(DownCause::Closed(reason))
        }
        End::Read(ReadEnd::Unreadable(reason)) => unreadable(link, watch, &reason).await,
        End::Read(ReadEnd::Broken(error)) => unreadable(link, watch, &crate::chain(&error)).await,
        End::Lost(ConnectionError::ApplicationClosed(close)) => {
            let reason = String::from_utf8_lossy(&close.reason).into_owned();
            match CloseCode::of(close.error_code) {
                Some(CloseCode::Replaced | CloseCode::Crossing | CloseCode::Overrun) => Verdict::Reset,
                Some(CloseCode::Goodbye) => Verdict::Gone(DownCause::Closed(reason)),
                code @ (Some(
                    CloseCode::Protocol | CloseCode::Refused | CloseCode::WrongPeer | CloseCode::Unreadable,
                )
                | None) => {
                    tracing::warn!(node = %link.peer, ?code, reason, "link was closed by the other end");
                    asked(link, watch).await
                }
            }
        }
        End::Lost(
            ConnectionError::TimedOut
            | ConnectionError::Reset
            | ConnectionError::TransportError(_)
            | ConnectionError::ConnectionClosed(_)
            | ConnectionError::VersionMismatch
            | ConnectionError::LocallyClosed
            | ConnectionError::CidsExhausted,
        ) => asked(link, watch).await,
    }
}

/// A connection that ended without a goodbye means what the process at its end says now, if there is one.
async fn asked(link: &Link, watch: &Watch) -> Verdict {
    let mut stop = link.stop.subscribe();
    let found = tokio::select! {
        biased;
        stop = stopped(&mut stop) => match stop {
            Stop::Replaced => return Verdict::Gone(DownCause::LinkReset),
            Stop::Goodbye(_) => return Verdict::Nothing,
            Stop::Overrun => return Verdict::Reset,
        },
        found = watch.probe() => found,
    };
    match found {
        Probe::Dead => Verdict::Gone(DownCause::Died),
        Probe::Silent => Verdict::Gone(DownCause::Silent),
        Probe::Alive(_) => Verdict::Reset,
    }
}

/// A control stream that ends or makes no sense while the connection lives is a mistake of the other end, or the stream of a
/// process that is dying: no goodbye.
async fn unreadable(link: &Link, watch: &Watch, what: &str) -> Verdict {
    tracing::error!(node = %link.peer, what, "control stream cannot be read");
    let reason = format!("its control stream cannot be read: {what}");
    CloseCode::Unreadable.close(&link.connection, &reason);
    asked(link, watch).await
}
