//! A corpus that is what was submitted, and is looked at again whenever somebody touched its files.
//!
//! * LD-2 (submitted bits only): tokens are handed out only if, after they were read, the files' stamps are those under which
//!   all tokens were held against what was submitted.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use shoal_plan::job::Job;

use super::actor::Split;
use super::files::Stamp;
use super::{Corpus, DataError};

/// Readings of files that are touched again and again, before they are refused.
const MOST_READINGS: u32 = 4;

/// A corpus with the stamps under which it was found to be what was submitted.
#[derive(Debug)]
pub(super) struct Checked {
    corpus: Corpus,
    stamps: Mutex<Vec<Stamp>>,
}

impl Checked {
    /// Opens a job's files and reads them all.
    ///
    /// # Errors
    /// As [`Corpus::open`] and [`Corpus::verify`].
    pub(super) fn open(job: &Job) -> Result<Self, DataError> {
        let corpus = Corpus::open(&job.spec.data, &job.spec.model)?;
        let stamps = Mutex::new(corpus.stamps()?);
        corpus.verify(&job.data)?;
        Ok(Self { corpus, stamps })
    }

    /// Tokens of windows, one list for each list of windows.
    ///
    /// # Errors
    /// A file cannot be read, was changed since the job was submitted, or is touched again and again.
    pub(super) fn read(
        &self,
        job: &Job,
        split: Split,
        windows: &[Vec<Range<u64>>],
    ) -> Result<Vec<Vec<u32>>, DataError> {
        let mut stamps = self.stamps.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..MOST_READINGS {
            let tokens = self.tokens(split, windows);
            let now = self.corpus.stamps()?;
            if now == *stamps {
                return tokens;
            }
            // That may mean nothing (it was moved, say), so what the files hold decides.
            tracing::warn!(job = job.spec.name, "data files were touched, all tokens are read again");
            self.corpus.verify(&job.data)?;
            *stamps = now;
        }
        Err(DataError::Restless { readings: MOST_READINGS })
    }

    fn tokens(&self, split: Split, windows: &[Vec<Range<u64>>]) -> Result<Vec<Vec<u32>>, DataError> {
        let source = match split {
            Split::Train => self.corpus.train(),
            Split::Validation => self.corpus.validation(),
        };
        windows
            .iter()
            .map(|windows| {
                let mut tokens = Vec::new();
                for window in windows {
                    let at = tokens.len();
                    tokens.resize(at + (window.end - window.start) as usize, 0);
                    source.read(window.start, &mut tokens[at..])?;
                }
                Ok(tokens)
            })
            .collect()
    }
}
