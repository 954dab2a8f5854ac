//! The directory that data is prepared in, and what an earlier run left there.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use shoal_plan::ids::Digest;

use super::PrepareError;
use crate::durable;
use crate::manifest::{self, Manifest};

/// What is not finished lies here.
const ASIDE: &str = ".prepare";
const LOCK: &str = "lock";
/// Digest of the request that is being worked on.
const REQUEST: &str = "request";
/// What all units hold, once all are done.
const COUNTS: &str = "counts.json";

/// The directory, ours alone while this lives.
#[derive(Debug)]
pub(super) struct Place {
    out: PathBuf,
    aside: PathBuf,
    _lock: File,
}

/// What is there.
#[derive(Debug)]
pub(super) enum Standing {
    /// Nothing.
    Empty,
    /// A part of what is asked.
    Begun,
    /// All that is asked.
    Done(Box<Manifest>),
}

/// What a unit came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Count {
    pub(super) documents: u64,
    pub(super) skipped: u64,
    pub(super) tokens: u64,
}

impl Place {
    /// Makes the directory, if need be, and takes it.
    pub(super) fn take(out: &Path) -> Result<Self, PrepareError> {
        let aside = out.join(ASIDE);
        fs::create_dir_all(&aside).map_err(PrepareError::file("create", &aside))?;
        let path = aside.join(LOCK);
        let lock = File::create(&path).map_err(PrepareError::file("create", &path))?;
        let busy = || PrepareError::Busy { out: out.to_owned() };
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
            Errno::WOULDBLOCK => busy(),
            _ => PrepareError::file("lock", &path)(error.into()),
        })?;
        // Whoever had it before may have removed it meanwhile: then the next one finds another.
        let (ours, there) = (lock.metadata(), fs::metadata(&path));
        if !matches!((ours, there), (Ok(ours), Ok(there)) if ours.ino() == there.ino()) {
            return Err(busy());
        }
        let place = Self { out: out.to_owned(), aside, _lock: lock };
        place.look()?;
        Ok(place)
    }

    /// Refuses a directory of something else, before anything is read for it.
    fn look(&self) -> Result<(), PrepareError> {
        if self.out.join(manifest::FILE).exists() {
            return Ok(Manifest::read(&self.out).map(|_| ())?);
        }
        let failed = PrepareError::file("list", &self.out);
        let entries = fs::read_dir(&self.out).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(failed)?;
        if !self.aside(REQUEST).exists() && entries.iter().any(|entry| entry.file_name() != ASIDE) {
            return Err(PrepareError::NotEmpty { out: self.out.clone() });
        }
        Ok(())
    }

    pub(super) fn out(&self) -> &Path {
        &self.out
    }

    /// A file that does not count yet.
    pub(super) fn aside(&self, name: &str) -> PathBuf {
        self.aside.join(name)
    }

    /// The file of a unit.
    pub(super) fn unit(&self, index: usize) -> PathBuf {
        self.aside.join(format!("unit_{index:06}"))
    }

    /// What an earlier run left.
    pub(super) fn standing(&self, request: &Digest) -> Result<Standing, PrepareError> {
        let other = |what| PrepareError::Other { out: self.out.clone(), what };
        if self.out.join(manifest::FILE).exists() {
            let (manifest, _) = Manifest::read(&self.out)?;
            return if manifest.request == request.to_hex() {
                Ok(Standing::Done(manifest.into()))
            } else {
                Err(other("shards"))
            };
        }
        if let Ok(begun) = fs::read_to_string(self.aside(REQUEST)) {
            return if begun == request.to_hex() {
                Ok(Standing::Begun)
            } else {
                Err(other("an unfinished preparation"))
            };
        }
        Ok(Standing::Empty)
    }

    /// Says what is being worked on.
    pub(super) fn begin(&self, request: &Digest) -> Result<(), PrepareError> {
        self.put(REQUEST, &self.aside(REQUEST), request.to_hex().as_bytes())?;
        durable::directory(&self.out).map_err(PrepareError::file("write", &self.out))
    }

    /// Writes a small file as a whole.
    pub(super) fn put(&self, name: &str, to: &Path, bytes: &[u8]) -> Result<(), PrepareError> {
        let failed = |source| PrepareError::file("write", to)(source);
        durable::write(&self.aside(&format!("{name}.part")), to, failed, |file| file.write_all(bytes).map_err(failed))
    }

    /// What all units hold, if all were done.
    pub(super) fn counts(&self, units: usize) -> Result<Option<Vec<Count>>, PrepareError> {
        let path = self.aside(COUNTS);
        if !path.exists() {
            return Ok(None);
        }
        let bytes = fs::read(&path).map_err(PrepareError::file("read", &path))?;
        let counts: Vec<Count> =
            serde_json::from_slice(&bytes).map_err(|error| PrepareError::file("read", &path)(error.into()))?;
        Ok(Some(counts).filter(|counts| counts.len() == units))
    }

    /// All units are done.
    pub(super) fn count(&self, counts: &[Count]) -> Result<(), PrepareError> {
        let bytes = serde_json::to_vec(counts).expect("PR-4 (counts are plain data)");
        self.put(COUNTS, &self.aside(COUNTS), &bytes)
    }

    /// Removes what was needed on the way.
    pub(super) fn clear(&self) -> Result<(), PrepareError> {
        fs::remove_dir_all(&self.aside).map_err(PrepareError::file("remove", &self.aside))
    }
}

impl Drop for Place {
    /// Not even what was made to look is left where nothing was begun; a file in it would say so by itself.
    fn drop(&mut self) {
        if !self.aside(REQUEST).exists() {
            let _ = fs::remove_file(self.aside(LOCK)).and_then(|()| fs::remove_dir(&self.aside));
        }
    }
}
