//! The cluster directory: who lives where in it, and how a cluster and its nodes come to be.
//!
//! ```text
//! ca/                 the authority: certificate and key
//! coordinator/        certificate, key, lock, state/ (journal), transport.addr (host:port that workers join)
//! nodes/<name>/       certificate, key, node.toml, lock, data/
//! pids/<name>         process ids: respawner, coordinator, every worker
//! coordinator.addr    host:port of the HTTP interface
//! ```

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use shoal_actors::transport::{ClusterCa, PkiError};

/// How long certificates are good for.
const VALIDITY: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Paths within a cluster directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterDir {
    root: PathBuf,
}

/// Why a cluster or node could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// A directory cannot be made.
    #[error("cannot make directory {path}")]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The authority or a certificate.
    #[error("cannot make the certificates of cluster {dir}")]
    Certificates {
        /// The cluster directory.
        dir: PathBuf,
        /// Why.
        #[source]
        source: PkiError,
    },
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

/// Makes the cluster's authority and the coordinator's certificate. What is there already is left as it is.
///
/// # Errors
/// If a file cannot be written, or what is there is not an authority.
pub fn init(dir: &ClusterDir) -> Result<(), ClusterError> {
    for path in [dir.coordinator(), dir.root().join("nodes"), dir.root().join("pids")] {
        std::fs::create_dir_all(&path).map_err(|source| ClusterError::Directory { path, source })?;
    }
    let certificates = |source| ClusterError::Certificates { dir: dir.root().to_owned(), source };
    let ca = if dir.ca().exists() { ClusterCa::load(&dir.ca()) } else { ClusterCa::create(&dir.ca()) };
    let ca = ca.map_err(certificates)?;
    if shoal_actors::transport::Identity::load(&dir.coordinator()).is_err() {
        ca.issue("coordinator", &dir.coordinator(), VALIDITY).map_err(certificates)?;
    }
    Ok(())
}

/// Makes a node's directory and certificate. A certificate of this cluster that is there already is kept.
///
/// # Errors
/// If the cluster has no authority here, the name cannot stand on a certificate, or a file cannot be written.
pub fn add_node(dir: &ClusterDir, name: &str) -> Result<(), ClusterError> {
    let certificates = |source| ClusterError::Certificates { dir: dir.root().to_owned(), source };
    let path = dir.node(name);
    std::fs::create_dir_all(&path).map_err(|source| ClusterError::Directory { path: path.clone(), source })?;
    let ca = ClusterCa::load(&dir.ca()).map_err(certificates)?;
    let ours = shoal_actors::transport::Identity::load(&path).is_ok_and(|identity| identity.cluster() == ca.name());
    if !ours {
        ca.issue(name, &path, VALIDITY).map_err(certificates)?;
    }
    Ok(())
}
