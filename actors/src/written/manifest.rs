//! What one version's directory holds.

use serde::{Deserialize, Serialize};
use shoal_plan::digest::PieceLeaves;
use shoal_plan::ids::{BlockId, Digest};
use shoal_plan::ledger::Version;
use shoal_plan::space::{Interval, Kind};
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

    /// The file that holds some elements of a kind, and all that it holds of it.
    pub(super) fn file_of(&self, block: BlockId, kind: Kind, interval: Interval) -> Option<(&FileEntry, Interval)> {
        let held = |file: &FileEntry| {
            let of_kind = file.leaves.iter().filter(|leaves| (leaves.block, leaves.kind) == (block, kind));
            of_kind.map(|leaves| leaves.interval).find(|held| held.intersection(interval) == Some(interval))
        };
        self.files.iter().find_map(|file| Some((file, held(file)?)))
    }
}
