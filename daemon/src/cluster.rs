//! The cluster directory: who lives where in it.
//!
//! ```text
//! ca/                 the authority: certificate and key
//! coordinator/        certificate, key, lock, state/ (journal), transport.addr (host:port that workers join)
//! nodes/<name>/       certificate, key, node.toml, lock, data/
//! pids/<name>         process ids: respawner, coordinator, every worker
//! coordinator.addr    host:port of the HTTP interface
//! ```

use std::path::{Path, PathBuf};

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
        self.root.join("coordinator")
    }

    /// The journal's directory.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.coordinator().join("state")
    }

    /// A node's directory.
    #[must_use]
    pub fn node(&self, name: &str) -> PathBuf {
        self.root.join("nodes").join(name)
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

    /// File with the address that workers join.
    #[must_use]
    pub fn join_address(&self) -> PathBuf {
        self.coordinator().join("transport.addr")
    }

    /// File with the process id of `who`: `respawner`, `coordinator`, or a node's name.
    #[must_use]
    pub fn pid(&self, who: &str) -> PathBuf {
        self.root.join("pids").join(who)
    }
}
