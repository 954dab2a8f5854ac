//! One daemon a directory: a locked file with the process id of who holds it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::process;

/// A directory's lock. The system gives it up when the process ends, however it ends.
#[derive(Debug)]
pub struct DirLock {
    _file: File,
}

/// How long a holder that is ending may take: a coordinator works off what it was told and flushes its journal.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

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
    /// Another process has it, which is ending and does not end.
    #[error(
        "{dir} was to be free once process {pid} has ended, which still has it after {} s; end that one with \
         `kill -9 {pid}`, then try again", waited.as_secs()
    )]
    Lingers {
        /// The directory.
        dir: PathBuf,
        /// Process id as written by its holder.
        pid: String,
        /// How long it was waited for.
        waited: Duration,
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
    /// Takes `<dir>/lock`; the directory is made if it is not there. A holder that is ending is waited for.
    ///
    /// # Errors
    /// If another process has it and goes on, or does not end in time, or the file cannot be made.
    pub fn take(dir: &Path) -> Result<Self, LockError> {
        Self::take_within(dir, PATIENCE)
    }

    fn take_within(dir: &Path, patience: Duration) -> Result<Self, LockError> {
        let path = dir.join("lock");
        let fault = |source| LockError::File { path: path.clone(), source };
        std::fs::create_dir_all(dir).map_err(fault)?;
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(fault)?;
        let begun = Instant::now();
        let (mut told, mut lived) = (false, false);
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(Errno::WOULDBLOCK) => {}
                Err(errno) => return Err(fault(errno.into())),
            }
            let pid = written(&mut file).map_err(fault)?;
            // Without a number, its holder has only just come; it is waited for as one that will say more. Two looks, because
            // there is a moment in which one that was just killed looks like one that goes on.
            let lives = pid.parse().is_ok_and(|pid| !process::is_ending(pid));
            if lives && lived {
                return Err(LockError::Taken { dir: dir.to_owned(), pid });
            }
            lived = lives;
            if begun.elapsed() >= patience {
                return Err(LockError::Lingers { dir: dir.to_owned(), pid, waited: patience });
            }
            if !lives && !std::mem::replace(&mut told, true) {
                tracing::warn!(dir = %dir.display(), pid, "directory is in use by a process that is ending, waiting for it");
            }
            std::thread::sleep(LOOK);
        }
        file.set_len(0).and_then(|()| file.seek(SeekFrom::Start(0))).map_err(fault)?;
        writeln!(file, "{}", std::process::id()).map_err(fault)?;
        Ok(Self { _file: file })
    }
}

/// What the holder wrote.
fn written(file: &mut File) -> io::Result<String> {
    let mut pid = String::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_string(&mut pid)?;
    Ok(pid.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

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

    #[test]
    fn a_holder_that_has_been_killed_is_waited_for_and_not_for_ever() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let first = DirLock::take(dir.path()).expect("free");
        let mut gone = Command::new("true").spawn().expect("starts");
        gone.wait().expect("it ends");
        std::fs::write(dir.path().join("lock"), format!("{}\n", gone.id())).expect("written");
        let error = DirLock::take_within(dir.path(), Duration::ZERO).expect_err("held").to_string();
        assert!(error.contains(&format!("once process {} has ended", gone.id())), "{error}");
        let waiting = std::thread::spawn({
            let dir = dir.path().to_owned();
            move || DirLock::take(&dir)
        });
        drop(first);
        waiting.join().expect("no panic").expect("free at last");
    }
}
