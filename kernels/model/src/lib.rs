//! A model's arithmetic, built from kernels.
//!
//! * [`init`] draws the initial weights from the seed.
//! * [`StageModel`] computes one pipeline stage: forward, loss, backward, and the lane sums of every gradient.
//! * [`StageModel::read_on`] goes on with a text, token by token, and [`sample`] chooses the next one.
//! * [`whole`] is a whole model that only computes forward, for a loss or a text, in memory that was counted before.
//! * [`solo::Solo`] runs a whole job in one place: what a cluster is compared with.
//! * [`files`] reads weights by ranges from files of other programs; [`hf`] and [`llmc`] are two forms of them, out and in.

mod block;
mod error;
pub mod files;
pub mod hf;
pub mod init;
mod kv_cache;
pub mod llmc;
#[cfg(test)]
mod parity;
mod rotary;
mod rounding;
pub mod sample;
pub mod solo;
mod stage;
mod stored;
mod sums;
pub mod update;
mod weights;
pub mod whole;

#[cfg(test)]
mod testing;

pub use block::Phase;
pub use error::ModelError;
pub use kv_cache::KvCache;
pub use rounding::{Rounding, half};
pub use stage::{BlockCalls, Input, StageModel};
pub use sums::LaneSum;
