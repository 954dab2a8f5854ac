//! Measurements of one process without a cluster.
//!
//! [`train()`] measures training beside the rate of matrix products, in turns, so that both see the same machine.

mod products;
mod resident;
mod train;

pub use train::{BenchError, TrainReport, train};
