//! One job on one worker: the bytes behind the books.
//!
//! `plan::holder` keeps the books and decides; [`HolderActor`] carries out. Its rooms:
//!
//! ```text
//! actor     messages in, books, commands out; supervises the seats and the loader
//! slot      the whole state of an interval, outside of every actor: shard (device arena) or offload store (host arena)
//! build     a new slot from the seed, from other slots, from peers
//! apply     records applied to slots; update: stroke by stroke, with a cursor that outlives a panic
//! gather    lane partials added in tree order: a piece's gradient
//! seats     adopt a plan, run passes, hand sums and activations around
//! moves     serve, fill, distribute, share: everything that leaves
//! arrivals  everything that comes
//! persist   hash and write
//! ```

mod actor;
mod apply;
mod arrivals;
mod build;
mod gather;
mod message;
mod moves;
mod outside;
mod persist;
mod report;
mod seats;
mod slot;
mod state;
mod tensor;
mod update;

pub use actor::HolderActor;
pub use message::{HolderArgs, HolderMsg, LinkNews, Work};
pub use outside::{LinkError, Outside};
pub use tensor::Slice;

#[cfg(test)]
pub(crate) mod tests;
