//! Text from a model, one token after the other, in this process.

use shoal_config::JobSpec;
use shoal_kernels::{Arena, ArenaError, Budget, Device, Tier};
use shoal_model::{ModelError, Past, StageModel};
use shoal_plan::blocks::ModelTable;
use shoal_plan::ids::BlockId;
use shoal_plan::space::Interval;

pub use shoal_model::sample::Sampling;

/// What the arena of this process may hold.
const CAP: u64 = 1 << 42;

/// A whole model that reads and goes on.
pub struct Writer {
    device: Device,
    model: StageModel,
    past: Past,
}

/// What is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'t> {
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// Tokens at most.
    pub tokens: u64,
    /// Which tokens have a text, one at least; no other, and none behind the last, is ever chosen.
    pub texts: &'t [bool],
    /// Ends the text; not part of it.
    pub end: Option<u32>,
}

/// Why a text ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The model said so.
    EndOfText,
    /// There are as many tokens as were wanted.
    Long,
    /// Whoever takes the tokens wants no more.
    Unwanted,
}

/// Why there is no text.
#[derive(Debug, thiserror::Error)]
pub enum SampleError {
    /// No room for the device.
    #[error("no room for the device's scratch memory")]
    Device(#[source] ArenaError),
    /// The model could not be made or run.
    #[error("the model could not be run")]
    Model(#[source] ModelError),
    /// Nothing to go on from.
    #[error("the prompt has no token to go on from; give some text")]
    Empty,
    /// More than the model can look at.
    #[error("the prompt has {found} tokens and the model's context {context}; shorten the prompt")]
    Long {
        /// Tokens of the prompt.
        found: usize,
        /// Tokens of the context.
        context: usize,
    },
}

impl Writer {
    /// A model without weights yet.
    ///
    /// # Errors
    /// If there is no room for it.
    pub fn new(spec: &JobSpec, threads: usize) -> Result<Self, SampleError> {
        let arena = Arena::new(Tier::Device, CAP, &Budget::new(CAP));
        let device = Device::cpu(threads, &arena).map_err(SampleError::Device)?;
        let table = std::sync::Arc::new(ModelTable::of(&spec.model));
        let (blocks, lanes) = (table.blocks.len() as u32, spec.parallel.virtual_replicas);
        let model = StageModel::new((&device, &arena), spec, table, 0..blocks, 0..lanes).map_err(SampleError::Model)?;
        let past = model.past().map_err(SampleError::Model)?;
        Ok(Self { device, model, past })
    }

    /// Overwrites weights.
    ///
    /// # Panics
    /// If there is not one value an element, or the interval is no part of the model.
    pub fn write_weights(&mut self, block: BlockId, interval: Interval, values: &[f32]) {
        self.model.write_weights(&self.device, block, interval, values);
    }

    /// Goes on from `prompt`; `take` gets every token and says whether more are wanted. When the context is full, the newer
    /// half of it is read anew and the text goes on.
    ///
    /// # Errors
    /// The prompt is empty or longer than the context, has a token outside the vocabulary, or memory runs out.
    pub fn go_on(
        &mut self,
        prompt: &[u32],
        wanted: &Wanted<'_>,
        mut take: impl FnMut(u32) -> bool,
    ) -> Result<Ended, SampleError> {
        let context = self.past.capacity();
        if prompt.is_empty() {
            return Err(SampleError::Empty);
        }
        if prompt.len() > context {
            return Err(SampleError::Long { found: prompt.len(), context });
        }
        self.past.clear();
        let mut text = prompt.to_vec();
        let mut unread = prompt.len();
        for _ in 0..wanted.tokens {
            if self.past.len() + unread > context {
                self.past.clear();
                unread = (context / 2).max(1).min(text.len());
            }
            let tokens = &text[text.len() - unread..];
            let Self { device, model, past } = self;
            let logits = device.enter(|| model.read_on(device, past, tokens)).map_err(SampleError::Model)?;
            let logits = logits.host_visible().expect("SW-1 (a processor's memory is the host's)");
            // What is not a number is never chosen.
            let known = |(logit, has): (&f32, &bool)| if *has { *logit } else { f32::NAN };
            let known: Vec<f32> = logits.iter().zip(wanted.texts).map(known).collect();
            let token = wanted.sampling.choose(text.len() as u64, &known);
            if wanted.end == Some(token) {
                return Ok(Ended::EndOfText);
            }
            text.push(token);
            unread = 1;
            if !take(token) {
                return Ok(Ended::Unwanted);
            }
        }
        Ok(Ended::Long)
    }
}

#[cfg(test)]
mod tests;
