//! Bulk transfers: one unidirectional stream each, a framed header, then little-endian elements of the type it names.

use std::sync::Arc;

use bytes::Bytes;
use quinn::{Connection, ReadExactError, RecvStream, SendStream, StoppedError, VarInt, WriteError};
use shoal_model::half;
use shoal_wire::data::{self, Header, TrafficKind};
use shoal_wire::frame;
use tokio::task::JoinSet;

use super::counters::Counts;
use super::link::Link;
use super::payload::{BLOCK, Payload, Refused};
use super::peer::{Inbound, PeerId};
use super::send::BulkError;
use super::shared::Shared;
use super::stall::{Moved, stalled};

/// The code of a stream that its sender gave up.
const RESET: u32 = 0;

/// Order in which transfers of one connection are sent when there is more than it carries: what a stage waits for first,
/// what fills shadows behind training last.
fn priority(kind: TrafficKind) -> i32 {
    match kind {
        TrafficKind::Control => super::control::PRIORITY,
        TrafficKind::Activation | TrafficKind::ActivationGradient => 4,
        TrafficKind::GradientPartial => 3,
        TrafficKind::Weights | TrafficKind::SeatWeights | TrafficKind::StateRecovery => 2,
        TrafficKind::ShadowGradient => 1,
        TrafficKind::StateFill => 0,
    }
}

/// A stream that is reset unless it was finished, also when its future is dropped.
struct Sending {
    stream: SendStream,
    finished: bool,
}

impl Drop for Sending {
    fn drop(&mut self) {
        if !self.finished {
            // An error means that the stream is closed already.
            let _ = self.stream.reset(VarInt::from_u32(RESET));
        }
    }
}

pub(super) async fn send(shared: &Shared, link: &Link, header: Header, payload: Payload) -> Result<(), BulkError> {
    if header.elements != payload.elements() {
        return Err(BulkError::Length { header: header.elements, payload: payload.elements() });
    }
    let head = frame::encode(data::VERSION, frame::MAX_HEADER_BYTES, &header).map_err(BulkError::Encode)?;
    let kind = header.purpose.kind();
    let counts = shared.counters.line(link.peer, kind, Some(header.job));
    let (moved, waited) = (Moved::default(), shared.timing.progress);
    let carried = || {
        let stats = link.connection.stats();
        // What was lost is sent again; it got nowhere the first time.
        stats.udp_tx.bytes.saturating_sub(stats.path.lost_bytes)
    };
    tokio::select! {
        biased;
        () = shared.fences.passed(header.job, header.generation) => Err(BulkError::Fenced),
        sent = transfer(link, kind, head, payload.chunks(header.dtype), (&counts, &moved)) => sent,
        () = stalled(waited, &moved, carried) => {
            tracing::warn!(node = %link.peer, job = %header.job, gen = %header.generation, step = header.step, "bulk transfer stalled");
            Err(BulkError::Stalled { peer: link.peer, waited })
        }
    }
}

async fn transfer(
    link: &Link,
    kind: TrafficKind,
    head: Vec<u8>,
    mut payload: impl Iterator<Item = Bytes>,
    (counts, moved): (&Counts, &Moved),
) -> Result<(), BulkError> {
    let broken = BulkError::LinkBroken(link.peer);
    let stream = link.connection.open_uni().await.map_err(|_| broken.clone())?;
    let mut sending = Sending { stream, finished: false };
    // An error means that the stream is closed, which the write finds out too.
    let _ = sending.stream.set_priority(priority(kind));
    let mut framing = head.len();
    let mut chunks = vec![Bytes::from(head)];
    chunks.extend(payload.next());
    // Beside the write, not by it: a write that finds the connection's window used up does not look whether its stream
    // was stopped, and once the stop's credit arrives quinn wakes only streams that have a window of their own left. A
    // stop that overtakes its credit would never be found.
    let stopped = sending.stream.stopped();
    tokio::pin!(stopped);
    while !chunks.is_empty() {
        let mut rest = chunks.as_mut_slice();
        while !rest.is_empty() {
            let written = tokio::select! {
                biased;
                end = &mut stopped => return Err(ended(link.peer, end)),
                written = sending.stream.write_chunks(rest) => written.map_err(|e| unwritten(link.peer, e))?,
            };
            moved.bytes(written.bytes);
            let head = written.bytes.min(framing);
            framing -= head;
            counts.sent.framing(head);
            counts.sent.payload(written.bytes - head);
            rest = &mut rest[written.chunks..];
        }
        chunks.clear();
        chunks.extend(payload.next());
    }
    drop((chunks, payload));
    sending.stream.finish().map_err(|_| broken.clone())?;
    match stopped.await {
        Ok(None) => {}
        end @ (Ok(Some(_)) | Err(_)) => return Err(ended(link.peer, end)),
    }
    sending.finished = true;
    counts.sent.message();
    Ok(())
}

/// How a stream ended that had more to send.
fn ended(peer: PeerId, end: Result<Option<VarInt>, StoppedError>) -> BulkError {
    match end {
        Ok(Some(code)) => refused(peer, code),
        Ok(None) | Err(StoppedError::ConnectionLost(_) | StoppedError::ZeroRttRejected) => BulkError::LinkBroken(peer),
    }
}

fn unwritten(peer: PeerId, error: WriteError) -> BulkError {
    match error {
        WriteError::Stopped(code) => refused(peer, code),
        WriteError::ConnectionLost(_) | WriteError::ClosedStream | WriteError::ZeroRttRejected => {
            BulkError::LinkBroken(peer)
        }
    }
}

fn refused(peer: PeerId, code: VarInt) -> BulkError {
    match Refused::of_code(code.into_inner()) {
        Some(reason) => BulkError::Refused { peer, reason },
        None => BulkError::LinkBroken(peer),
    }
}

/// Why a transfer was not received.
#[derive(Debug)]
enum ReceiveError {
    /// It is unwanted: stop the stream.
    Refuse(Refused),
    /// Its sender gave it up, or the connection broke.
    GivenUp,
}

/// Takes transfers until the future is dropped, and with it all that are open.
pub(super) async fn receive_all(shared: Arc<Shared>, connection: Connection, peer: PeerId) {
    let mut open = JoinSet::new();
    while let Ok(stream) = connection.accept_uni().await {
        open.spawn(receive(Arc::clone(&shared), connection.clone(), stream, peer));
        while open.try_join_next().is_some() {}
    }
}

async fn receive(shared: Arc<Shared>, connection: Connection, mut stream: RecvStream, peer: PeerId) {
    let moved = Moved::default();
    let carried = || connection.stats().udp_rx.bytes;
    let received = tokio::select! {
        biased;
        received = receive_one(&shared, &mut stream, peer, &moved) => received,
        () = stalled(shared.timing.progress, &moved, carried) => Err(ReceiveError::Refuse(Refused::Stalled)),
    };
    match received {
        Ok(inbound) => shared.tell(inbound).await,
        Err(ReceiveError::Refuse(reason)) => {
            tracing::debug!(node = %peer, %reason, "bulk transfer refused");
            // An error means that the stream is closed already.
            let _ = stream.stop(VarInt::from_u32(reason.code()));
        }
        Err(ReceiveError::GivenUp) => tracing::debug!(node = %peer, "bulk transfer given up by its sender"),
    }
}

async fn receive_one(
    shared: &Shared,
    stream: &mut RecvStream,
    peer: PeerId,
    moved: &Moved,
) -> Result<Inbound, ReceiveError> {
    let (header, framing) = read_header(stream).await?;
    moved.bytes(framing);
    if peer != PeerId::Worker(header.from) && peer != PeerId::Coordinator {
        return Err(ReceiveError::Refuse(Refused::Header));
    }
    if header.elements > shared.limits.bulk_elements {
        return Err(ReceiveError::Refuse(Refused::NoRoom));
    }
    let counts = shared.counters.line(peer, header.purpose.kind(), Some(header.job));
    counts.received.framing(framing);
    let (job, generation) = (header.job, header.generation);
    tokio::select! {
        biased;
        () = shared.fences.passed(job, generation) => Err(ReceiveError::Refuse(Refused::Stale)),
        inbound = fill(shared, stream, peer, header, (&counts, moved)) => inbound,
    }
}

async fn fill(
    shared: &Shared,
    stream: &mut RecvStream,
    peer: PeerId,
    header: Header,
    (counts, moved): (&Counts, &Moved),
) -> Result<Inbound, ReceiveError> {
    let mut buffer = shared.sink.accept(&header).map_err(ReceiveError::Refuse)?;
    let elements = buffer.elements_mut();
    if elements.len() as u64 != header.elements {
        tracing::error!(job = %header.job, found = elements.len(), asked = header.elements, "sink gave another length");
        return Err(ReceiveError::Refuse(Refused::Length));
    }
    match half(header.dtype) {
        None => read_bytes(stream, bytemuck::cast_slice_mut(elements), counts, moved).await?,
        Some(half) => {
            let mut halves = vec![0_u8; 2 * BLOCK.min(elements.len())];
            for block in elements.chunks_mut(BLOCK) {
                let halves = &mut halves[..2 * block.len()];
                read_bytes(stream, halves, counts, moved).await?;
                for (x, bits) in block.iter_mut().zip(halves.as_chunks().0) {
                    *x = half.value(u16::from_le_bytes(*bits));
                }
            }
        }
    }
    match stream.read(&mut [0]).await {
        Ok(None) => {}
        Ok(Some(_)) => return Err(ReceiveError::Refuse(Refused::Length)),
        Err(_) => return Err(ReceiveError::GivenUp),
    }
    counts.received.message();
    Ok(Inbound::Bulk { from: peer, header, buffer })
}

/// Fills `bytes` and counts what comes.
async fn read_bytes(
    stream: &mut RecvStream,
    bytes: &mut [u8],
    counts: &Counts,
    moved: &Moved,
) -> Result<(), ReceiveError> {
    let mut filled = 0;
    while filled < bytes.len() {
        match stream.read(&mut bytes[filled..]).await {
            Ok(Some(read)) => {
                counts.received.payload(read);
                moved.bytes(read);
                filled += read;
            }
            Ok(None) => return Err(ReceiveError::Refuse(Refused::Length)),
            Err(_) => return Err(ReceiveError::GivenUp),
        }
    }
    Ok(())
}

/// The header and the bytes of its frame.
async fn read_header(stream: &mut RecvStream) -> Result<(Header, usize), ReceiveError> {
    let failed = |e| match e {
        ReadExactError::FinishedEarly(_) => ReceiveError::Refuse(Refused::Header),
        ReadExactError::ReadError(_) => ReceiveError::GivenUp,
    };
    let unreadable = |_| ReceiveError::Refuse(Refused::Header);
    let mut length = [0; frame::LENGTH_BYTES];
    stream.read_exact(&mut length).await.map_err(failed)?;
    let length = frame::length(length, frame::MAX_HEADER_BYTES).map_err(unreadable)?;
    let mut body = [0; frame::MAX_HEADER_BYTES];
    let body = &mut body[..length];
    stream.read_exact(body).await.map_err(failed)?;
    Ok((frame::decode(data::VERSION, body).map_err(unreadable)?, length + frame::LENGTH_BYTES))
}
