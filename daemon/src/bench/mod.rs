//! Measurements of one process without a cluster.
//!
//! [`train()`] measures training beside the rate of matrix products, in turns, so that both see the same machine;
//! [`kernels()`] measures every operation of a step beside what the machine gives, in turns too.

mod cases;
mod ceilings;
mod kernels;
mod product;
mod products;
mod resident;
mod spread;
mod train;

pub use kernels::{KernelLine, KernelsReport, kernels};
pub use spread::Spread;
pub use train::{BenchError, TrainReport, train};
