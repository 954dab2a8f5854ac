//! One daemon a directory: a locked file with the process id of who holds it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// A directory's lock. The system gives it up when the process ends, however it ends.
#[derive(Debug)]
pub struct DirLock {
    _file: File,
}

/// Why a directory cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process has it.
    #[error(
        "{dir} is in use by another daemon (process {pid}); stop that one first, or give this one a directory of its own"
    )]
    Taken {
        /// The directory.
        dir: PathBuf,
        /// Process id as written by its holder.
        pid: String,
    },
    /// The lock file cannot be used.
    #[error("{path} cannot be locked")]
    File {
        /// The lock file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl DirLock {
    /// Takes `<dir>/lock`; the directory is made if it is not there.
    ///
    /// # Errors
    /// If another process has it, or the file cannot be made.
    pub fn take(dir: &Path) -> Result<Self, LockError> {
        let path = dir.join("lock");
        let fault = |source| LockError::File { path: path.clone(), source };
        std::fs::create_dir_all(dir).map_err(fault)?;
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(fault)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut pid = String::new();
                file.read_to_string(&mut pid).map_err(fault)?;
                return Err(LockError::Taken { dir: dir.to_owned(), pid: pid.trim().to_owned() });
            }
            Err(errno) => return Err(fault(errno.into())),
        }
        file.set_len(0).and_then(|()| file.seek(SeekFrom::Start(0))).map_err(fault)?;
        writeln!(file, "{}", std::process::id()).map_err(fault)?;
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_holder_is_refused_with_the_first_ones_pid() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let first = DirLock::take(dir.path()).expect("free");
        // flock belongs to the open file, so a second open in one process is refused as another process would be.
        let error = DirLock::take(dir.path()).expect_err("taken").to_string();
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
        drop(first);
        DirLock::take(dir.path()).expect("free again");
    }
}
