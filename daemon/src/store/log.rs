//! The second copy: a file of entries, each behind its length, ending where the first unsound one begins.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use shoal_wire::journal::{Entry, VERSION};

use super::StoreError;
use super::value::{self, Read};

/// No entry is larger; a length beyond it is damage.
const MAX_ENTRY_BYTES: usize = 64 << 20;
const LENGTH: usize = 4;

/// An open log.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    file: File,
}

impl Log {
    /// Opens or makes the file; returns its entries and how many bytes of a torn end were cut off.
    pub(super) fn open(path: &Path) -> Result<(Self, Vec<Entry>, u64), StoreError> {
        let fault = |source| StoreError::File { path: path.to_owned(), source };
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(fault)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(fault)?;
        let (entries, sound) =
            scan(&bytes).map_err(|found| StoreError::Version { path: path.to_owned(), found, expected: VERSION })?;
        let cut = (bytes.len() - sound) as u64;
        if cut > 0 {
            file.set_len(sound as u64).map_err(fault)?;
        }
        file.seek(SeekFrom::Start(sound as u64)).map_err(fault)?;
        if let Some(parent) = path.parent() {
            // The file's name must survive too.
            File::open(parent).and_then(|dir| dir.sync_all()).map_err(fault)?;
        }
        Ok((Self { path: path.to_owned(), file }, entries, cut))
    }

    /// Writes an entry behind the others.
    pub(super) fn append(&mut self, entry: &Entry) -> Result<(), StoreError> {
        let body = value::encode(entry).map_err(StoreError::Encode)?;
        let mut frame = (body.len() as u32).to_le_bytes().to_vec();
        frame.extend_from_slice(&body);
        self.file.write_all(&frame).map_err(|source| StoreError::File { path: self.path.clone(), source })
    }

    /// Makes everything written durable.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        self.file.sync_data().map_err(|source| StoreError::File { path: self.path.clone(), source })
    }

    /// A second handle, to sync without holding up writers.
    pub(super) fn handle(&self) -> Result<Self, StoreError> {
        let fault = |source| StoreError::File { path: self.path.clone(), source };
        Ok(Self { path: self.path.clone(), file: self.file.try_clone().map_err(fault)? })
    }
}

/// The sound entries at the beginning, and how many bytes they take. An entry of another version is an error, not damage:
/// it must not be cut off.
fn scan(bytes: &[u8]) -> Result<(Vec<Entry>, usize), u16> {
    let mut entries = Vec::new();
    let mut at = 0;
    while let Some(prefix) = bytes[at..].first_chunk::<LENGTH>() {
        let length = u32::from_le_bytes(*prefix) as usize;
        let Some(body) = bytes.get(at + LENGTH..at + LENGTH + length).filter(|_| length <= MAX_ENTRY_BYTES) else {
            break;
        };
        match value::decode(body) {
            Read::Entry(entry) => entries.push(*entry),
            Read::Version(found) => return Err(found),
            Read::Damaged => break,
        }
        at += LENGTH + length;
    }
    Ok((entries, at))
}
