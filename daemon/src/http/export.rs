//! A written state's weights as a file of another program, streamed: a thread permutes tensors one by one, the client's pace
//! holds it back.

use std::io::{self, Write};

use axum::body::Body;
use axum::response::Response;
use serde::Deserialize;
use shoal_model::files::Element;
use shoal_plan::ids::BlockId;
use shoal_plan::space::{Interval, Kind};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::App;
use super::call;
use super::fault::Fault;
use super::reader::StateReader;
use super::state::download;

/// Bytes of one chunk of the file.
const CHUNK_BYTES: usize = 1 << 20;

/// Which version, in which form.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Form {
    pub(super) step: Option<u64>,
    dtype: Option<String>,
    shard_bytes: Option<u64>,
}

/// Reads elements of a block's weights.
pub(super) type Weights<'r> = &'r mut dyn FnMut(BlockId, Interval, &mut [f32]) -> io::Result<()>;

impl Form {
    /// How elements are to be stored.
    pub(super) fn element(&self) -> Result<Element, Fault> {
        let word = self.dtype.as_deref().unwrap_or("fp32");
        let unknown = || Fault::Malformed(format!("`{word}` is no element type; there are fp32, fp16 and bf16"));
        Element::called(word).ok_or_else(unknown)
    }

    /// Bytes that a file may have.
    pub(super) fn most(&self) -> u64 {
        self.shard_bytes.unwrap_or(u64::MAX)
    }
}

/// The written state of a job, if all weights of it are there.
pub(super) async fn weights(app: &App, id: &str, step: Option<u64>) -> Result<StateReader, Fault> {
    let reader = StateReader::open(app, call::job_id(id)?, step).await?;
    for number in 0..reader.table().blocks.len() as u32 {
        let (block, whole) = reader.block(Kind::Weight, number)?;
        reader.complete(block, Kind::Weight, whole)?;
    }
    Ok(reader)
}

/// A file of `bytes` that `write` makes from the weights.
pub(super) fn stream(
    reader: StateReader,
    bytes: u64,
    write: impl FnOnce(&StateReader, Weights<'_>, &mut dyn Write) -> io::Result<()> + Send + 'static,
) -> Response {
    let (sender, receiver) = mpsc::channel(4);
    let runtime = Handle::current();
    tokio::task::spawn_blocking(move || {
        let mut out = ChunkWriter { chunk: Vec::with_capacity(CHUNK_BYTES), sender };
        let mut read = |block, interval, out: &mut [f32]| fill(&runtime, &reader, block, interval, out);
        let outcome = write(&reader, &mut read, &mut out).and_then(|()| out.flush());
        if let Err(error) = outcome {
            tracing::warn!(error = &error as &dyn std::error::Error, "export broke off");
            // The client may be the reason, then nobody hears it.
            let _ = out.sender.blocking_send(Err(error));
        }
    });
    let chunks = futures_util::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|chunk| (chunk, receiver))
    });
    download(Body::from_stream(chunks), bytes)
}

fn fill(runtime: &Handle, reader: &StateReader, block: BlockId, interval: Interval, out: &mut [f32]) -> io::Result<()> {
    let mut rest = Some(interval);
    let mut at = 0;
    while let Some(part) = rest {
        let bytes = runtime.block_on(reader.read(block, Kind::Weight, part)).map_err(io::Error::other)?;
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
    sender: mpsc::Sender<io::Result<Vec<u8>>>,
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
        let gone = |_| io::Error::new(io::ErrorKind::BrokenPipe, "the client is gone");
        self.sender.blocking_send(Ok(chunk)).map_err(gone)
    }
}
