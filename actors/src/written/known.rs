//! Manifests that were read before. One of a large model has a digest for every few thousand elements, and every answer of a
//! few of them needs it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::WrittenError;
use super::manifest::Manifest;

/// Manifests by path, each as of a stamp of its file. Shared by all copies of a shelf.
#[derive(Clone, Debug, Default)]
pub(super) struct Known(Arc<Mutex<Manifests>>);

type Manifests = BTreeMap<PathBuf, (Stamp, Arc<Manifest>)>;

/// Inode, bytes, and time of the last change.
type Stamp = (u64, u64, i64, i64);

impl Known {
    /// The manifest in a file, which `read` reads if it is new here or was changed.
    pub(super) fn get(
        &self,
        file: &Path,
        read: impl FnOnce() -> Result<Manifest, WrittenError>,
    ) -> Result<Arc<Manifest>, WrittenError> {
        let meta = fs::metadata(file).map_err(WrittenError::read(file))?;
        let stamp = (meta.ino(), meta.len(), meta.ctime(), meta.ctime_nsec());
        if let Some((as_of, manifest)) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(file)
            && *as_of == stamp
        {
            return Ok(Arc::clone(manifest));
        }
        let manifest = Arc::new(read()?);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|path, _| path.exists());
        known.insert(file.to_owned(), (stamp, Arc::clone(&manifest)));
        Ok(manifest)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use shoal_plan::ids::Digest;
    use shoal_plan::ledger::Version;

    use super::*;
    use crate::written::manifest::FORMAT;

    #[test]
    fn a_manifest_is_read_again_only_if_its_file_was_changed() {
        let dir = tempfile::tempdir().expect("temp dir");
        let file = dir.path().join("manifest.json");
        let (known, reads) = (Known::default(), Cell::new(0));
        let get = || {
            known.get(&file, || {
                reads.set(reads.get() + 1);
                let version = Version { step: reads.get(), chain: Digest::default() };
                Ok(Manifest { format: FORMAT, version, files: Vec::new() })
            })
        };
        assert!(get().is_err(), "there is none");
        fs::write(&file, "{}").expect("written");
        assert_eq!((get().expect("read").version.step, get().expect("known").version.step), (1, 1));
        fs::write(&file, "{ }").expect("written");
        assert_eq!(get().expect("read again").version.step, 2);
    }
}
