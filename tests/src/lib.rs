//! What the end-to-end tests share: a cluster of real processes, driven through the command line's contract.

pub mod cluster;
pub mod job;
pub mod state;
pub mod wait;

pub use cluster::Cluster;
pub use job::{Family, JobFile};
