//! One piece as a safetensors file: a flat f32 tensor for each kind of its state, named by it (`weight`, `moment1`).
//!
//! Written by hand rather than through the library so that elements go from the arena to the file without a second copy
//! of the piece in memory.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use safetensors::tensor::Metadata;
use shoal_config::safetensors::Header;
use shoal_config::spec::Dtype;
use shoal_plan::blocks::ModelTable;
use shoal_plan::digest::{self, PieceLeaves};
use shoal_plan::ids::{BlockId, Digest};
use shoal_plan::space::{Interval, Kind};

use super::WrittenError;
use super::manifest::FileEntry;
use crate::transport::BulkSource;

/// The whole state of a piece, held still.
#[derive(Clone)]
pub struct PieceData {
    /// Whose space.
    pub block: BlockId,
    /// Elements.
    pub interval: Interval,
    /// In the table's order, the weight first.
    pub kinds: Vec<KindData>,
}

/// One kind of a piece's state.
#[derive(Clone)]
pub struct KindData {
    /// Which.
    pub kind: Kind,
    /// Elements of the kind's space.
    pub interval: Interval,
    /// Exactly these.
    pub data: Arc<dyn BulkSource>,
}

impl PieceData {
    /// Leaf hashes of every kind.
    #[must_use]
    pub fn leaves(&self, table: &ModelTable) -> Vec<PieceLeaves> {
        let leaves = |&KindData { kind, interval, ref data }: &KindData| {
            let leaves = digest::leaves(table.space(kind, self.block), interval, data.elements());
            PieceLeaves { block: self.block, interval, kind, leaves }
        };
        self.kinds.iter().map(leaves).collect()
    }

    /// Writes and syncs the piece's file in `directory`.
    pub(super) fn write(&self, directory: &Path, table: &ModelTable) -> Result<FileEntry, WrittenError> {
        let name = format!("{}-{}-{}.safetensors", self.block, self.interval.start, self.interval.end);
        let path = directory.join(&name);
        let failed = || WrittenError::write(&path);
        let mut out = BufWriter::with_capacity(1 << 20, File::create(&path).map_err(failed())?);
        let mut hasher = blake3::Hasher::new();
        let mut put = |bytes: &[u8]| -> Result<(), WrittenError> {
            hasher.update(bytes);
            out.write_all(bytes).map_err(failed())
        };
        put(&header(&self.kinds))?;
        for kind in &self.kinds {
            put(bytemuck::cast_slice(kind.data.elements()))?;
        }
        let file = out.into_inner().map_err(|e| failed()(e.into_error()))?;
        file.sync_all().map_err(failed())?;
        Ok(FileEntry {
            name,
            block: self.block,
            interval: self.interval,
            blake3: Digest(*hasher.finalize().as_bytes()),
            leaves: self.leaves(table),
        })
    }
}

/// Length and header; elements follow at a multiple of eight bytes.
fn header(kinds: &[KindData]) -> Vec<u8> {
    let mut header = Header::default();
    for KindData { kind, interval, .. } in kinds {
        header.push(kind.to_string(), Dtype::F32, &[interval.len()]);
    }
    header.to_bytes()
}

/// Reads some elements of one kind, of which the file has `held`, as little-endian bytes.
pub(super) fn read(path: &Path, held: Interval, kind: Kind, wanted: Interval) -> Result<Vec<u8>, WrittenError> {
    let failed = || WrittenError::read(path);
    let damaged = |found: String| WrittenError::Damaged { path: path.to_owned(), found };
    let file = File::open(path).map_err(failed())?;
    let mut length = [0; 8];
    file.read_exact_at(&mut length, 0).map_err(failed())?;
    let length = u64::from_le_bytes(length);
    if length > 1 << 16 {
        return Err(damaged(format!("its header claims {length} bytes")));
    }
    let mut head = vec![0; 8 + length as usize];
    file.read_exact_at(&mut head, 0).map_err(failed())?;
    // The library's own reader wants the whole file in memory; its header type does not.
    let metadata: Metadata = serde_json::from_slice(&head[8..]).map_err(|e| damaged(e.to_string()))?;
    let info = metadata.info(&kind.to_string()).ok_or_else(|| damaged(format!("it has no tensor {kind}")))?;
    let elements = held.len();
    if info.shape != [elements as usize] {
        return Err(damaged(format!("{kind} has shape {:?}, not [{elements}]", info.shape)));
    }
    let mut bytes = vec![0; wanted.len() as usize * 4];
    let at = head.len() as u64 + info.data_offsets.0 as u64 + (wanted.start - held.start) * 4;
    file.read_exact_at(&mut bytes, at).map_err(failed())?;
    Ok(bytes)
}
