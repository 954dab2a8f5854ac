//! The one entry of a daemon process.

use std::io;
use std::path::PathBuf;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use shoal_actors::node::NodeError;
use shoal_actors::transport::{BindError, PkiError};

use crate::cluster::ClusterDir;
use crate::lock::LockError;
use crate::logging::{self, LogError};
use crate::role::Role;
use crate::store::StoreError;
use crate::{coordinator, respawn, worker};

/// Why a daemon could not start or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The cluster directory is missing or not one.
    #[error("{dir} is not a cluster directory ({missing} is missing); make one with `shoalctl init` or `shoalctl up`")]
    NoCluster {
        /// What was given.
        dir: PathBuf,
        /// What is not there.
        missing: &'static str,
    },
    /// Its directory belongs to another daemon, or cannot be locked.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Its log cannot be opened.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Its certificate is not there or not good.
    #[error("the daemon's certificate cannot be used")]
    Identity(#[source] PkiError),
    /// Its node file is not there or not good.
    #[error("the daemon's node file cannot be used")]
    NodeFile(#[source] shoal_config::ConfigError),
    /// Its transport cannot listen.
    #[error("the coordinator's transport cannot start")]
    Transport(#[source] BindError),
    /// The HTTP interface cannot listen.
    #[error("cannot listen on {address} for HTTP; stop the process that has the port, or choose another (0: any)")]
    Http {
        /// What was asked for.
        address: std::net::SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The journal cannot be opened.
    #[error("the coordinator's journal cannot be opened")]
    Store(#[source] StoreError),
    /// The coordinator's actor ended by itself.
    #[error("the coordinator ended: {cause}")]
    Actor {
        /// What it said.
        cause: String,
    },
    /// A respawner's first coordinator did not come up.
    #[error("the coordinator did not start, its own message says why")]
    FirstStart,
    /// The worker cannot start.
    #[error("the worker cannot start")]
    Worker(#[source] NodeError),
    /// The worker cannot go on.
    #[error("the worker cannot go on: {reason}")]
    Failed {
        /// What was asked, what was found, what to do.
        reason: String,
    },
    /// A file in the cluster directory cannot be read or written.
    #[error("{path} cannot be used")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The system gives no runtime, signal handler or child process.
    #[error("the system refused {what}")]
    System {
        /// What.
        what: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Be `role` until told to stop (SIGTERM, SIGINT, or `shutdown`). Builds its own runtimes; call it from `main`, outside any
/// other.
///
/// # Errors
/// If the daemon cannot start, or if it stops for another reason than a request.
pub fn run(role: Role) -> Result<(), DaemonError> {
    let (dir, log) = match &role {
        Role::Coordinator(config) | Role::Respawn(config) => (&config.dir, config.log.as_deref()),
        Role::Worker(config) => (&config.dir, config.log.as_deref()),
    };
    logging::start(log)?;
    logging::shorten_panics();
    open_as_many_files_as_may_be();
    let cluster =
        ClusterDir::new(std::path::absolute(dir).map_err(|source| DaemonError::File { path: dir.clone(), source })?);
    if !cluster.root().is_dir() {
        return Err(DaemonError::NoCluster { dir: dir.clone(), missing: "the directory itself" });
    }
    match role {
        Role::Coordinator(config) => coordinator::run(&cluster, &config),
        Role::Respawn(config) => match respawn::parent() {
            None => respawn::run(&cluster),
            Some(parent) if respawn::follow(parent)? => coordinator::run(&cluster, &config),
            Some(_) => Ok(()),
        },
        Role::Worker(config) => worker::run(&cluster, &config),
    }
}

/// A corpus of many files keeps them all open, and every peer takes sockets: the soft limit on open files, often 1024, is
/// raised to the hard one. Where that is refused, whoever needs one file too many says so.
fn open_as_many_files_as_may_be() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!(%error, "the limit on open files stays as it is");
    }
}
