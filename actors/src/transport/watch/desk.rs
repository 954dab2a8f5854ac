//! Where death-watches arrive: one TCP listener an endpoint.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::{KEEP, MAGIC, OPENING_BYTES, PROBE, next_of};
use crate::transport::instance::{Instance, InstanceId, Nonce, Proof};
use crate::transport::patience::within;

/// For a stranger to say what it wants.
const OPENING_PATIENCE: Duration = Duration::from_secs(2);

/// The processes that are expected to watch this one.
#[derive(Debug, Default)]
pub(in crate::transport) struct Desk {
    expected: Mutex<HashMap<InstanceId, Expected>>,
}

#[derive(Debug)]
struct Expected {
    peer: Instance,
    number: u64,
    streams: mpsc::Sender<TcpStream>,
}

/// One expected process; dropping it ends the expectation.
#[derive(Debug)]
pub(in crate::transport) struct Registered {
    desk: Arc<Desk>,
    peer: InstanceId,
    number: u64,
    streams: mpsc::Receiver<TcpStream>,
}

impl Desk {
    fn expected(&self) -> MutexGuard<'_, HashMap<InstanceId, Expected>> {
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From here on watches of `peer` are handed to what comes back; `number` tells a later registration from this.
    pub(in crate::transport) fn register(self: &Arc<Self>, peer: Instance, number: u64) -> Registered {
        let (sender, streams) = mpsc::channel(4);
        self.expected().insert(peer.id, Expected { peer, number, streams: sender });
        Registered { desk: Arc::clone(self), peer: peer.id, number, streams }
    }

    fn hand_over(&self, id: InstanceId, nonce: &Nonce, proof: &Proof, stream: TcpStream) {
        let expected = self.expected();
        if let Some(expected) = expected.get(&id)
            && expected.peer.check(nonce, proof)
        {
            // A full or closed queue drops the stream, and its dialler asks again.
            let _ = expected.streams.try_send(stream);
        }
    }
}

impl Registered {
    pub(super) async fn next(&mut self) -> TcpStream {
        next_of(&mut self.streams).await
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut expected = self.desk.expected();
        if expected.get(&self.peer).is_some_and(|current| current.number == self.number) {
            expected.remove(&self.peer);
        }
    }
}

/// Answers everyone who asks, and hands kept connections to those who expect them. Never returns.
pub(in crate::transport) async fn serve(listener: TcpListener, own: Instance, desk: Arc<Desk>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(answer(stream, own, Arc::clone(&desk)));
            }
            Err(error) => {
                tracing::warn!(%error, "death-watch cannot accept");
                sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

async fn answer(mut stream: TcpStream, own: Instance, desk: Arc<Desk>) {
    let mut bytes = [0; OPENING_BYTES];
    match within(OPENING_PATIENCE, stream.read_exact(&mut bytes)).await {
        Some(Ok(_)) => {}
        Some(Err(_)) | None => return,
    }
    let (magic, rest) = bytes.split_at(MAGIC.len());
    let (purpose, rest) = rest.split_at(1);
    let (nonce, rest) = rest.split_at(16);
    let (id, proof) = rest.split_at(16);
    let (Ok(nonce), Ok(id), Ok(proof)) = (Nonce::try_from(nonce), <[u8; 16]>::try_from(id), Proof::try_from(proof))
    else {
        return;
    };
    if magic != MAGIC || stream.write_all(&own.prove(&nonce)).await.is_err() {
        return;
    }
    match purpose[0] {
        KEEP => desk.hand_over(InstanceId(id), &nonce, &proof, stream),
        PROBE => {}
        other => tracing::debug!(purpose = other, "a death-watch asked for something unknown"),
    }
}
