//! The model in the form that `transformers` reads.

use std::io::{self, Write};

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use serde::Deserialize;
use serde_json::Value;
use shoal_actors::coordinator::Read;
use shoal_model::hf;
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

/// Which version.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AtVersion {
    step: Option<u64>,
}

pub(super) async fn config(State(app): State<App>, Path(id): Path<String>) -> Result<Json<Value>, Fault> {
    let id = call::job_id(&id)?;
    let job = app.read(|reply| Read::Job(id, reply)).await?;
    Ok(Json(hf::config_json(&job.spec)))
}

/// Streamed: a thread permutes tensors one by one, the client's pace holds it back.
pub(super) async fn model(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(AtVersion { step }): Query<AtVersion>,
) -> Result<Response, Fault> {
    let reader = StateReader::open(&app, call::job_id(&id)?, step).await?;
    for number in 0..reader.table().blocks.len() as u32 {
        let (block, whole) = reader.block(number)?;
        reader.complete(block, Kind::Weight, whole)?;
    }
    let bytes = hf::model_len(reader.table(), &reader.job().spec);
    let (sender, receiver) = mpsc::channel(4);
    let runtime = Handle::current();
    tokio::task::spawn_blocking(move || {
        let mut out = ChunkWriter { chunk: Vec::with_capacity(CHUNK_BYTES), sender };
        let read = |block, interval, out: &mut [f32]| fill(&runtime, &reader, block, interval, out);
        let outcome = hf::write_model(reader.table(), &reader.job().spec, read, &mut out).and_then(|()| out.flush());
        if let Err(error) = outcome {
            tracing::warn!(error = &error as &dyn std::error::Error, "export broke off");
            // The client may be the reason, then nobody hears it.
            let _ = out.sender.blocking_send(Err(error));
        }
    });
    let chunks = futures_util::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|chunk| (chunk, receiver))
    });
    Ok(download(Body::from_stream(chunks), bytes))
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
