//! The cluster directory: who lives where in it.
//!
//! ```text
//! ca/                 the authority: certificate and key
//! coordinator/        certificate, key, lock, log, state/ (journal), transport.addr (host:port that workers join)
//! nodes/<name>/       certificate, key, node.toml, lock, log, data/
//! pids/<name>         process ids: respawner, coordinator, every worker; with `.json`, what `shoalctl up` started
//! coordinator.addr    host:port of the HTTP interface
//! coordinator.token   what its clients have to know; only the owner can read it
//! ```

use std::path::{Path, PathBuf};

pub use shoal_config::node::COORDINATOR;

/// Paths within a cluster directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterDir {
    root: PathBuf,
}

impl ClusterDir {
    /// The cluster in `root`.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The directory itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The authority's directory.
    #[must_use]
    pub fn ca(&self) -> PathBuf {
        self.root.join("ca")
    }

    /// The coordinator's directory.
    #[must_use]
    pub fn coordinator(&self) -> PathBuf {
        self.root.join(COORDINATOR)
    }

    /// The journal's directory.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.coordinator().join("state")
    }

    /// The directory of all nodes' directories.
    #[must_use]
    pub fn nodes(&self) -> PathBuf {
        self.root.join("nodes")
    }

    /// A node's directory.
    #[must_use]
    pub fn node(&self, name: &str) -> PathBuf {
        self.nodes().join(name)
    }

    /// A node's file.
    #[must_use]
    pub fn node_file(&self, name: &str) -> PathBuf {
        self.node(name).join("node.toml")
    }

    /// File with the address of the HTTP interface.
    #[must_use]
    pub fn http_address(&self) -> PathBuf {
        self.root.join("coordinator.addr")
    }

    /// File with the token of the HTTP interface.
    #[must_use]
    pub fn token(&self) -> PathBuf {
        self.root.join("coordinator.token")
    }

    /// Log of a node that `shoalctl up` started, or of the coordinator.
    #[must_use]
    pub fn log(&self, who: &str) -> PathBuf {
        if who == COORDINATOR { self.coordinator().join("log") } else { self.node(who).join("log") }
    }

    /// File with the address that workers join.
    #[must_use]
    pub fn join_address(&self) -> PathBuf {
        self.coordinator().join("transport.addr")
    }

    /// Directory of process ids.
    #[must_use]
    pub fn pids(&self) -> PathBuf {
        self.root.join("pids")
    }

    /// File with the process id of `who`: `respawner`, `coordinator`, or a node's name.
    #[must_use]
    pub fn pid(&self, who: &str) -> PathBuf {
        self.pids().join(who)
    }
}
