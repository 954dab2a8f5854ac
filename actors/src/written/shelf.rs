//! The part of a data directory where pieces are kept, by job and version.
//!
//! WR-1 (names do not run out): a version is written again under the next number that is free.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use shoal_plan::blocks::ModelTable;
use shoal_plan::digest::PieceLeaves;
use shoal_plan::ids::{BlockId, JobId};
use shoal_plan::ledger::Version;
use shoal_plan::space::{Interval, Kind};
use shoal_wire::api::NodeReport;
use shoal_wire::control::WrittenPiece;

use super::known::Known;
use super::manifest::{FORMAT, Manifest};
use super::piece::{self, PieceData};
use super::{KEPT_VERSIONS, MAX_ANSWER_BYTES, WrittenError};

/// Written pieces of one data directory. Every method blocks on the disk.
#[derive(Clone, Debug)]
pub struct Shelf {
    root: PathBuf,
    known: Known,
}

impl Shelf {
    /// The shelf of a data directory; what a killed process left half written is removed.
    ///
    /// # Errors
    /// If the directory cannot be made or read.
    pub fn open(data_dir: &Path) -> Result<Self, WrittenError> {
        let root = data_dir.join("jobs");
        fs::create_dir_all(&root).map_err(WrittenError::write(&root))?;
        let shelf = Self { root, known: Known::default() };
        for job in shelf.jobs()? {
            for (path, name) in entries(&shelf.directory(job))? {
                if name.ends_with(UNFINISHED) {
                    remove(&path)?;
                }
            }
        }
        Ok(shelf)
    }

    /// Jobs that something is written for, ascending.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn jobs(&self) -> Result<Vec<JobId>, WrittenError> {
        let mut jobs: Vec<_> = entries(&self.root)?
            .into_iter()
            .filter_map(|(_, name)| name.strip_prefix('j')?.parse().ok().map(JobId))
            .collect();
        jobs.sort_unstable();
        Ok(jobs)
    }

    /// Writes pieces durably; when this returns they survive a power loss. Written again, a version is replaced.
    ///
    /// # Errors
    /// If something cannot be written; then nothing has changed.
    pub fn write(
        &self,
        job: JobId,
        table: &ModelTable,
        version: Version,
        pieces: &[PieceData],
    ) -> Result<Vec<PieceLeaves>, WrittenError> {
        let home = self.directory(job);
        let name = format!("{:012}-{}", version.step, &version.chain.to_hex()[..16]);
        let before: Vec<PathBuf> =
            entries(&home)?.into_iter().filter(|(_, found)| found.starts_with(&name)).map(|(path, _)| path).collect();
        // Written again under a name of its own, so that what was durable stays so until this is.
        let names = std::iter::once(name.clone()).chain((1..).map(|again| format!("{name}.{again}")));
        let last = names.map(|name| home.join(name)).find(|path| !path.exists()).expect("WR-1 (names do not run out)");
        let draft = home.join(format!("{name}{UNFINISHED}"));
        fs::create_dir_all(&home).map_err(WrittenError::write(&home))?;
        remove(&draft)?;
        fs::create_dir(&draft).map_err(WrittenError::write(&draft))?;
        let mut files = Vec::with_capacity(pieces.len());
        for data in pieces {
            files.push(data.write(&draft, table)?);
        }
        let manifest = Manifest { format: FORMAT, version, files };
        write_json(&draft.join(MANIFEST), &manifest)?;
        sync(&draft)?;
        fs::rename(&draft, &last).map_err(WrittenError::write(&last))?;
        sync(&home)?;
        before.iter().try_for_each(|path| remove(path))?;
        sync(&self.root)?;
        self.forget_old(job)?;
        Ok(manifest.files.into_iter().flat_map(|file| file.leaves).collect())
    }

    /// What is written for a job, oldest version first.
    ///
    /// # Errors
    /// If nothing is, or it cannot be read.
    pub fn manifest(&self, job: JobId) -> Result<Vec<WrittenPiece>, WrittenError> {
        let manifests = self.manifests(job)?;
        if manifests.is_empty() {
            return Err(WrittenError::NoJob { job });
        }
        Ok(manifests.iter().flat_map(|(_, manifest)| manifest.pieces()).collect())
    }

    /// Some elements as little-endian f32; they must lie in one written piece.
    ///
    /// # Errors
    /// If they are not here, too many for one answer, or cannot be read.
    pub fn read(
        &self,
        job: JobId,
        step: u64,
        (block, kind, interval): (BlockId, Kind, Interval),
    ) -> Result<Vec<u8>, WrittenError> {
        if interval.len() * 4 > MAX_ANSWER_BYTES {
            return Err(WrittenError::TooMuch { interval, max: MAX_ANSWER_BYTES });
        }
        for (path, manifest) in self.manifests(job)?.iter().rev().filter(|(_, m)| m.version.step == step) {
            if let Some((entry, held)) = manifest.file_of(block, kind, interval) {
                return piece::read(&path.join(&entry.name), held, kind, interval);
            }
        }
        Err(WrittenError::NotHere { job, step, block, kind, interval })
    }

    /// Keeps a job's counters.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn write_report(&self, job: JobId, report: &NodeReport) -> Result<(), WrittenError> {
        let home = self.directory(job);
        fs::create_dir_all(&home).map_err(WrittenError::write(&home))?;
        let draft = home.join(format!("{REPORT}{UNFINISHED}"));
        write_json(&draft, report)?;
        let last = home.join(REPORT);
        fs::rename(&draft, &last).map_err(WrittenError::write(&last))?;
        sync(&home)
    }

    /// A job's counters, as last kept.
    ///
    /// # Errors
    /// If there are none or they cannot be read.
    pub fn report(&self, job: JobId) -> Result<NodeReport, WrittenError> {
        let path = self.directory(job).join(REPORT);
        if !path.exists() {
            return Err(WrittenError::NoJob { job });
        }
        read_json(&path)
    }

    fn directory(&self, job: JobId) -> PathBuf {
        self.root.join(job.to_string())
    }

    /// Complete versions of a job with their directories, oldest first.
    fn manifests(&self, job: JobId) -> Result<Vec<(PathBuf, Arc<Manifest>)>, WrittenError> {
        let mut found = Vec::new();
        for (path, name) in entries(&self.directory(job))? {
            if path.is_dir() && !name.ends_with(UNFINISHED) {
                let file = path.join(MANIFEST);
                let manifest = self.known.get(&file, || read_json(&file))?;
                if manifest.format != FORMAT {
                    let found = format!("its form is {}, this program reads {FORMAT}", manifest.format);
                    return Err(WrittenError::Damaged { path: file, found });
                }
                found.push((path, manifest));
            }
        }
        found.sort_by_key(|(path, manifest)| (manifest.version.step, path.clone()));
        Ok(found)
    }

    fn forget_old(&self, job: JobId) -> Result<(), WrittenError> {
        let manifests = self.manifests(job)?;
        let over = manifests.len().saturating_sub(KEPT_VERSIONS);
        manifests[..over].iter().try_for_each(|(path, _)| remove(path))
    }
}

const MANIFEST: &str = "manifest.json";
const REPORT: &str = "report.json";
/// Ends the name of what is not complete.
const UNFINISHED: &str = ".unfinished";

/// Paths and names in a directory; none if it is not there.
fn entries(directory: &Path) -> Result<Vec<(PathBuf, String)>, WrittenError> {
    let listed = match fs::read_dir(directory) {
        Ok(listed) => listed,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(WrittenError::read(directory)(source)),
    };
    listed
        .map(|entry| {
            let entry = entry.map_err(WrittenError::read(directory))?;
            Ok((entry.path(), entry.file_name().to_string_lossy().into_owned()))
        })
        .collect()
}

fn remove(path: &Path) -> Result<(), WrittenError> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(WrittenError::write(path)(source)),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn sync(directory: &Path) -> Result<(), WrittenError> {
    File::open(directory).and_then(|d| d.sync_all()).map_err(WrittenError::write(directory))
}

fn write_json<T: serde::Serialize>(path: &Path, value: &T) -> Result<(), WrittenError> {
    let bytes = serde_json::to_vec_pretty(value)
        .map_err(|e| WrittenError::Damaged { path: path.to_owned(), found: e.to_string() })?;
    fs::write(path, bytes).and_then(|()| File::open(path)?.sync_all()).map_err(WrittenError::write(path))
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, WrittenError> {
    let bytes = fs::read(path).map_err(WrittenError::read(path))?;
    serde_json::from_slice(&bytes).map_err(|e| WrittenError::Damaged { path: path.to_owned(), found: e.to_string() })
}
