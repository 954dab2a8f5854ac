//! The actors of a cluster and what they say to each other.
//!
//! [`coordinator`] decides for a cluster: one engine a job, its journal, links to workers. [`node`] is a worker process: it
//! registers, and carries the engine's messages to a [`holder`] a job, which keeps the bytes behind the books. A [`stage`] a seat
//! walks its instruction list on the [`device`]; its tokens come from the [`loader`]. [`transport`]: links between
//! processes. [`written`]: pieces on disk.

mod chain;
pub mod coordinator;
pub mod device;
pub mod holder;
pub mod loader;
pub mod node;
pub mod stage;
#[cfg(test)]
mod testing;
pub mod transport;
pub mod written;

pub use chain::{chain, startup};
