//! The end that dials.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use quinn::{Connection, ConnectionError, RecvStream, SendStream};
use shoal_wire::control::{self, Hello};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};

use super::bearer::{Bearer, Callee};
use super::connect::ConnectError;
use super::control::Queue;
use super::hello::{self, GreetError, Greeting};
use super::link::{self, Link, Running};
use super::patience::{patience, within};
use super::peer::PeerId;
use super::pki::SERVER_NAME;
use super::quic::CloseCode;
use super::shared::Shared;
use super::table::{Dialler, Entry, Outcome};
use super::watch::Watch;

/// Why a dial did not get through.
#[derive(Debug)]
pub(super) enum DialError {
    /// The other end dials too, and its connection stays: it is about to arrive.
    Crossing,
    /// It failed.
    Failed(ConnectError),
}

impl From<ConnectError> for DialError {
    fn from(error: ConnectError) -> Self {
        Self::Failed(error)
    }
}

/// A connection on which both ends have said hello.
pub(super) struct Ready {
    connection: Connection,
    send: SendStream,
    receive: RecvStream,
    greeting: Greeting,
    watch: Watch,
}

/// The first dial of a slot: tells those who wait. Given up as soon as another connection takes the slot.
pub(super) async fn open(
    shared: Arc<Shared>,
    callee: Callee,
    address: SocketAddr,
    hello: Hello,
    token: u64,
    mut outcome: watch::Receiver<Outcome>,
) {
    let dialled = tokio::select! {
        biased;
        // An error means that the slot was taken away.
        _ = outcome.wait_for(Option::is_some) => return,
        dialled = dial(&shared, &callee, address, &hello) => dialled,
    };
    let peer = callee.peer;
    match dialled {
        Ok(ready) => install(&shared, peer, token, ready),
        Err(DialError::Failed(error)) => shared.table().failed(peer, token, error),
        Err(DialError::Crossing) => {
            patience(shared.timing.connect).await;
            let error = ConnectError::NoAnswer { address, waited: shared.timing.connect };
            shared.table().failed(peer, token, error);
        }
    }
}

/// Puts a connection into its slot and serves it, unless another has taken the slot.
pub(super) fn install(shared: &Arc<Shared>, peer: PeerId, token: u64, ready: Ready) {
    let Ready { connection, send, receive, greeting, watch } = ready;
    let (queue, frames) = mpsc::channel(shared.limits.control_queue);
    let (told, told_receiver) = watch::channel(false);
    let link = Arc::new(Link { peer, connection, queue: Queue::new(queue), stop: watch::Sender::new(None) });
    let entry = Entry { link: Arc::clone(&link), by: Dialler::Here, since: Instant::now(), told: told_receiver };
    let installed = shared.table().dialled(peer, token, entry);
    match installed {
        Some(outcome) => {
            let running = Running { link, send, receive, queue: frames, hello: greeting.hello, watch, told, outcome };
            tokio::spawn(link::run(Arc::clone(shared), running));
        }
        None => CloseCode::Crossing.close(&link.connection, ""),
    }
}

/// One attempt, within the connect timeout.
pub(super) async fn dial(
    shared: &Arc<Shared>,
    callee: &Callee,
    address: SocketAddr,
    hello: &Hello,
) -> Result<Ready, DialError> {
    let waited = shared.timing.connect;
    within(waited, attempt(shared, callee, address, hello))
        .await
        .unwrap_or(Err(DialError::Failed(ConnectError::NoAnswer { address, waited })))
}

async fn attempt(
    shared: &Arc<Shared>,
    callee: &Callee,
    address: SocketAddr,
    hello: &Hello,
) -> Result<Ready, DialError> {
    let broken = |cause: String| DialError::Failed(ConnectError::Broken { address, cause });
    // The death-watch first: TCP says at once if nobody listens, QUIC only by silence.
    let stream = TcpStream::connect(address).await.map_err(|e| match e.kind() {
        std::io::ErrorKind::ConnectionRefused => ConnectError::NobodyListens { address },
        _ => ConnectError::Broken { address, cause: crate::chain(&e) },
    })?;
    let config = shared.configs.client(shared.tuning.large_packets(address.ip()));
    let connection = shared
        .quic
        .connect_with(config, address, SERVER_NAME)
        .map_err(|e| broken(crate::chain(&e)))?
        .await
        .map_err(|e| failed(address, shared.timing.connect, e))?;
    let mut abandoned = Abandoned(Some(connection.clone()));
    let lost = |e: ConnectionError| failed(address, shared.timing.connect, e);
    let (mut send, mut receive) = connection.open_bi().await.map_err(lost)?;
    let greeting = hello::encode(&shared.own, hello).map_err(|e| broken(crate::chain(&e)))?;
    // An error means that the stream is closed, which the write finds out too.
    let _ = send.set_priority(super::control::PRIORITY);
    if send.write_all(&greeting).await.is_err() {
        return Err(lost(connection.closed().await));
    }
    let greeting = match hello::read(&mut receive).await {
        Ok(greeting) => greeting,
        Err(GreetError::Protocol { theirs }) => {
            CloseCode::Protocol.close(&connection, &control::VERSION.to_string());
            return Err(ConnectError::Protocol { address, ours: control::VERSION, theirs }.into());
        }
        Err(GreetError::Stream(quinn::ReadExactError::ReadError(_))) => return Err(lost(connection.closed().await)),
        Err(e @ (GreetError::Magic | GreetError::Decode(_) | GreetError::Stream(_))) => {
            CloseCode::Unreadable.close(&connection, &crate::chain(&e));
            return Err(broken(crate::chain(&e)));
        }
    };
    let peer = callee.peer;
    if hello::name_of(&greeting.hello.who) != Some(peer) {
        let found =
            hello::name_of(&greeting.hello.who).map_or_else(|| "someone without a name".to_owned(), |p| p.to_string());
        CloseCode::WrongPeer.close(&connection, &format!("asked for {peer}, found {found}"));
        return Err(ConnectError::WrongPeer { address, asked: peer, found }.into());
    }
    let bearer = Bearer::of(&connection);
    if bearer.as_ref() != Some(&callee.bearer) {
        let bearer = bearer.map_or_else(|| "nobody".to_owned(), |bearer| bearer.to_string());
        let says = callee.bearer.to_string();
        CloseCode::WrongPeer.close(&connection, &format!("asked for {says}, your certificate is that of {bearer}"));
        return Err(ConnectError::Impostor { address, says, bearer }.into());
    }
    let watch = |stream| Watch::dial(shared.own, greeting.instance, address, stream, shared.timing.probe);
    let watched = match watch(stream).await {
        // A process that was about to end may have taken the first one, before another with its address took the rest.
        Err(_) => match TcpStream::connect(address).await {
            Ok(again) => watch(again).await.map_err(drop),
            Err(_) => Err(()),
        },
        Ok(watch) => Ok(watch),
    };
    match watched {
        Ok(watch) => {
            abandoned.0 = None;
            Ok(Ready { connection, send, receive, greeting, watch })
        }
        Err(()) => {
            let cause = format!("its death-watch, TCP {address}, does not answer as the same process");
            CloseCode::Unreadable.close(&connection, &cause);
            Err(broken(cause))
        }
    }
}

/// Closes a dial that is given up half-way, so that the far end does not take it for a caller. Closed already is closed.
struct Abandoned(Option<Connection>);

impl Drop for Abandoned {
    fn drop(&mut self) {
        if let Some(connection) = &self.0 {
            CloseCode::Crossing.close(connection, "");
        }
    }
}

/// What a lost connection means before both ends have said hello.
pub(super) fn failed(address: SocketAddr, waited: std::time::Duration, error: ConnectionError) -> DialError {
    /// QUIC's code for TLS alert 0; the others follow.
    const CRYPTO: std::ops::Range<u64> = 0x100..0x200;
    DialError::Failed(match error {
        ConnectionError::TimedOut => ConnectError::NoAnswer { address, waited },
        ConnectionError::TransportError(e) if CRYPTO.contains(&u64::from(e.code)) => {
            ConnectError::Certificate { address, found: e.reason }
        }
        ConnectionError::ConnectionClosed(e) if CRYPTO.contains(&u64::from(e.error_code)) => {
            ConnectError::Certificate {
                address,
                found: format!("the other end {}", String::from_utf8_lossy(&e.reason)),
            }
        }
        ConnectionError::ApplicationClosed(close) => {
            let reason = String::from_utf8_lossy(&close.reason).into_owned();
            match CloseCode::of(close.error_code) {
                Some(CloseCode::Crossing | CloseCode::Replaced) => return DialError::Crossing,
                Some(CloseCode::Protocol) => match reason.parse() {
                    Ok(theirs) => ConnectError::Protocol { address, ours: control::VERSION, theirs },
                    Err(_) => ConnectError::Broken { address, cause: reason },
                },
                Some(CloseCode::Refused | CloseCode::Goodbye) => ConnectError::Refused { address, reason },
                Some(CloseCode::WrongPeer | CloseCode::Unreadable | CloseCode::Overrun) | None => {
                    ConnectError::Broken { address, cause: reason }
                }
            }
        }
        other @ (ConnectionError::TransportError(_)
        | ConnectionError::ConnectionClosed(_)
        | ConnectionError::VersionMismatch
        | ConnectionError::Reset
        | ConnectionError::LocallyClosed
        | ConnectionError::CidsExhausted) => ConnectError::Broken { address, cause: other.to_string() },
    })
}
