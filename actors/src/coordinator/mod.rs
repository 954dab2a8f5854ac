//! The coordinator: who is in the cluster, which jobs there are, one engine a job.
//!
//! [`CoordinatorActor`] reads its mailbox ([`CoordinatorMsg`]): what the transport brings, what clients ask, what was
//! flushed, what time it is. `links` turns connections into members, `drive` turns facts into engine events and carries
//! the engine's commands out, `read` answers readers; `members`, `joblog`, `asks` and [`written`] are plain values.
//! [`Journal`] is what it needs of a store.

mod absent;
mod actor;
mod asks;
mod drive;
mod error;
mod flusher;
mod intake;
mod job;
mod joblog;
mod journal;
mod links;
mod members;
mod message;
mod names;
mod queue;
mod read;
mod sources;
mod state;
#[cfg(test)]
mod tests;
pub mod written;

pub use actor::{CoordinatorActor, CoordinatorArgs};
pub use error::RequestError;
pub use flusher::After;
pub use journal::{Journal, JournalError, MemoryJournal, Restored, RestoredJob};
pub use members::{HEARTBEAT_MS, Patience};
pub use message::{CoordinatorMsg, IntakeMsg, NodeAnswer, NodeOrder, Read, Repeat, Reply, Sight, Submitted, To};
pub use sources::{Facts, SourceError, Sources};
pub use state::Coordinator;
