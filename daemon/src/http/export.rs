//! A written state's weights as a file of another program, streamed: a thread permutes tensors one by one, the client's pace
//! holds it back.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use serde::Deserialize;
use shoal_config::spec::Dtype;
use shoal_model::files::{Aside, Destination, WriteError};
use shoal_plan::ids::BlockId;
use shoal_plan::job::Job;
use shoal_plan::space::{Interval, Kind};
use shoal_plan::weights::Dtypes;
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::App;
use super::call;
use super::downloads::Download;
use super::fault::Fault;
use super::reader::StateReader;

/// Bytes of one chunk of the file.
const CHUNK_BYTES: usize = 1 << 20;

/// Models that are written out at once: each holds a band of a tensor, and pieces on their way.
const EXPORTS: usize = 2;
/// Bytes of the coordinator's disk that no export takes: its journal goes on being written there.
const LEAVE: u64 = 256 << 20;
/// A client that takes nothing for so long is given up, so that it keeps nobody else from an export.
const STALL: Duration = Duration::from_secs(60);

/// How many models are being written out, and where there is room for what memory does not take.
#[derive(Clone, Debug)]
pub struct Exports {
    room: Arc<Semaphore>,
    aside: PathBuf,
}

impl Exports {
    /// Puts together in a directory what is too large for memory.
    pub fn new(aside: impl Into<PathBuf>) -> Self {
        Self { room: Arc::new(Semaphore::new(EXPORTS)), aside: aside.into() }
    }

    /// One more, as long as the permit lives.
    fn begin(&self) -> Result<OwnedSemaphorePermit, Fault> {
        Arc::clone(&self.room).try_acquire_owned().map_err(|_| Fault::Busy { most: EXPORTS })
    }
}

/// Which version, in which form.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Form {
    pub(super) step: Option<u64>,
    dtype: Option<String>,
    shard_bytes: Option<u64>,
}

/// Reads elements of a block's weights.
pub(super) type Weights<'r> = &'r mut dyn FnMut(BlockId, Interval, &mut [f32]) -> Result<(), Fault>;

impl Form {
    /// How elements are to be stored, if that is said.
    pub(super) fn dtype(&self) -> Result<Option<Dtype>, Fault> {
        let called = |word: &str| {
            let unknown = || Fault::Malformed(format!("`{word}` is no element type; there are fp32, fp16 and bf16"));
            Dtype::called(word).ok_or_else(unknown)
        };
        self.dtype.as_deref().map(called).transpose()
    }

    /// How each tensor is to be stored: as said, or as the job began.
    pub(super) fn dtypes(&self, job: &Job) -> Result<Dtypes, Fault> {
        Ok(self.dtype()?.map_or_else(|| job.export_dtypes(), Dtypes::All))
    }

    /// Bytes that a file may have.
    pub(super) fn most(&self) -> u64 {
        self.shard_bytes.unwrap_or(u64::MAX)
    }
}

/// The written weights of a job, and the right to write them out.
pub(super) struct Source {
    pub(super) reader: StateReader,
    aside: PathBuf,
    download: Download,
    permit: OwnedSemaphorePermit,
}

/// The written state of a job, if all weights of it are there and not too many are being written out.
pub(super) async fn weights(app: &App, id: &str, step: Option<u64>) -> Result<Source, Fault> {
    let permit = app.exports.begin()?;
    let reader = StateReader::open(app, call::job_id(id)?, step).await?;
    for number in 0..reader.table().blocks.len() as u32 {
        let (block, whole) = reader.block(Kind::Weight, number)?;
        reader.complete(block, Kind::Weight, whole)?;
    }
    Ok(Source { reader, aside: app.exports.aside.clone(), download: app.downloads.begin(), permit })
}

/// A file of `bytes` that `write` makes from the weights.
pub(super) fn stream(
    Source { reader, aside, download, permit }: Source,
    bytes: u64,
    write: impl FnOnce(&StateReader, Weights<'_>, Destination<'_>) -> Result<(), WriteError<Fault>> + Send + 'static,
) -> Response {
    let (sender, receiver) = mpsc::channel(4);
    let runtime = Handle::current();
    let going = download.clone();
    tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let mut out = ChunkWriter { chunk: Vec::with_capacity(CHUNK_BYTES), sender, runtime: runtime.clone() };
        let mut read = |block, interval, out: &mut [f32]| fill(&runtime, &reader, block, interval, out);
        let written =
            write(&reader, &mut read, Destination { out: &mut out, aside: Aside { dir: &aside, leave: LEAVE } });
        if let Err(error) = written.and_then(|()| out.flush().map_err(WriteError::Out)) {
            let fault = Fault::from(error);
            going.broke_off(&fault);
            // The client may be the reason, then nobody hears it.
            let _ = out.sender.try_send(Err(fault));
        }
    });
    let chunks = futures_util::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|chunk| (chunk, receiver))
    });
    download.answer(Body::from_stream(chunks), bytes)
}

fn fill(
    runtime: &Handle,
    reader: &StateReader,
    block: BlockId,
    interval: Interval,
    out: &mut [f32],
) -> Result<(), Fault> {
    let mut rest = Some(interval);
    let mut at = 0;
    while let Some(part) = rest {
        let bytes = runtime.block_on(reader.read(block, Kind::Weight, part))?;
        for (value, bytes) in out[at..].iter_mut().zip(bytes.as_chunks::<4>().0) {
            *value = f32::from_le_bytes(*bytes);
        }
        let count = bytes.len() / 4;
        at += count;
        let next = part.start + count as u64;
        rest = (next < part.end).then(|| Interval::new(next, part.end));
    }
    Ok(())
}

/// Writes into a channel, a chunk at a time.
struct ChunkWriter {
    chunk: Vec<u8>,
    sender: mpsc::Sender<Result<Vec<u8>, Fault>>,
    runtime: Handle,
}

impl Write for ChunkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.chunk.extend_from_slice(bytes);
        if self.chunk.len() >= CHUNK_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::replace(&mut self.chunk, Vec::with_capacity(CHUNK_BYTES));
        let sent = self.runtime.block_on(self.sender.send_timeout(Ok(chunk), STALL));
        sent.map_err(|error| match error {
            SendTimeoutError::Timeout(_) => io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing"),
            SendTimeoutError::Closed(_) => io::Error::new(io::ErrorKind::BrokenPipe, "the client is gone"),
        })
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use axum::http::header::RETRY_AFTER;
    use axum::response::IntoResponse;

    use super::*;

    #[test]
    fn a_third_export_is_told_when_to_come_again() {
        let exports = Exports::new("/nowhere");
        let (one, _two) = (exports.begin().expect("room"), exports.clone().begin().expect("room"));
        let answer = exports.begin().expect_err("no room").into_response();
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(answer.headers()[RETRY_AFTER], "1");
        drop(one);
        assert!(exports.begin().is_ok(), "room again");
    }
}
