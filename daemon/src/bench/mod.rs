//! Measurements of one process without a cluster.
//!
//! [`train()`] measures training beside the rate of matrix products, in turns, so that both see the same machine;
//! [`kernels()`] measures every operation of a step beside what the machine gives, in turns too.
//!
//! * BE-1 (as many buffers as sizes): one is made for each.
//! * BE-2 (at least one step and its products were measured): training is measured in a loop until there are several steps, with
//!   products before each.

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
