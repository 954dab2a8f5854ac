//! Pieces on disk.
//!
//! ```text
//! <data dir>/jobs/<job>/<step>-<chain>/b3-0-4096.safetensors   every kind of state of one piece
//!                                      manifest.json           what is there, leaf hashes, blake3 of each file
//! <data dir>/jobs/<job>/report.json                            counters when the job left this node's arenas
//! ```
//!
//! A version is written into a directory of another name, every file and the directory are synced, and it is renamed: what
//! has the final name is complete. Digest, export and report are served from here when no arena holds the job any more,
//! also by a later process on the same data directory.

mod error;
mod known;
mod manifest;
mod piece;
mod shelf;

pub use error::WrittenError;
pub use manifest::Manifest;
pub use piece::{KindData, PieceData};
pub use shelf::Shelf;

/// Versions of one job that are kept; older ones are removed after a newer one is complete.
pub const KEPT_VERSIONS: usize = 4;
/// Most bytes that one answer carries.
pub const MAX_ANSWER_BYTES: u64 = 4 << 20;

#[cfg(test)]
mod tests;
