//! The control stream of one connection: frames in order, both ways.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use quinn::{ReadExactError, RecvStream, SendStream};
use shoal_wire::control::{self, Control};
use shoal_wire::data::TrafficKind;
use shoal_wire::frame;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::peer::{Inbound, PeerId};
use super::shared::Shared;

/// Above every bulk transfer.
pub(super) const PRIORITY: i32 = 100;
/// A message after which the transport's thread looks at its other work.
const LARGE: usize = 4096;

/// One thing for the writer.
#[derive(Debug)]
pub(super) enum Outgoing {
    /// A greeting: not counted.
    Greeting(Bytes),
    /// A control frame.
    Frame(Bytes),
    /// The last control frame: the stream ends after it.
    Goodbye(Bytes),
}

/// What is to be written to one peer, from any thread. Once a message found no room, none follows.
#[derive(Debug)]
pub(super) struct Queue(Mutex<Option<mpsc::Sender<Outgoing>>>);

/// Why something was not queued.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unqueued {
    /// There was no room, and the message is lost.
    Full { messages: usize },
    /// One was lost before, or the connection is gone.
    Closed,
}

impl Queue {
    pub(super) fn new(sender: mpsc::Sender<Outgoing>) -> Self {
        Self(Mutex::new(Some(sender)))
    }

    /// Queues something, or closes the queue for good.
    pub(super) fn push(&self, next: Outgoing) -> Result<(), Unqueued> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = open.as_ref().ok_or(Unqueued::Closed)?;
        match sender.try_send(next) {
            Ok(()) => Ok(()),
            Err(TrySendError::Closed(_)) => Err(Unqueued::Closed),
            Err(TrySendError::Full(_)) => {
                let messages = sender.max_capacity();
                *open = None;
                Err(Unqueued::Full { messages })
            }
        }
    }

    /// Queues the last thing as soon as there is room; at once if there will be none.
    pub(super) async fn finish(&self, last: Outgoing) {
        let open = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(sender) = open {
            // An error means that the writer is gone.
            let _ = sender.send(last).await;
        }
    }
}

/// How the reader ended.
#[derive(Debug)]
pub(super) enum ReadEnd {
    /// The other end said goodbye, with this reason.
    Goodbye(String),
    /// What it said cannot be read, and how.
    Unreadable(String),
    /// The stream broke, and with it the connection.
    Broken(ReadExactError),
}

/// Writes until the queue closes or the connection breaks; after a goodbye until the other end has it all.
pub(super) async fn write(mut stream: SendStream, mut queue: mpsc::Receiver<Outgoing>, shared: &Shared, peer: PeerId) {
    let counts = shared.counters.line(peer, TrafficKind::Control, None);
    while let Some(next) = queue.recv().await {
        let (bytes, last) = match next {
            Outgoing::Greeting(bytes) => {
                if stream.write_chunk(bytes).await.is_err() {
                    return;
                }
                continue;
            }
            Outgoing::Frame(bytes) => (bytes, false),
            Outgoing::Goodbye(bytes) => (bytes, true),
        };
        let payload = bytes.len() - frame::OVERHEAD_BYTES;
        if stream.write_chunk(bytes).await.is_err() {
            return;
        }
        counts.sent.payload(payload);
        counts.sent.framing(frame::OVERHEAD_BYTES);
        counts.sent.message();
        if last {
            // An error means that the connection is gone, and nobody waits for the goodbye.
            let _ = stream.finish();
            let _ = stream.stopped().await;
            return;
        }
    }
}

/// Hands messages to the owner until the stream ends.
pub(super) async fn read(stream: &mut RecvStream, shared: &Shared, peer: PeerId) -> ReadEnd {
    let counts = shared.counters.line(peer, TrafficKind::Control, None);
    loop {
        let mut length = [0; frame::LENGTH_BYTES];
        if let Err(e) = stream.read_exact(&mut length).await {
            return ReadEnd::Broken(e);
        }
        let length = match frame::length(length, frame::MAX_CONTROL_BYTES) {
            Ok(length) => length,
            Err(e) => return ReadEnd::Unreadable(crate::chain(&e)),
        };
        let mut body = vec![0; length];
        if let Err(e) = stream.read_exact(&mut body).await {
            return ReadEnd::Broken(e);
        }
        let message: Control = match frame::decode(control::VERSION, &body) {
            Ok(message) => message,
            Err(e) => return ReadEnd::Unreadable(crate::chain(&e)),
        };
        counts.received.payload(length + frame::LENGTH_BYTES - frame::OVERHEAD_BYTES);
        counts.received.framing(frame::OVERHEAD_BYTES);
        counts.received.message();
        if let Control::Goodbye(reason) = message {
            return ReadEnd::Goodbye(reason);
        }
        shared.tell(Inbound::Control { from: peer, message }).await;
        if length > LARGE {
            // Decoding took a while; acknowledgements and keep-alives must not wait for the next one too.
            tokio::task::yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With room again, a message must not follow one that is lost: whoever hears it would not know.
    #[test]
    fn nothing_follows_a_message_that_was_lost() {
        let (sender, mut receiver) = mpsc::channel(2);
        let queue = Queue::new(sender);
        let message = || Outgoing::Frame(Bytes::from_static(b"x"));
        assert_eq!((queue.push(message()), queue.push(message())), (Ok(()), Ok(())));
        assert_eq!(queue.push(message()), Err(Unqueued::Full { messages: 2 }));
        assert!(receiver.try_recv().is_ok() && receiver.try_recv().is_ok());
        assert_eq!(queue.push(message()), Err(Unqueued::Closed));
        assert_eq!(receiver.try_recv().expect_err("nothing more"), mpsc::error::TryRecvError::Disconnected);
    }
}
