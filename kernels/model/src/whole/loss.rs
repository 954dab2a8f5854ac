//! Loss of a whole model on data.

use shoal_config::spec::EvalSpec;
use shoal_kernels::LossSum;
use shoal_plan::batch::{context, validation_micro_batches, validation_window_of, validation_windows};
use shoal_plan::ids::Digest;
use shoal_plan::job::{DataFacts, Job};

use super::Whole;
use crate::{Input, ModelError, Phase};

/// Tokens to be looked at.
pub trait Source {
    /// Why they cannot be read.
    type Error: std::error::Error + 'static;

    /// How many.
    fn tokens(&self) -> u64;

    /// Copies tokens from `start` on.
    ///
    /// # Errors
    /// If they cannot be read.
    fn read(&self, start: u64, out: &mut [u32]) -> Result<(), Self::Error>;
}

/// What came out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evaluated {
    /// Samples looked at.
    pub samples: u64,
    /// Targets that count.
    pub tokens: u64,
    /// Mean loss a token; none if something was not finite.
    pub loss: Option<f64>,
}

/// Why there is no loss.
#[derive(Debug, thiserror::Error)]
pub enum LossError<E: std::error::Error + 'static> {
    /// The model could not be run.
    #[error("the model could not be run")]
    Model(#[source] ModelError),
    /// A token that the model does not have.
    #[error("the data has token {token}, and the model's vocabulary ends at {vocab}; look for what made the tokens")]
    Token {
        /// Found.
        token: u32,
        /// Rows of the token table.
        vocab: u32,
    },
    /// The data cannot be read.
    #[error(transparent)]
    Data(E),
    /// Not one sample.
    #[error("the data has {found} tokens, and one sample takes {need} (context + 1); give more")]
    TooShort {
        /// Tokens there.
        found: u64,
        /// Tokens of a sample.
        need: u64,
    },
}

impl Whole {
    /// The loss of the first `samples` windows of the tokens, or of all: computed and summed as a validation pass of the job
    /// does it, so that on the job's own validation tokens it has the bits that the job has found. `done` hears after every
    /// micro-batch how many samples of how many were looked at.
    ///
    /// # Errors
    /// The tokens are too few, cannot be read, or are outside the vocabulary; or memory runs out.
    pub fn loss<S: Source>(
        &mut self,
        tokens: &S,
        samples: Option<u32>,
        mut done: impl FnMut(u64, u64),
    ) -> Result<Evaluated, LossError<S::Error>> {
        let mut job = passing(self, tokens.tokens());
        job.spec.train.evaluate = Some(EvalSpec { every: 1, samples: samples.unwrap_or(u32::MAX) });
        let samples = validation_windows(&job);
        if samples == 0 {
            return Err(LossError::TooShort { found: tokens.tokens(), need: context(&job.spec) + 1 });
        }
        let Self { device, model, .. } = self;
        let (mut loss, mut seen) = (LossSum::ZERO, 0);
        for batch in validation_micro_batches(&job, 0..job.spec.parallel.virtual_replicas) {
            let (mut inputs, mut targets) = (Vec::new(), Vec::new());
            for &sample in &batch.samples {
                let window = validation_window_of(&job, sample);
                let mut read = vec![0; (window.end - window.start) as usize];
                tokens.read(window.start, &mut read).map_err(LossError::Data)?;
                inputs.extend_from_slice(&read[..read.len() - 1]);
                targets.extend_from_slice(&read[1..]);
            }
            let part = device.enter(|| {
                model.forward(device, Phase::Evaluate, &batch, Input::Tokens(&inputs))?;
                model.loss(device, &batch, &targets)
            });
            loss.merge(&part.map_err(|error| match error {
                ModelError::Token { token, vocab } => LossError::Token { token, vocab },
                other => LossError::Model(other),
            })?);
            seen += batch.samples.len() as u64;
            done(seen, samples);
        }
        let mean = (loss.finite && loss.tokens > 0).then(|| loss.sum.to_f64() / loss.tokens as f64);
        Ok(Evaluated { samples, tokens: loss.tokens, loss: mean })
    }
}

/// The job as far as a validation pass asks for it.
fn passing(whole: &Whole, tokens: u64) -> Job {
    let data = DataFacts {
        digest: Digest::default(),
        train_tokens: 0,
        validation_digest: Digest::default(),
        validation_tokens: tokens,
        tokenizer: None,
    };
    Job { spec: whole.spec.clone(), data, weights: None }
}
