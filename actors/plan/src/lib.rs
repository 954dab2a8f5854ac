//! Every decision, and nothing else: no I/O, no clock, no generator of random numbers.
//!
//! Table of contents, in the order of the first walk in docs/ARCHITECTURE.md:
//! [`ids`] names things; [`blocks`] and [`space`] give every piece of training state one address; [`lanes`] fixes the
//! tree that sums virtual replicas; [`batch`] names the samples of a step; [`schedule`] is what a seat does in a pass;
//! [`layout`] is the immutable, numbered plan; [`ledger`] is the chain of commit records; [`digest`] names a whole state;
//! [`protocol`] is what the engine and the holders of state say to each other; [`engine`] and [`holder`] are the two state
//! machines that say it.

pub mod batch;
pub mod blocks;
pub mod digest;
pub mod engine;
pub mod holder;
pub mod ids;
pub mod job;
pub mod lanes;
pub mod layout;
pub mod ledger;
pub mod protocol;
pub mod schedule;
pub mod space;
