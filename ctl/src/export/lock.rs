//! The lock of a directory that an export goes into.

use std::fs::{self, File, Metadata, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::failure::Failure;

/// The file whose lock is the directory's; it has the id of the process. The system lets go of a lock when a process ends, however it
/// does.
pub(super) const LOCK: &str = ".part-lock";

/// How often others may get between looking and taking until they count as being there.
const ROUNDS: usize = 100;

/// Held as long as this lives.
#[derive(Debug)]
pub(super) struct Lock {
    dir: PathBuf,
    file: File,
    /// Whether the directory is here because of this export.
    made: bool,
}

impl Lock {
    /// Takes the lock of a directory, which is made if it is not there.
    pub(super) fn take(dir: &Path) -> Result<Self, Failure> {
        let path = dir.join(LOCK);
        let made = !dir.exists();
        let mut failed = None;
        for _ in 0..ROUNDS {
            let mut file = match open(dir, &path) {
                Ok(file) => file,
                // Whoever made the directory has just given it up.
                Err(error) if [ErrorKind::NotFound, ErrorKind::AlreadyExists].contains(&error.kind()) => {
                    failed = Some(error);
                    continue;
                }
                Err(error) => return Err(Failure::file("create", path)(error)),
            };
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(taken(dir, Some(file))),
                Err(TryLockError::Error(error)) => return Err(no_locks(dir, &error)),
            }
            // Otherwise whoever had it has just removed it.
            if file.metadata().map_err(Failure::file("look at", &path))?.nlink() > 0 {
                let id = format!("{}\n", std::process::id());
                let write = file.set_len(0).and_then(|()| file.write_all(id.as_bytes()));
                write.map_err(Failure::file("write", path))?;
                return Ok(Self { dir: dir.to_owned(), file, made });
            }
        }
        Err(failed.map_or_else(|| taken(dir, None), Failure::file("create", path)))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let path = self.dir.join(LOCK);
        let same = |held: Metadata, named: Metadata| (held.dev(), held.ino()) == (named.dev(), named.ino());
        // If somebody has removed it, what has its name is another's. Locked until it has none: whoever has opened it by its name
        // sees that it is gone. A file that stays is no harm.
        if self.file.metadata().and_then(|held| Ok(same(held, path.symlink_metadata()?))).unwrap_or(false) {
            let _ = fs::remove_file(path);
        }
        if self.made {
            // It stays if there is anything in it.
            let _ = fs::remove_dir(&self.dir);
        }
    }
}

fn open(dir: &Path, path: &Path) -> io::Result<File> {
    fs::create_dir_all(dir)?;
    // What is behind a link is not of this directory.
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    File::options().read(true).write(true).create(true).truncate(false).custom_flags(flags).open(path)
}

fn taken(dir: &Path, lock: Option<File>) -> Failure {
    let mut id = String::new();
    // Who it is helps, and no more.
    let _ = lock.map(|mut lock| lock.read_to_string(&mut id));
    let who = Some(id.trim()).filter(|id| !id.is_empty()).map(|id| format!(" (process {id})")).unwrap_or_default();
    Failure::No(format!(
        "this export was to go into {}, and another one is being written there just now{who}; wait until it is done, or name \
         another directory",
        dir.display()
    ))
}

fn no_locks(dir: &Path, error: &io::Error) -> Failure {
    Failure::No(format!(
        "an export holds the lock of a file in its directory, and the file system of {} gives none ({error}); export into a \
         directory of a local disk, and copy the files from there",
        dir.display()
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn is_taken(failure: &Failure) -> bool {
        matches!(failure, Failure::No(said) if said.contains("another one is being written there just now"))
    }

    /// Whoever waits between opening and locking may get the lock of a file that is gone, and must not think it has anything.
    #[test]
    fn of_many_at_once_one_has_it() {
        let temp = tempfile::tempdir().expect("temp dir");
        let dir = temp.path().join("to");
        let (inside, had) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..300 {
                        match Lock::take(&dir) {
                            Ok(lock) => {
                                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "alone");
                                had.fetch_add(1, Ordering::SeqCst);
                                inside.fetch_sub(1, Ordering::SeqCst);
                                drop(lock);
                            }
                            Err(failure) => assert!(is_taken(&failure), "{failure:?}"),
                        }
                    }
                });
            }
        });
        assert!(had.into_inner() > 0, "the first one at least");
    }

    #[test]
    fn the_lock_of_another_stays() {
        let temp = tempfile::tempdir().expect("temp dir");
        let dir = temp.path().join("to");
        let first = Lock::take(&dir).expect("free");
        fs::remove_dir_all(&dir).expect("somebody removes it");
        let second = Lock::take(&dir).expect("free");
        drop(first);
        assert!(is_taken(&Lock::take(&dir).expect_err("the second has it")));
        drop(second);
        assert!(!dir.exists());
    }

    #[test]
    fn a_link_in_the_place_of_the_lock_is_an_error_and_no_endless_loop() {
        let temp = tempfile::tempdir().expect("temp dir");
        let (dir, elsewhere) = (temp.path().join("to"), temp.path().join("elsewhere"));
        fs::create_dir(&dir).expect("made");
        for to in [Path::new("/nowhere/at/all"), &elsewhere] {
            symlink(to, dir.join(LOCK)).expect("linked");
            let failure = Lock::take(&dir).expect_err("a link");
            assert!(matches!(&failure, Failure::File { action: "create", .. }), "{failure:?}");
            fs::remove_file(dir.join(LOCK)).expect("removed");
        }
        assert!(!elsewhere.exists(), "nothing is made behind a link");
        let nowhere = temp.path().join("dangling");
        symlink("/nowhere/at/all", &nowhere).expect("linked");
        let failure = Lock::take(&nowhere).expect_err("no directory");
        assert!(matches!(&failure, Failure::File { action: "create", .. }), "{failure:?}");
    }

    #[test]
    fn a_file_system_without_locks_is_said_to_be_one() {
        let said = no_locks(Path::new("/mnt/far"), &rustix::io::Errno::NOTSUP.into()).to_string();
        assert!(said.contains("the file system of /mnt/far gives none") && said.contains("copy the files"), "{said}");
    }
}
