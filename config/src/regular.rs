//! Files that an operator names. Opening a pipe would wait for somebody to write into it, and devices have no end, so neither
//! is opened.

use std::fs::{self, File};
use std::io;
use std::path::Path;

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
}
