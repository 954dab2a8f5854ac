//! Files that are there as a whole or not at all.

use std::fs::{self, File, Permissions};
use std::io::{BufWriter, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::{NamedTempFile, TempPath};

use super::target::{PART, Target};
use crate::failure::Failure;

/// A file that gets its name only when all files of its export are complete; dropped before, it leaves nothing.
#[derive(Debug)]
pub struct Aside<'t> {
    target: &'t Target,
    name: String,
    file: BufWriter<NamedTempFile>,
}

/// A file that is complete and durable, and has yet to get its name.
#[derive(Debug)]
pub struct Complete<'t> {
    target: &'t Target,
    name: String,
    file: TempPath,
}

impl<'t> Aside<'t> {
    /// Begins to write what will be this file of a directory.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub fn begin(target: &'t Target, name: &str) -> Result<Self, Failure> {
        let file = tempfile::Builder::new()
            .prefix(PART)
            .permissions(Permissions::from_mode(0o644))
            .tempfile_in(target.dir())
            .map_err(Failure::file("create a file in", target.dir()))?;
        Ok(Self { target, name: name.to_owned(), file: BufWriter::with_capacity(1 << 20, file) })
    }

    /// Appends.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.file.write_all(bytes).map_err(Failure::file("write", self.target.dir().join(&self.name)))
    }

    /// Makes it durable.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn complete(self) -> Result<Complete<'t>, Failure> {
        let Self { target, name, file } = self;
        let failed = |error| Failure::file("write", target.dir().join(&name))(error);
        let file = file.into_inner().map_err(|error| failed(error.into_error()))?;
        file.as_file().sync_all().map_err(failed)?;
        Ok(Complete { target, name, file: file.into_temp_path() })
    }
}

/// Gives all files of an export their names, in place of older ones. Readers look for the files `first` before any other: those go
/// before the others come, and come when the others are there, so that nobody finds files of two exports and takes them for one;
/// not after the power was cut either, so each of the three is durable before the next.
///
/// # Errors
/// If one cannot be given its name.
pub fn publish(files: Vec<Complete<'_>>, first: &[&str]) -> Result<(), Failure> {
    let (heads, others): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| first.contains(&file.name.as_str()));
    let Some(dir) = heads.first().or(others.first()).map(|any| any.target.dir()) else { return Ok(()) };
    for path in first.iter().map(|name| dir.join(name)) {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(Failure::file("remove", path)(error)),
            Ok(()) | Err(_) => {}
        }
    }
    durable(dir)?;
    for files in [others, heads] {
        for Complete { name, file, .. } in files {
            let path = dir.join(name);
            file.persist(&path).map_err(|error| Failure::file("write", path)(error.error))?;
        }
        durable(dir)?;
    }
    Ok(())
}

/// Makes the names in a directory durable, where the file system has a way to.
fn durable(dir: &Path) -> Result<(), Failure> {
    match File::open(dir).and_then(|dir| dir.sync_all()) {
        Err(error) if ![ErrorKind::InvalidInput, ErrorKind::Unsupported].contains(&error.kind()) => {
            Err(Failure::file("write", dir)(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_there_when_all_are_complete() {
        let temp = tempfile::tempdir().expect("temp dir");
        let dir = temp.path().join("new/deep");
        let target = Target::prepare(&dir, |_| false).expect("a directory");
        let write = |name, bytes: &[u8]| {
            let mut file = Aside::begin(&target, name).expect("begin");
            file.write(bytes).expect("write");
            file.complete().expect("complete")
        };
        let files = vec![write("head", b"first"), write("a.txt", b"all of it")];
        assert!(!dir.join("a.txt").exists() && !dir.join("head").exists());
        publish(files, &["head"]).expect("named");
        assert_eq!(fs::read(dir.join("a.txt")).expect("read"), b"all of it");
        assert_eq!(fs::read(dir.join("head")).expect("read"), b"first");
        drop((Aside::begin(&target, "b.txt").expect("begin"), write("c.txt", b"")));
        drop(target);
        assert_eq!(fs::read_dir(&dir).expect("list").count(), 2, "nothing is left aside");
    }

    /// An export that ends between two names leaves nothing that readers take for a whole one.
    #[test]
    fn without_all_the_others_there_is_no_head() {
        let temp = tempfile::tempdir().expect("temp dir");
        let target = Target::prepare(temp.path(), |_| false).expect("a directory");
        fs::write(temp.path().join("head"), "of an older one").expect("written");
        let other = Aside::begin(&target, "other").expect("begin").complete().expect("complete");
        let head = Aside::begin(&target, "head").expect("begin").complete().expect("complete");
        fs::create_dir(temp.path().join("other")).expect("in its way");
        publish(vec![head, other], &["head"]).expect_err("no name for it");
        assert!(!temp.path().join("head").exists());
    }
}
