//! Every decision, and nothing else: no I/O, no clock, no generator of random numbers.
//!
//! Table of contents, in the order of the first walk in docs/ARCHITECTURE.md:
//! [`ids`] names things; [`blocks`], [`space`] and [`state`] give every piece of training state one address; [`lanes`] fixes the
//! tree that sums virtual replicas; [`batch`] names the samples of a step; [`schedule`] is what a seat does in a pass;
//! [`cost`], [`memory`], [`partition`], [`traffic`] and [`predict`] weigh layouts; [`planner`] chooses one and lists what must move; [`check`] proves
//! it and [`draw`] shows it; [`layout`] is the immutable, numbered plan; [`ledger`] is the chain of commit records, and what it starts from is in `genesis`; [`decay`] says which parameters decay;
//! [`digest`] names a whole state; [`protocol`] is what the engine and the holders of state say to each other; [`engine`]
//! and [`holder`] are the two state machines that say it.

pub mod batch;
pub mod blocks;
pub mod check;
pub mod commit;
pub mod cost;
pub mod decay;
pub mod digest;
pub mod draw;
pub mod engine;
#[cfg(test)]
pub(crate) mod fixture;
mod genesis;
pub mod holder;
pub mod ids;
pub mod job;
pub mod lanes;
pub mod layout;
pub mod learning_rate;
pub mod ledger;
pub mod loss_scale;
pub mod membership;
pub mod memory;
pub mod partition;
pub mod planner;
pub mod predict;
pub mod protocol;
pub mod rules;
pub mod schedule;
pub mod sim;
pub mod space;
pub mod state;
pub mod traffic;
pub mod weights;
