//! A text that an operator names: a regular file, UTF-8, of bounded length.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Why there is no text.
#[derive(Debug, thiserror::Error)]
pub enum TextFileError {
    /// Nothing to read.
    #[error("{} cannot be read: {source}", path.display())]
    Read {
        /// As named.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A directory, a device or a pipe.
    #[error("{} is no file; a text for the job's tokenizer is one file, or use `data prepare`", path.display())]
    NoFile {
        /// As named.
        path: PathBuf,
    },
    /// More than is held at once.
    #[error("{} has more than the {most} bytes that a text may have; use `data prepare` on it", path.display())]
    Long {
        /// As named.
        path: PathBuf,
        /// Bytes allowed.
        most: u64,
    },
    /// Bytes that are no text.
    #[error("{} is no text: byte {at} is not UTF-8; tokens in a file need --kind nanogpt or --kind llmc", path.display())]
    NotText {
        /// As named.
        path: PathBuf,
        /// Of the first byte that is none.
        at: usize,
    },
}

/// Reads it.
///
/// # Errors
/// It is not there, no regular file, longer than `most` bytes, or not UTF-8.
pub fn read(path: &Path, most: u64) -> Result<String, TextFileError> {
    let failed = |source| TextFileError::Read { path: path.to_owned(), source };
    // A pipe must not be opened: that waits for whoever writes into it.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(TextFileError::NoFile { path: path.to_owned() });
    }
    let mut bytes = Vec::new();
    File::open(path).map_err(failed)?.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > most {
        return Err(TextFileError::Long { path: path.to_owned(), most });
    }
    String::from_utf8(bytes)
        .map_err(|error| TextFileError::NotText { path: path.to_owned(), at: error.utf8_error().valid_up_to() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_text_of_bounded_length_is_read() {
        let dir = tempfile::tempdir().expect("temp dir");
        let file = dir.path().join("a.txt");
        std::fs::write(&file, "abcdef").expect("written");
        assert_eq!(read(&file, 6).expect("a text"), "abcdef");
        let said = |path: &Path, most| read(path, most).expect_err("refused").to_string();
        assert!(said(&file, 5).contains("more than the 5 bytes"));
        std::fs::write(&file, b"abc\xff").expect("written");
        assert!(said(&file, 5).contains("byte 3 is not UTF-8; tokens in a file need --kind"));
        assert!(said(dir.path(), 5).contains("is no file") && said(Path::new("/dev/zero"), 5).contains("is no file"));
        assert!(said(&dir.path().join("none"), 5).contains("cannot be read"));
    }
}
