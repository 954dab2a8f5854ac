//! The directory that an export goes into, looked at before the cluster is asked to write anything.

use std::fs;
use std::path::{Path, PathBuf};

use super::aside::PART;
use crate::failure::Failure;

/// A directory that can take an export.
#[derive(Debug)]
pub struct Target {
    /// The directory, if it was made for this.
    made: Option<PathBuf>,
}

impl Target {
    /// Makes the directory unless it is there, and sees that files can be made in it. What lies there may only be an earlier
    /// export of the same form, whose files `is_ours` knows by name: readers take every file they find.
    ///
    /// # Errors
    /// If it cannot be made or written into, or holds anything else.
    pub fn prepare(dir: &Path, is_ours: impl Fn(&str) -> bool) -> Result<Self, Failure> {
        let made = (!dir.exists()).then(|| dir.to_owned());
        fs::create_dir_all(dir).map_err(Failure::file("create", dir))?;
        for entry in fs::read_dir(dir).map_err(Failure::file("read", dir))? {
            let name = entry.map_err(Failure::file("read", dir))?.file_name().to_string_lossy().into_owned();
            if !is_ours(&name) && !name.starts_with(PART) {
                return Err(Failure::Usage(format!(
                    "{} holds {name}, which is no file of this export: readers would take it for one; name a new or empty \
                     directory, or one with an earlier export of the same form, model and sizes of shards",
                    dir.display()
                )));
            }
        }
        tempfile::tempfile_in(dir).map_err(Failure::file("create a file in", dir))?;
        Ok(Self { made })
    }

    /// Nothing will be exported: a directory that was made for it goes again.
    pub fn give_up(&self) {
        if let Some(dir) = &self.made {
            // It may have been filled by somebody else, and is theirs then.
            let _ = fs::remove_dir(dir);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_directory_of_its_own_is_taken() {
        let temp = tempfile::tempdir().expect("temp dir");
        let names = |name: &str| ["a.json", "b.json"].contains(&name);
        let dir = temp.path().join("new/deep");
        Target::prepare(&dir, names).expect("made").give_up();
        assert!(!dir.exists(), "nothing is left of what was not exported");
        Target::prepare(&dir, names).expect("made");
        fs::write(dir.join("a.json"), "{}").expect("written");
        fs::write(dir.join(format!("{PART}killed")), "{}").expect("written");
        Target::prepare(&dir, names).expect("an earlier export").give_up();
        assert!(dir.join("a.json").exists());
        fs::write(dir.join("block000.weight.safetensors"), "").expect("written");
        let error = Target::prepare(&dir, names).expect_err("another form");
        assert_eq!(error.code(), 2);
        assert!(error.to_string().contains("holds block000.weight.safetensors"), "{error}");
        assert_eq!(Target::prepare(Path::new("/proc/foo"), names).expect_err("no such place").code(), 1);
    }
}
