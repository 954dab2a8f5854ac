//! What one version's directory holds.

use serde::{Deserialize, Serialize};
use shoal_plan::digest::PieceLeaves;
use shoal_plan::ids::{BlockId, Digest};
use shoal_plan::ledger::Version;
use shoal_plan::space::Interval;
use shoal_wire::control::WrittenPiece;

/// Form of `manifest.json`.
pub(super) const FORMAT: u32 = 1;

/// Everything in one version's directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Form of this file.
    pub format: u32,
    /// The version that was written.
    pub version: Version,
    /// Its files.
    pub files: Vec<FileEntry>,
}

/// One piece's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Name within the directory.
    pub name: String,
    /// Whose space.
    pub block: BlockId,
    /// Elements.
    pub interval: Interval,
    /// Of the whole file.
    pub blake3: Digest,
    /// Leaf hashes by kind.
    pub leaves: Vec<PieceLeaves>,
}

impl Manifest {
    /// As the coordinator hears of it.
    pub fn pieces(&self) -> impl Iterator<Item = WrittenPiece> + '_ {
        self.files.iter().flat_map(|file| &file.leaves).map(|leaves| WrittenPiece {
            version: self.version,
            block: leaves.block,
            kind: leaves.kind,
            interval: leaves.interval,
            leaves: leaves.leaves.clone(),
        })
    }

    /// The file that holds an interval.
    pub(super) fn file_of(&self, block: BlockId, interval: Interval) -> Option<&FileEntry> {
        self.files.iter().find(|f| f.block == block && f.interval.intersection(interval) == Some(interval))
    }
}
