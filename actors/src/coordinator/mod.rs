//! The coordinator.

mod journal;

pub use journal::{Journal, JournalError, MemoryJournal, Restored};
