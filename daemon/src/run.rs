//! The one entry of a daemon process.

use std::path::PathBuf;

use crate::role::Role;

/// Why a daemon could not start or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The cluster directory is missing or not one.
    #[error(
        "{dir} is not a cluster directory ({missing} is missing): make one with `shoalctl init --dir {dir}` or `shoalctl up`"
    )]
    NoCluster {
        /// What was given.
        dir: PathBuf,
        /// What is not there.
        missing: String,
    },
}

/// Be `role` until told to stop. Builds its own runtimes; call it from `main`, outside any other.
///
/// # Errors
/// If the daemon cannot start, or if it stops for another reason than a request.
pub fn run(role: Role) -> Result<(), DaemonError> {
    let dir = match role {
        Role::Coordinator(config) | Role::Respawn(config) => config.dir,
        Role::Worker(config) => config.dir,
    };
    Err(DaemonError::NoCluster { missing: "ca/".into(), dir })
}
