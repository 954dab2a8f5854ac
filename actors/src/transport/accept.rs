//! The end that is dialled.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use quinn::{Connection, Incoming, RecvStream, SendStream};
use shoal_wire::control;
use tokio::sync::{mpsc, oneshot, watch};

use super::bearer::{Bearer, says};
use super::caller::{Caller, Verdict};
use super::connect::ConnectError;
use super::control::{Outgoing, PRIORITY, Queue};
use super::dial::{DialError, failed};
use super::hello::{self, GreetError, Greeting};
use super::link::{self, Link, Running, Stop};
use super::patience::within;
use super::peer::{Inbound, PeerId};
use super::quic::CloseCode;
use super::shared::Shared;
use super::table::{Arrival, Dialler, Entry};
use super::watch::Watch;

/// Takes callers until the endpoint closes.
pub(super) async fn serve(shared: Arc<Shared>) {
    while let Some(incoming) = shared.quic.accept().await {
        tokio::spawn(take(Arc::clone(&shared), incoming));
    }
}

async fn take(shared: Arc<Shared>, incoming: Incoming) {
    let address = incoming.remote_address();
    let waited = shared.timing.connect;
    let greeted = within(waited, greet(&shared, incoming)).await;
    match greeted.unwrap_or(Err(Unmet::Rejected(ConnectError::NoAnswer { address, waited }))) {
        Ok(greeted) => decide(&shared, greeted).await,
        Err(Unmet::Rejected(cause)) => {
            tracing::warn!(%address, %cause, "caller rejected");
            shared.tell(Inbound::Rejected { address, cause }).await;
        }
        Err(Unmet::GaveUp(cause)) => tracing::debug!(%address, %cause, "caller gave up"),
    }
}

/// Why a caller got no further.
enum Unmet {
    /// The owner should know.
    Rejected(ConnectError),
    /// It changed its mind, e.g. because two dials crossed.
    GaveUp(String),
}

/// A caller that has said hello.
struct Greeted {
    address: SocketAddr,
    connection: Connection,
    send: SendStream,
    receive: RecvStream,
    greeting: Greeting,
    bearer: Bearer,
}

async fn greet(shared: &Shared, incoming: Incoming) -> Result<Greeted, Unmet> {
    let address = incoming.remote_address();
    let lost = |e| match failed(address, shared.timing.connect, e) {
        DialError::Failed(error @ ConnectError::Certificate { .. }) => Unmet::Rejected(error),
        DialError::Failed(other) => Unmet::GaveUp(other.to_string()),
        DialError::Crossing => Unmet::GaveUp("two dials crossed".to_owned()),
    };
    let config = shared.configs.server(shared.tuning.large_packets(address.ip()));
    let connection = incoming.accept_with(config).map_err(lost)?.await.map_err(lost)?;
    let (send, mut receive) = connection.accept_bi().await.map_err(lost)?;
    match hello::read(&mut receive).await {
        Ok(greeting) => match Bearer::of(&connection) {
            Some(bearer) if bearer.may_say(&greeting.hello.who) => {
                Ok(Greeted { address, connection, send, receive, greeting, bearer })
            }
            bearer => {
                let says = says(&greeting.hello.who);
                let bearer = bearer.map_or_else(|| "nobody".to_owned(), |bearer| bearer.to_string());
                let reason = format!("you say that you are {says}, but your certificate is that of {bearer}");
                CloseCode::Refused.close(&connection, &reason);
                Err(Unmet::Rejected(ConnectError::Impostor { address, says, bearer }))
            }
        },
        Err(GreetError::Protocol { theirs }) => {
            CloseCode::Protocol.close(&connection, &control::VERSION.to_string());
            Err(Unmet::Rejected(ConnectError::Protocol { address, ours: control::VERSION, theirs }))
        }
        Err(GreetError::Stream(quinn::ReadExactError::ReadError(_))) => Err(lost(connection.closed().await)),
        Err(e @ (GreetError::Magic | GreetError::Decode(_) | GreetError::Stream(_))) => {
            CloseCode::Unreadable.close(&connection, &crate::chain(&e));
            Err(Unmet::Rejected(ConnectError::Broken { address, cause: crate::chain(&e) }))
        }
    }
}

/// Asks the owner, and does what it says.
async fn decide(shared: &Arc<Shared>, greeted: Greeted) {
    let (verdict, answer) = oneshot::channel();
    let (hello, bearer) = (greeted.greeting.hello.clone(), greeted.bearer.clone());
    let caller = Caller { address: greeted.address, hello, bearer, verdict };
    shared.tell(Inbound::Knock(caller)).await;
    match within(shared.timing.connect, answer).await {
        Some(Ok(Verdict::Admit(peer, hello))) => match hello::encode(&shared.own, &hello) {
            Ok(reply) => admit(shared, greeted, peer, hello::name_of(&hello.who), reply.into()).await,
            Err(error) => {
                tracing::error!(node = %peer, %error, "own hello cannot be encoded");
                CloseCode::Refused.close(&greeted.connection, "its answer cannot be encoded");
            }
        },
        Some(Ok(Verdict::Refuse(reason))) => CloseCode::Refused.close(&greeted.connection, &reason),
        Some(Err(_)) | None => CloseCode::Refused.close(&greeted.connection, "nobody there decided about the caller"),
    }
}

async fn admit(shared: &Arc<Shared>, greeted: Greeted, peer: PeerId, me: Option<PeerId>, reply: Bytes) {
    let Greeted { address, connection, send, receive, greeting, bearer: _ } = greeted;
    // An error means that the stream is closed, which the write finds out too.
    let _ = send.set_priority(PRIORITY);
    let (queue, frames) = mpsc::channel(shared.limits.control_queue.max(1));
    // The first in the queue: nobody else has it yet.
    let _ = queue.try_send(Outgoing::Greeting(reply));
    let desk = shared.desk.register(greeting.instance, shared.number());
    let watch = Watch::await_at(desk, shared.own, greeting.instance, address, shared.timing.probe);
    let (told, told_receiver) = watch::channel(false);
    let link = Arc::new(Link { peer, connection, queue: Queue::new(queue), stop: watch::Sender::new(None) });
    let outcome = loop {
        if link.connection.close_reason().is_some() {
            return;
        }
        let entry =
            Entry { link: Arc::clone(&link), by: Dialler::There, since: Instant::now(), told: told_receiver.clone() };
        let arrival = shared.table().arrived(peer, me, &entry, shared.timing.connect * 2);
        match arrival {
            Arrival::Installed(outcome) => break outcome,
            Arrival::Crossing => return CloseCode::Crossing.close(&link.connection, ""),
            Arrival::Closed => return CloseCode::Refused.close(&link.connection, "shutting down"),
            Arrival::After(old, mut told) => {
                if let Some(old) = old {
                    old.end(Stop::Replaced);
                }
                // An error means that the old one's task is gone, and its slot with it.
                let _ = told.wait_for(|told| *told).await;
            }
        }
    };
    let running = Running { link, send, receive, queue: frames, hello: greeting.hello, watch, told, outcome };
    link::run(Arc::clone(shared), running).await;
}
