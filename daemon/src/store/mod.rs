//! The coordinator's journal on disk: a sled database, and beside it a plain log of the same entries.
//!
//! ```text
//! <dir>/sled/      key -> version, checksum, postcard of the newest entry of that key
//! <dir>/log        every entry in order, framed and checksummed: `log`
//! ```
//!
//! sled 0.34 "flushes" with `sync_file_range` only, which reaches neither the disk's cache nor the file's metadata, so
//! [`Store::flush`] syncs the database's file itself. And a database that was interrupted at a bad moment may refuse to
//! open (spacejam/sled issues 1527 and 1533), so it can always be rebuilt from the log.
//!
//! ST-1 (twice kept): after `open`, both hold the same newest entry of every key.
//! ST-2 (log first): an entry is appended to the log before the database has it.

mod database;
mod log;
mod merge;
mod value;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use shoal_actors::coordinator::{Journal, JournalError};
use shoal_wire::journal::Entry;

use self::database::Database;
use self::log::Log;

/// Why the store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The directory or a file in it.
    #[error("{path} cannot be used")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The database.
    #[error("the database in {path} cannot be used")]
    Database {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: sled::Error,
    },
    /// An entry has no binary form.
    #[error("an entry cannot be encoded")]
    Encode(#[source] postcard::Error),
    /// A value that was written by a newer or older release.
    #[error("{path} holds entries of version {found}, this release reads version {expected}")]
    Version {
        /// Where.
        path: PathBuf,
        /// What is there.
        found: u16,
        /// What is understood.
        expected: u16,
    },
}

/// What had to be mended at `open`. All zero after a clean stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mended {
    /// The database could not be opened and was made anew.
    pub database_rebuilt: bool,
    /// Bytes of a torn end that were cut off the log.
    pub log_bytes_cut: u64,
    /// Entries that the database lacked, or had an older one of.
    pub to_database: usize,
    /// Entries that the log lacked, or had an older one of.
    pub to_log: usize,
}

/// The journal on disk. One process at a time: the caller holds the directory's lock.
#[derive(Debug)]
pub struct Store {
    database: Database,
    log: Mutex<Log>,
    mended: Mended,
}

impl Store {
    /// Opens or makes the store in `dir`, and makes both copies equal.
    ///
    /// # Errors
    /// If a file cannot be read or written, or was written by another release.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        std::fs::create_dir_all(dir).map_err(|source| StoreError::File { path: dir.to_owned(), source })?;
        let (mut log, logged, log_bytes_cut) = Log::open(&dir.join("log"))?;
        let (database, database_rebuilt) = Database::open(&dir.join("sled"))?;
        let mut mended = Mended { database_rebuilt, log_bytes_cut, ..Mended::default() };

        let logged: BTreeMap<Vec<u8>, Entry> = logged.into_iter().map(|entry| (entry.key(), entry)).collect();
        let kept = database.load()?;
        let missing = merge::missing(&logged, &kept);
        missing.in_database.iter().try_for_each(|entry| database.insert(entry))?;
        missing.in_log.iter().try_for_each(|entry| log.append(entry))?;
        (mended.to_database, mended.to_log) = (missing.in_database.len(), missing.in_log.len());
        if mended != Mended::default() {
            log.sync()?;
            database.flush()?;
        }
        Ok(Self { database, log: Mutex::new(log), mended })
    }

    /// What had to be mended when it was opened.
    #[must_use]
    pub fn mended(&self) -> Mended {
        self.mended
    }

    /// What could not be written must not be waited for when this is dropped.
    fn minded(&self, outcome: Result<(), StoreError>) -> Result<(), StoreError> {
        outcome.inspect_err(|_| self.database.never_close())
    }

    fn log(&self) -> std::sync::MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Journal for Store {
    fn load(&self) -> Result<Vec<Entry>, JournalError> {
        let entries = self.database.load().map_err(|e| JournalError::Load(Box::new(e)))?;
        Ok(entries.into_values().collect())
    }

    fn append(&self, entry: &Entry) -> Result<(), JournalError> {
        // ST-2 (log first).
        let appended = self.log().append(entry).and_then(|()| self.database.insert(entry));
        self.minded(appended).map_err(|e| JournalError::Append(Box::new(e)))
    }

    fn flush(&self) -> Result<(), JournalError> {
        // A handle of its own, so that appends go on while the disk works.
        let log = self.log().handle();
        let flushed = log.and_then(|log| log.sync()).and_then(|()| self.database.flush());
        self.minded(flushed).map_err(|e| JournalError::Flush(Box::new(e)))
    }
}
