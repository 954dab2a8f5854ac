//! Loss of a model on data, in this process.

use std::sync::Arc;

use shoal_actors::loader::{Corpus, DataError, TokenSource};
use shoal_config::spec::{DataSpec, EvalSpec, Validation};
use shoal_kernels::{Arena, ArenaError, Budget, Device, LossSum, Tier};
use shoal_model::{Input, ModelError, Phase, StageModel};
use shoal_plan::batch::{context, validation_micro_batches, validation_window_of, validation_windows};
use shoal_plan::blocks::ModelTable;
use shoal_plan::ids::BlockId;
use shoal_plan::job::{DataFacts, Job};
use shoal_plan::space::Interval;

/// What the arena of this process may hold: a bound for mistakes, not a budget.
const CAP: u64 = 1 << 42;

/// Tokens to be looked at.
#[derive(Debug)]
pub enum Tokens {
    /// In files.
    Files(TokenSource),
    /// Here.
    Here(Vec<u32>),
}

impl Tokens {
    /// All tokens of some data; of shards those that were set apart for validation, if any were.
    ///
    /// # Errors
    /// The data cannot be read, or does not fit the model.
    pub fn all(data: &DataSpec, job: &Job) -> Result<Self, DataError> {
        let corpus = Corpus::open(data, &job.spec.model)?;
        let validation = data.validation == Validation::Prepared && !corpus.validation().is_empty();
        let source = if validation { corpus.validation() } else { corpus.train() };
        Ok(Self::Files(source.clone()))
    }

    /// A job's own validation tokens.
    ///
    /// # Errors
    /// The data cannot be read, or is not what the job was submitted with.
    pub fn validation(job: &Job) -> Result<Self, DataError> {
        let corpus = Corpus::open(&job.spec.data, &job.spec.model)?;
        corpus.verify(&job.data)?;
        Ok(Self::Files(corpus.validation().clone()))
    }

    fn len(&self) -> u64 {
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
pub enum EvalError {
    /// No room for the device.
    #[error("no room for the device's scratch memory")]
    Device(#[source] ArenaError),
    /// The model could not be made or run.
    #[error("the model could not be run")]
    Model(#[source] ModelError),
    /// The data.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Not one sample.
    #[error("the data has {found} tokens, and one sample takes {need} (context + 1); give more")]
    TooShort {
        /// Tokens there.
        found: u64,
        /// Tokens of a sample.
        need: u64,
    },
}

impl EvalError {
    /// Whether it is the data that is wrong.
    #[must_use]
    pub fn is_of_the_data(&self) -> bool {
        matches!(self, Self::Data(_) | Self::TooShort { .. } | Self::Model(ModelError::Token { .. }))
    }
}

/// A whole model that looks at samples.
///
/// It holds the weights once (4 bytes a parameter; they come in stretches and are nowhere twice) and, on top of that, what one
/// micro-batch of the job takes in a validation pass.
pub struct Evaluator {
    job: Job,
    device: Device,
    model: StageModel,
}

impl Evaluator {
    /// A model without weights yet.
    ///
    /// # Errors
    /// If there is no room for it.
    pub fn new(job: &Job, threads: usize) -> Result<Self, EvalError> {
        let arena = Arena::new(Tier::Device, CAP, &Budget::new(CAP));
        let device = Device::cpu(threads, &arena).map_err(EvalError::Device)?;
        let table = Arc::new(ModelTable::of(&job.spec.model));
        let (blocks, lanes) = (table.blocks.len() as u32, job.spec.parallel.virtual_replicas);
        let model =
            StageModel::new((&device, &arena), &job.spec, table, 0..blocks, 0..lanes).map_err(EvalError::Model)?;
        Ok(Self { job: job.clone(), device, model })
    }

    /// Overwrites weights.
    ///
    /// # Panics
    /// If there is not one value an element, or the interval is no part of the model.
    pub fn write_weights(&mut self, block: BlockId, interval: Interval, values: &[f32]) {
        self.model.write_weights(&self.device, block, interval, values);
    }

    /// The loss of the first `samples` windows of the tokens, or of all: computed and summed as a validation pass of the job
    /// does it, so that on the job's own validation tokens it has the bits that the job has found. `done` hears after every
    /// micro-batch how many samples of how many were looked at.
    ///
    /// # Errors
    /// The tokens are too few, cannot be read, or are outside the vocabulary; or memory runs out.
    pub fn loss(
        &mut self,
        tokens: &Tokens,
        samples: Option<u32>,
        mut done: impl FnMut(u64, u64),
    ) -> Result<Evaluated, EvalError> {
        let mut job = self.job.clone();
        job.data = DataFacts { validation_tokens: tokens.len(), ..job.data };
        job.spec.train.evaluate = Some(EvalSpec { every: 1, samples: samples.unwrap_or(u32::MAX) });
        let samples = validation_windows(&job);
        if samples == 0 {
            return Err(EvalError::TooShort { found: tokens.len(), need: context(&job.spec) + 1 });
        }
        let Self { device, model, .. } = self;
        let (mut loss, mut seen) = (LossSum::ZERO, 0);
        for batch in validation_micro_batches(&job, 0..job.spec.parallel.virtual_replicas) {
            let (mut inputs, mut targets) = (Vec::new(), Vec::new());
            for &sample in &batch.samples {
                let window = validation_window_of(&job, sample);
                let mut read = vec![0; (window.end - window.start) as usize];
                tokens.read(window.start, &mut read)?;
                inputs.extend_from_slice(&read[..read.len() - 1]);
                targets.extend_from_slice(&read[1..]);
            }
            let part = device.enter(|| {
                model.forward(device, Phase::Evaluate, &batch, Input::Tokens(&inputs))?;
                model.loss(device, &batch, &targets)
            });
            loss.merge(&part.map_err(EvalError::Model)?);
            seen += batch.samples.len() as u64;
            done(seen, samples);
        }
        let mean = (loss.finite && loss.tokens > 0).then(|| loss.sum.to_f64() / loss.tokens as f64);
        Ok(Evaluated { samples, tokens: loss.tokens, loss: mean })
    }
}
