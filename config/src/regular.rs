//! Files that an operator names. Opening a pipe would wait for somebody to write into it, and devices have no end, so neither
//! is opened.

use std::fs::{self, DirEntry, File};
use std::io;
use std::path::{Path, PathBuf};

/// Whether it is a regular file.
///
/// # Errors
/// The system does not say, or it is something else.
pub fn check(path: &Path) -> io::Result<()> {
    if fs::metadata(path)?.is_file() {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
    }
}

/// Opens a regular file.
///
/// # Errors
/// It cannot be opened, or as [`check`].
pub fn open(path: &Path) -> io::Result<File> {
    check(path)?;
    File::open(path)
}

/// What of a directory could not be listed.
#[derive(Debug)]
pub struct Unlisted {
    /// The directory, or an entry of it.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

/// Regular files below a directory, in the order of their paths. Hidden entries are not data, and links to directories could
/// loop: both are passed over.
///
/// # Errors
/// A directory cannot be listed.
pub fn below(directory: &Path) -> Result<Vec<PathBuf>, Unlisted> {
    let mut found = Vec::new();
    walk(directory, &mut found)?;
    found.sort();
    Ok(found)
}

fn walk(directory: &Path, out: &mut Vec<PathBuf>) -> Result<(), Unlisted> {
    let failed = |path: &Path, source| Unlisted { path: path.to_owned(), source };
    let entries = fs::read_dir(directory).and_then(Iterator::collect::<Result<Vec<DirEntry>, _>>);
    for entry in entries.map_err(|source| failed(directory, source))? {
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let path = entry.path();
        if entry.file_type().map_err(|source| failed(&path, source))?.is_dir() {
            walk(&path, out)?;
        } else if path.is_file() {
            out.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_devices_and_pipes_are_not_opened() {
        let dir = tempfile::tempdir().expect("temp dir");
        let pipe = dir.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
        assert!(made.success());
        for path in [dir.path(), Path::new("/dev/zero"), &pipe] {
            let said = open(path).expect_err("no file").to_string();
            assert_eq!(said, "it is not a regular file", "{}", path.display());
        }
        let file = dir.path().join("file");
        fs::write(&file, "").expect("written");
        assert!(open(&file).is_ok());
    }

    #[test]
    fn what_lies_below_comes_in_the_order_of_paths() {
        let dir = tempfile::tempdir().expect("temp dir");
        let at = |name: &str| dir.path().join(name);
        for sub in ["b", "b/c", ".git", "a.d"] {
            fs::create_dir(at(sub)).expect("made");
        }
        for file in ["b/c/2", "b/1", "a", "a.d/x", "z", ".hidden", ".git/config"] {
            fs::write(at(file), "").expect("written");
        }
        std::os::unix::fs::symlink(dir.path(), at("b/loop")).expect("linked");
        std::os::unix::fs::symlink(at("z"), at("link")).expect("linked");
        std::os::unix::fs::symlink(at("nothing"), at("broken")).expect("linked");
        let found = below(dir.path()).expect("listed");
        assert_eq!(found, ["a", "a.d/x", "b/1", "b/c/2", "link", "z"].map(at));
        assert_eq!(below(&at("none")).expect_err("not there").path, at("none"));
    }
}
