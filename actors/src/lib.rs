//! The actors of a cluster and what they say to each other.
//!
//! [`coordinator`]: membership, jobs, their engines. [`transport`]: links between processes.

pub mod coordinator;
pub mod transport;
