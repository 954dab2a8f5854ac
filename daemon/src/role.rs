//! What a daemon process is told to be.

use std::net::SocketAddr;
use std::path::PathBuf;

use shoal_config::node::Class;
use shoal_config::spec::Auto;

/// What a daemon process is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// The cluster's coordinator: no device, keeps the journal, serves HTTP.
    Coordinator(CoordinatorConfig),
    /// A worker: one device, holds tensors.
    Worker(WorkerConfig),
    /// Parent of a coordinator: starts this executable again as the coordinator, and again whenever it dies.
    Respawn(CoordinatorConfig),
}

/// How to be the coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoordinatorConfig {
    /// The cluster directory.
    pub dir: PathBuf,
    /// Where to serve HTTP. Port 0: the one of the last start if it is free, else any.
    pub http: SocketAddr,
    /// Where workers connect. Port 0: the one of the last start if it is free, else any.
    pub listen: SocketAddr,
    /// Log file; standard error if none.
    pub log: Option<PathBuf>,
}

/// How to be a worker. What is `None` is read from `nodes/<name>/node.toml`, and has a default if it is not there either.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerConfig {
    /// The cluster directory.
    pub dir: PathBuf,
    /// The node's name; its own directory is `nodes/<name>`.
    pub name: String,
    /// Bytes that its arenas may hold, all tiers.
    pub memory_bytes: Option<u64>,
    /// Compute threads.
    pub threads: Option<u32>,
    /// What its devices compute with.
    pub class: Option<Auto<Class>>,
    /// Where peers connect.
    pub listen: Option<SocketAddr>,
    /// The coordinator's transport address; the one that the cluster directory names if `None`.
    pub join: Option<SocketAddr>,
    /// Log file; standard error if none.
    pub log: Option<PathBuf>,
}

impl CoordinatorConfig {
    /// On loopback, ports from the system (or as at the last start), logging to standard error.
    #[must_use]
    pub fn local(dir: PathBuf) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        Self { dir, http: any, listen: any, log: None }
    }
}

impl WorkerConfig {
    /// Everything else from `node.toml` or by default.
    #[must_use]
    pub fn named(dir: PathBuf, name: String) -> Self {
        Self { dir, name, memory_bytes: None, threads: None, class: None, listen: None, join: None, log: None }
    }
}
