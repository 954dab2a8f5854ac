//! The directory that an export goes into, looked at before the cluster is asked to write anything.
//!
//! CT-7 (alone): whoever has a file with a [`PART`] name in a directory has the lock of the directory. So such files that are there
//! when the lock is taken are of exports that were killed, and nobody's.

use std::fs;
use std::path::{Path, PathBuf};

use super::lock::{LOCK, Lock};
use crate::failure::Failure;

/// Begins the name of a file that is not complete.
pub(super) const PART: &str = ".part-";

/// A directory that takes an export, and no other one meanwhile.
#[derive(Debug)]
pub struct Target {
    dir: PathBuf,
    /// Held; never read.
    _lock: Lock,
}

impl Target {
    /// Makes the directory unless it is there, and sees that files can be made in it. What lies there may only be an earlier
    /// export of the same form, whose files `is_ours` knows by name: readers take every file they find. What killed exports
    /// left there unfinished is removed.
    ///
    /// # Errors
    /// If it cannot be made or written into, holds anything else, or another export goes into it.
    pub fn prepare(dir: &Path, is_ours: impl Fn(&str) -> bool) -> Result<Self, Failure> {
        let target = Self { _lock: Lock::take(dir)?, dir: dir.to_owned() };
        let mut leftovers = Vec::new();
        for entry in fs::read_dir(dir).map_err(Failure::file("read", dir))? {
            let name = entry.map_err(Failure::file("read", dir))?.file_name().to_string_lossy().into_owned();
            if name.starts_with(PART) {
                leftovers.extend((name != LOCK).then(|| dir.join(name)));
            } else if !is_ours(&name) {
                return Err(Failure::Usage(format!(
                    "{} holds {name}, which is no file of this export: readers would take it for one; name a new or empty \
                     directory, or one with an earlier export of the same model and tokenizer with the same --format, --dtype and \
                     --shard-size",
                    dir.display()
                )));
            }
        }
        for path in leftovers {
            fs::remove_file(&path).map_err(Failure::file("remove", path))?;
        }
        Ok(target)
    }

    /// The directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<String> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn is_ours(name: &str) -> bool {
        ["a.json", "b.json"].contains(&name)
    }

    #[test]
    fn only_a_directory_of_its_own_is_taken() {
        let temp = tempfile::tempdir().expect("temp dir");
        let dir = temp.path().join("new/deep");
        drop(Target::prepare(&dir, is_ours).expect("made"));
        assert!(!dir.exists(), "nothing is left of what was not exported");
        let target = Target::prepare(&dir, is_ours).expect("made");
        fs::write(dir.join("a.json"), "{}").expect("written");
        drop(target);
        assert_eq!(names(&dir), ["a.json"]);
        drop(Target::prepare(&dir, is_ours).expect("an earlier export"));
        fs::write(dir.join("block000.weight.safetensors"), "").expect("written");
        let error = Target::prepare(&dir, is_ours).expect_err("another form");
        assert_eq!(error.code(), 2);
        assert!(error.to_string().contains("holds block000.weight.safetensors"), "{error}");
        assert_eq!(names(&dir), ["a.json", "block000.weight.safetensors"]);
        assert_eq!(Target::prepare(Path::new("/proc/foo"), is_ours).expect_err("no such place").code(), 1);
    }

    /// CT-7 (alone).
    #[test]
    fn what_killed_exports_left_is_removed_and_their_lock_holds_nobody_back() {
        let temp = tempfile::tempdir().expect("temp dir");
        let dir = temp.path();
        for name in ["a.json", ".part-x", ".part-y", LOCK] {
            fs::write(dir.join(name), "4711\n").expect("written");
        }
        let target = Target::prepare(dir, is_ours).expect("nobody has the lock");
        assert_eq!(names(dir), [LOCK, "a.json"]);
        drop(target);
        assert_eq!(names(dir), ["a.json"]);
    }

    #[test]
    fn a_second_export_is_told_of_the_first_and_takes_nothing_from_it() {
        let temp = tempfile::tempdir().expect("temp dir");
        let dir = temp.path().join("to");
        let first = Target::prepare(&dir, is_ours).expect("free");
        fs::write(dir.join(".part-first"), "half").expect("written");
        let error = Target::prepare(&dir, is_ours).expect_err("taken");
        let said = error.to_string();
        assert!(
            error.code() == 1 && said.contains("was to go into") && said.contains("name another directory"),
            "{said}"
        );
        assert!(said.contains(&format!("(process {})", std::process::id())), "{said}");
        assert_eq!(names(&dir), [".part-first", LOCK]);
        drop(first);
        Target::prepare(&dir, is_ours).expect("free again");
    }
}
