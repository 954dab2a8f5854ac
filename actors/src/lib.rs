//! The actors of a cluster and what they say to each other.
//!
//! [`coordinator`] decides for a cluster: one engine a job, its journal, links to workers. [`node`] is a worker process: it
//! registers, carries the engine's messages to the holders of state, and supervises what computes. [`transport`]: links
//! between processes. [`loader`]: the token stream of a job. [`written`]: pieces on disk.

pub mod coordinator;
pub mod loader;
pub mod node;
pub mod transport;
pub mod written;
