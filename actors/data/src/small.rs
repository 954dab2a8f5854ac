//! Files that are read as a whole, because they are small.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// Bytes of a manifest (a million sources) or of a tokenizer's file, at most.
pub(crate) const MOST: u64 = 256 << 20;

/// Why there are no bytes.
#[derive(Debug)]
pub(crate) enum Unread {
    /// The system does not give them.
    Read(io::Error),
    /// It is something else.
    Other(String),
}

/// All of a regular file. Whatever else a path names is not even opened: a pipe would wait for somebody to write.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Unread> {
    let meta = fs::metadata(path).map_err(Unread::Read)?;
    if !meta.is_file() {
        return Err(Unread::Other("it is not a regular file".to_owned()));
    }
    let much = |found: u64| Unread::Other(format!("it has {found} bytes; allowed: at most {MOST}"));
    if meta.len() > MOST {
        return Err(much(meta.len()));
    }
    let mut bytes = Vec::with_capacity(meta.len() as usize);
    File::open(path).and_then(|file| file.take(MOST + 1).read_to_end(&mut bytes)).map_err(Unread::Read)?;
    if bytes.len() as u64 > MOST { Err(much(bytes.len() as u64)) } else { Ok(bytes) }
}
