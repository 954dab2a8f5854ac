//! The death-watch: one idle TCP connection beside every QUIC connection.
//!
//! QUIC says nothing when a process is killed; the kernel closes its TCP sockets within a millisecond. So a closed watch
//! is a question, and one reconnect answers it: refused, or answered by another process, means dead; answered by the
//! same process means that only the connection was reset.
//!
//! ```text
//! dialler -> listener: "SHOALDW\0" | purpose | nonce (16) | own instance id (16) | own proof of the nonce (32)
//! listener -> dialler: proof of the nonce (32); then silence, or (probe) the end
//! ```

mod desk;

use std::future::pending;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::sleep;

pub(super) use desk::{Desk, Registered, serve};

use super::instance::{Instance, Nonce, Proof};
use super::patience::within;
use super::tls;

const MAGIC: &[u8; 8] = b"SHOALDW\0";
const KEEP: u8 = 1;
const PROBE: u8 = 2;
const OPENING_BYTES: usize = 8 + 1 + 16 + 16 + 32;
/// Between two questions to a process that neither answers nor refuses.
const RETRY: Duration = Duration::from_millis(100);
/// After a reset that was no death, so that a far end that keeps closing is not asked in a circle.
const PAUSE: Duration = Duration::from_millis(10);

/// Returns once a connection to an address is refused: the process that listened there is dead. One that lives, is stopped
/// or is cut off is asked again and again.
pub async fn nobody_listens(address: SocketAddr) {
    loop {
        match TcpStream::connect(address).await {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return,
            Ok(_) | Err(_) => sleep(RETRY).await,
        }
    }
}

/// What a reconnect finds.
#[derive(Debug)]
pub(super) enum Probe {
    /// Refused, or answered by another process.
    Dead,
    /// Answered; the connection, if it is to be kept.
    Alive(Option<TcpStream>),
    /// Neither refused nor answered in time: stopped, cut off, or only slow.
    Silent,
}

/// Watches one process.
#[derive(Debug)]
pub(super) struct Watch {
    own: Instance,
    peer: Instance,
    address: SocketAddr,
    patience: Duration,
    side: Side,
}

/// Which end opens the TCP connection.
#[derive(Debug)]
enum Side {
    Dials(Option<TcpStream>),
    Waits { stream: Option<TcpStream>, desk: Registered },
}

impl Watch {
    /// For the end that dialled. Asks once before it returns: something else may listen on the port.
    pub(super) async fn dial(
        own: Instance,
        peer: Instance,
        address: SocketAddr,
        stream: TcpStream,
        patience: Duration,
    ) -> Result<Self, Probe> {
        match ask(stream, KEEP, &own, &peer, patience).await {
            Probe::Alive(stream) => Ok(Self { own, peer, address, patience, side: Side::Dials(stream) }),
            found @ (Probe::Dead | Probe::Silent) => Err(found),
        }
    }

    /// For the end that was dialled: the watch comes to the desk.
    pub(super) fn await_at(
        desk: Registered,
        own: Instance,
        peer: Instance,
        address: SocketAddr,
        patience: Duration,
    ) -> Self {
        Self { own, peer, address, patience, side: Side::Waits { stream: None, desk } }
    }

    /// Returns when the process is dead. May be dropped and called again.
    pub(super) async fn dead(&mut self) {
        loop {
            self.closed().await;
            match self.probe().await {
                Probe::Dead => return,
                Probe::Alive(stream) => {
                    tracing::debug!(peer = ?self.peer, "death-watch was reset, process answers");
                    if let Side::Dials(kept) = &mut self.side {
                        *kept = stream;
                    }
                    sleep(PAUSE).await;
                }
                Probe::Silent => sleep(RETRY).await,
            }
        }
    }

    /// Asks now.
    pub(super) async fn probe(&self) -> Probe {
        let purpose = match self.side {
            Side::Dials(_) => KEEP,
            Side::Waits { .. } => PROBE,
        };
        let question = async {
            loop {
                match TcpStream::connect(self.address).await {
                    Ok(stream) => match ask(stream, purpose, &self.own, &self.peer, self.patience).await {
                        // It may have closed while it died: the next connect is refused then.
                        Probe::Silent => sleep(Duration::from_millis(1)).await,
                        found @ (Probe::Dead | Probe::Alive(_)) => return found,
                    },
                    Err(e) if e.kind() == ErrorKind::ConnectionRefused => return Probe::Dead,
                    Err(_) => sleep(RETRY).await,
                }
            }
        };
        within(self.patience, question).await.unwrap_or(Probe::Silent)
    }

    /// Returns when the idle connection closes, or at once where there should be one and is none.
    async fn closed(&mut self) {
        match &mut self.side {
            Side::Dials(kept) => {
                if let Some(stream) = kept {
                    silence(stream).await;
                    *kept = None;
                }
            }
            Side::Waits { stream, desk } => loop {
                match stream {
                    Some(kept) => {
                        tokio::select! {
                            biased;
                            next = desk.next() => *stream = Some(next),
                            () = silence(kept) => {
                                *stream = None;
                                return;
                            }
                        }
                    }
                    None => match within(RETRY, desk.next()).await {
                        Some(next) => *stream = Some(next),
                        None => return,
                    },
                }
            },
        }
    }
}

/// Returns when the other end closes.
async fn silence(stream: &mut TcpStream) {
    let mut byte = [0];
    // Nothing is ever said on a watch; what is said all the same does not matter.
    while let Ok(1..) = stream.read(&mut byte).await {}
}

/// Opens a conversation and checks the answer. `Silent` also stands for a connection that closed without one.
async fn ask(mut stream: TcpStream, purpose: u8, own: &Instance, peer: &Instance, patience: Duration) -> Probe {
    let Ok(nonce) = tls::random() else { return Probe::Silent };
    let mut proof: Proof = [0; 32];
    let conversation = async {
        stream.write_all(&opening(purpose, &nonce, own)).await?;
        stream.read_exact(&mut proof).await
    };
    match within(patience, conversation).await {
        Some(Ok(_)) if peer.check(&nonce, &proof) => Probe::Alive((purpose == KEEP).then_some(stream)),
        Some(Ok(_)) => Probe::Dead,
        Some(Err(_)) | None => Probe::Silent,
    }
}

fn opening(purpose: u8, nonce: &Nonce, own: &Instance) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(OPENING_BYTES);
    bytes.extend_from_slice(MAGIC);
    bytes.push(purpose);
    bytes.extend_from_slice(nonce);
    bytes.extend_from_slice(&own.id.0);
    bytes.extend_from_slice(&own.prove(nonce));
    bytes
}

/// The next watch that a desk hands over; never, once the desk is gone.
async fn next_of(streams: &mut mpsc::Receiver<TcpStream>) -> TcpStream {
    match streams.recv().await {
        Some(stream) => stream,
        None => pending().await,
    }
}
