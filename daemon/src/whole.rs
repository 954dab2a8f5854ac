//! A whole model in this process, for `shoalctl sample` and `shoalctl eval`: what the model's room offers, and the tokens that a
//! loss is wanted of.

use shoal_actors::loader::{Corpus, TokenSource};
use shoal_config::spec::{DataSpec, Validation};
use shoal_plan::batch::context;
use shoal_plan::job::Job;

pub use shoal_actors::loader::DataError;
pub use shoal_model::sample::Sampling;
pub use shoal_model::whole::{Ended, Evaluated, LossError, Room, Source, TextError, Wanted, Whole, WholeError, Writer};
pub use shoal_plan::memory::whole::Purpose;

/// Tokens to be looked at.
#[derive(Debug)]
pub enum Tokens {
    /// In files.
    Files(TokenSource),
    /// Here.
    Here(Vec<u32>),
}

impl Tokens {
    /// All tokens of some data, or those of the first `samples` samples; of shards those that were set apart for validation, if
    /// any were. Each is looked at once.
    ///
    /// # Errors
    /// The data cannot be read, or does not fit the model.
    pub fn all(data: &DataSpec, job: &Job, samples: Option<u32>) -> Result<Self, DataError> {
        let corpus = Corpus::open(data, &job.spec.model)?;
        let validation = data.validation == Validation::Prepared && !corpus.validation().is_empty();
        let source = if validation { corpus.validation() } else { corpus.train() };
        let wanted = samples.map_or(u64::MAX, |samples| u64::from(samples) * context(&job.spec) + 1);
        corpus.check(source.first(wanted)).map(Self::Files)
    }

    /// A job's own validation tokens.
    ///
    /// # Errors
    /// The data cannot be read, or its validation tokens are not what the job was submitted with.
    pub fn validation(job: &Job) -> Result<Self, DataError> {
        let corpus = Corpus::open(&job.spec.data, &job.spec.model)?;
        corpus.verify_validation(&job.data)?;
        Ok(Self::Files(corpus.validation().clone()))
    }
}

impl Source for Tokens {
    type Error = DataError;

    fn tokens(&self) -> u64 {
        match self {
            Self::Files(source) => source.len(),
            Self::Here(tokens) => tokens.len() as u64,
        }
    }

    fn read(&self, start: u64, out: &mut [u32]) -> Result<(), DataError> {
        match self {
            Self::Files(source) => source.read(start, out),
            Self::Here(tokens) => {
                out.copy_from_slice(&tokens[start as usize..][..out.len()]);
                Ok(())
            }
        }
    }
}
