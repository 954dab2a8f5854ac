//! The first copy: sled.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use shoal_wire::journal::{Entry, VERSION};

use super::StoreError;
use super::value::{self, Read};

/// An open database.
#[derive(Debug)]
pub(super) struct Database {
    path: PathBuf,
    db: sled::Db,
}

impl Database {
    /// Opens or makes it. One that does not open is first freed of half-written snapshots, then set aside and made anew;
    /// the second value says so.
    pub(super) fn open(path: &Path) -> Result<(Self, bool), StoreError> {
        let fault = |source| StoreError::File { path: path.to_owned(), source };
        let broken = |source| StoreError::Database { path: path.to_owned(), source };
        let first = match Self::try_open(path) {
            Ok(db) => return Ok((Self { path: path.to_owned(), db }, false)),
            Err(error) if is_outside(&error) => return Err(broken(error)),
            Err(error) => error,
        };
        tracing::warn!(path = %path.display(), error = %first, "database does not open, half-written snapshots are removed");
        remove_half_snapshots(path).map_err(fault)?;
        let second = match Self::try_open(path) {
            Ok(db) => return Ok((Self { path: path.to_owned(), db }, false)),
            Err(error) => error,
        };
        tracing::warn!(path = %path.display(), error = %second, "database does not open, it is rebuilt from the log");
        let aside = path.with_extension("unopenable");
        if aside.exists() {
            std::fs::remove_dir_all(&aside).or_else(|_| std::fs::remove_file(&aside)).map_err(fault)?;
        }
        std::fs::rename(path, &aside).map_err(fault)?;
        let db = Self::try_open(path).map_err(broken)?;
        Ok((Self { path: path.to_owned(), db }, true))
    }

    fn try_open(path: &Path) -> sled::Result<sled::Db> {
        // No flusher thread: what must be durable is flushed when it must be, and the rest at the next such moment.
        sled::Config::new().path(path).flush_every_ms(None).cache_capacity(16 << 20).open()
    }

    /// Every sound entry by key. A damaged value is left out: the log has it.
    pub(super) fn load(&self) -> Result<BTreeMap<Vec<u8>, Entry>, StoreError> {
        let mut entries = BTreeMap::new();
        for item in self.db.iter() {
            let (key, bytes) = item.map_err(|source| self.fault(source))?;
            match value::decode(&bytes) {
                Read::Entry(entry) => {
                    entries.insert(key.to_vec(), *entry);
                }
                Read::Version(found) => {
                    return Err(StoreError::Version { path: self.path.clone(), found, expected: VERSION });
                }
                Read::Damaged => {
                    tracing::warn!(path = %self.path.display(), ?key, "damaged value in the database, left to the log");
                }
            }
        }
        Ok(entries)
    }

    /// Puts an entry under its key.
    pub(super) fn insert(&self, entry: &Entry) -> Result<(), StoreError> {
        let bytes = value::encode(entry).map_err(StoreError::Encode)?;
        self.db.insert(entry.key(), bytes).map_err(|source| self.fault(source))?;
        Ok(())
    }

    /// Makes everything inserted durable: sled writes its buffers, and since it does not sync its file, that is done here.
    pub(super) fn flush(&self) -> Result<(), StoreError> {
        self.db.flush().map_err(|source| self.fault(source))?;
        let path = self.path.join("db");
        File::open(&path).and_then(|file| file.sync_data()).map_err(|source| StoreError::File { path, source })
    }

    /// To be called before it is dropped though something could not be written: sled flushes what it has when its last
    /// handle goes, and on a disk that takes nothing it waits for that for ever. With one handle forgotten it does not.
    pub(super) fn never_close(&self) {
        std::mem::forget(self.db.clone());
    }

    fn fault(&self, source: sled::Error) -> StoreError {
        StoreError::Database { path: self.path.clone(), source }
    }
}

/// Whether it is the system that refuses, and the database may be sound.
fn is_outside(error: &sled::Error) -> bool {
    use std::io::ErrorKind;
    let sled::Error::Io(error) = error else { return false };
    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::StorageFull | ErrorKind::ReadOnlyFilesystem)
}

/// A `snap.*.generating` left by an interrupted process can keep a database from opening (spacejam/sled issue 1527).
fn remove_half_snapshots(path: &Path) -> std::io::Result<()> {
    if !path.is_dir() {
        return Ok(());
    }
    for file in std::fs::read_dir(path)? {
        let file = file?;
        let name = file.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("snap.") && name.ends_with(".generating") {
            std::fs::remove_file(file.path())?;
        }
    }
    Ok(())
}
