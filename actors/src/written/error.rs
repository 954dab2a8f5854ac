//! What can go wrong with pieces on disk.

use std::io;
use std::path::{Path, PathBuf};

use shoal_plan::ids::{BlockId, JobId};
use shoal_plan::space::{Interval, Kind};

/// What was asked, what was found.
#[derive(Debug, thiserror::Error)]
pub enum WrittenError {
    /// A file or directory cannot be written.
    #[error("cannot write {}; check that the data directory is writable and has room", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file or directory cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file is not what this program writes.
    #[error("{} is damaged: {found}", path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// What is there instead.
        found: String,
    },
    /// Nothing is written for the job.
    #[error("nothing is written here for {job}")]
    NoJob {
        /// As asked.
        job: JobId,
    },
    /// The elements are not here.
    #[error("{kind} {block} {interval} of {job} at step {step} is not written here")]
    NotHere {
        /// Of this job.
        job: JobId,
        /// At this step.
        step: u64,
        /// Whose space.
        block: BlockId,
        /// Which kind.
        kind: Kind,
        /// As asked.
        interval: Interval,
    },
    /// More than one answer carries.
    #[error("{interval} is {} bytes, and one answer carries at most {max}; ask for parts", interval.len() * 4)]
    TooMuch {
        /// As asked.
        interval: Interval,
        /// Bytes.
        max: u64,
    },
}

impl WrittenError {
    pub(super) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Write { path, source }
    }

    pub(super) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Read { path, source }
    }
}
