//! A whole model in one process that only computes forward: for the loss of data, or for a text.
//!
//! WH-1 (counted first): what it takes ([`shoal_plan::memory::whole`], and the device's scratch) is held against what it may
//! take before any of it is, and its arena never holds more than that.

mod loss;
mod text;

use std::sync::Arc;

use shoal_config::{Bytes, JobSpec};
use shoal_kernels::{Arena, ArenaError, Budget, CpuDevice, Device, Tier};
use shoal_plan::blocks::ModelTable;
use shoal_plan::ids::BlockId;
use shoal_plan::memory::whole::{Purpose, WholeBytes, whole_bytes};
use shoal_plan::space::Interval;

use crate::{ModelError, StageModel};

pub use loss::{Evaluated, LossError, Source};
pub use text::{Ended, TextError, Wanted, Writer};

/// What the process may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Threads that compute.
    pub threads: usize,
    /// Bytes for everything.
    pub bytes: u64,
    /// Of those, what making tokens of a text takes.
    pub text: u64,
}

/// A model with all its blocks.
pub struct Whole {
    spec: JobSpec,
    arena: Arena,
    device: Device,
    model: StageModel,
}

/// Why there is no such model.
#[derive(Debug, thiserror::Error)]
pub enum WholeError {
    /// It takes more than it may.
    #[error(
        "the model takes {} of memory in this process ({} of weights, {} of kept keys and values, {} for the tokens being \
         read and for threads{}), and {} may be taken; use a machine with more memory, or give up something that it holds",
        Bytes(.need.total().saturating_add(*.threads).saturating_add(*.text)), Bytes(.need.weights), Bytes(.need.kept),
        Bytes(.need.rows + .threads), of_text(*.text), Bytes(*.allowed)
    )]
    Room {
        /// What the model takes.
        need: WholeBytes,
        /// What threads take beside it.
        threads: u64,
        /// What making tokens of a text takes beside it.
        text: u64,
        /// What it may take.
        allowed: u64,
    },
    /// No room for the device.
    #[error("no room for the device's scratch memory")]
    Device(#[source] ArenaError),
    /// The model could not be made.
    #[error("the model could not be made")]
    Model(#[source] ModelError),
}

fn of_text(bytes: u64) -> String {
    if bytes == 0 { String::new() } else { format!(", {} for making tokens of the text", Bytes(bytes)) }
}

impl Whole {
    /// A model without weights yet.
    ///
    /// # Errors
    /// If what it takes for its purpose is more than it may take.
    pub fn new(spec: &JobSpec, purpose: Purpose, room: Room) -> Result<Self, WholeError> {
        let table = Arc::new(ModelTable::of(&spec.model));
        let need = whole_bytes(spec, &table, purpose);
        let threads = CpuDevice::own_bytes(room.threads);
        let left = room.bytes.saturating_sub(room.text);
        if room.text > room.bytes || need.total().saturating_add(threads) > left {
            return Err(WholeError::Room { need, threads, text: room.text, allowed: room.bytes });
        }
        let arena = Arena::new(Tier::Device, left, &Budget::new(left));
        let device = Device::cpu(room.threads, &arena).map_err(WholeError::Device)?;
        let (blocks, lanes) = (table.blocks.len() as u32, spec.parallel.virtual_replicas);
        let model = StageModel::new((&device, &arena), spec, table, 0..blocks, 0..lanes).map_err(WholeError::Model)?;
        Ok(Self { spec: spec.clone(), arena, device, model })
    }

    /// Overwrites weights.
    ///
    /// # Panics
    /// If there is not one value an element, or the interval is no part of the model.
    pub fn write_weights(&mut self, block: BlockId, interval: Interval, values: &[f32]) {
        self.model.write_weights(&self.device, block, interval, values);
    }

    /// The most that was ever in its arena, in bytes.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.arena.total().high
    }
}

#[cfg(test)]
mod tests;
