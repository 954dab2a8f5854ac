//! Small files that say where and who a daemon is.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::run::DaemonError;

/// Writes a file in one go: readers see the old content or the new one.
pub(crate) fn put(path: &Path, content: &str) -> Result<(), DaemonError> {
    let fault = |source| DaemonError::File { path: path.to_owned(), source };
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(fault)?;
    }
    let aside = PathBuf::from(format!("{}.{}", path.display(), std::process::id()));
    std::fs::write(&aside, content).and_then(|()| std::fs::rename(&aside, path)).map_err(fault)
}

/// The address in a file, if there is one.
pub(crate) fn address(path: &Path) -> Option<SocketAddr> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// A file with this process's id, removed when the daemon ends in peace.
#[derive(Debug)]
pub(crate) struct PidFile {
    path: PathBuf,
}

impl PidFile {
    pub(crate) fn write(path: PathBuf) -> Result<Self, DaemonError> {
        put(&path, &format!("{}\n", std::process::id()))?;
        Ok(Self { path })
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // A file that stays behind names a process that is gone; readers must expect that after a kill anyway.
        let _ = std::fs::remove_file(&self.path);
    }
}
