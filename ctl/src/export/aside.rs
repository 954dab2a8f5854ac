//! Files that are there as a whole or not at all.

use std::fs::{self, Permissions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::failure::Failure;

/// Begins the name of a file that is not complete.
pub(super) const PART: &str = ".part-";

/// A file that gets its name only when it is complete; dropped before, it leaves nothing.
#[derive(Debug)]
pub struct Aside {
    path: PathBuf,
    file: BufWriter<NamedTempFile>,
}

impl Aside {
    /// Begins to write what will be `dir/name`.
    ///
    /// # Errors
    /// If the directory or the file cannot be made.
    pub fn begin(dir: &Path, name: &str) -> Result<Self, Failure> {
        fs::create_dir_all(dir).map_err(Failure::file("create", dir))?;
        let path = dir.join(name);
        let file = tempfile::Builder::new()
            .prefix(PART)
            .permissions(Permissions::from_mode(0o644))
            .tempfile_in(dir)
            .map_err(Failure::file("create a file in", dir))?;
        Ok(Self { path, file: BufWriter::with_capacity(1 << 20, file) })
    }

    /// Whether this will be its name.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        self.path.file_name().is_some_and(|own| own == name)
    }

    /// Appends.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.file.write_all(bytes).map_err(Failure::file("write", &self.path))
    }

    /// Makes it durable and gives it its name, in place of an older file of that name.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(self) -> Result<PathBuf, Failure> {
        let Self { path, file } = self;
        let file = file.into_inner().map_err(|error| Failure::file("write", &path)(error.into_error()))?;
        file.as_file().sync_all().map_err(Failure::file("write", &path))?;
        file.persist(&path).map_err(|error| Failure::file("write", &path)(error.error))?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_there_when_it_is_complete() {
        let dir = tempfile::tempdir().expect("temp dir");
        let target = dir.path().join("new/deep");
        let mut file = Aside::begin(&target, "a.txt").expect("begin");
        file.write(b"all of it").expect("write");
        assert!(!target.join("a.txt").exists());
        assert_eq!(fs::read(file.finish().expect("finish")).expect("read"), b"all of it");
        drop(Aside::begin(&target, "b.txt").expect("begin"));
        assert_eq!(fs::read_dir(&target).expect("list").count(), 1, "nothing is left aside");
    }
}
