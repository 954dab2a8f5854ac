//! Text from a whole model, one token after the other.
//!
//! * TX-1 (as long as was said): no prompt, and no text behind it, is longer than the writer was made for.
//! * SW-1 (a processor's memory is the host's): a whole model in one process is computed there.

use shoal_config::JobSpec;
use shoal_plan::ids::BlockId;
use shoal_plan::memory::whole::Purpose;
use shoal_plan::space::Interval;

use super::{Room, Whole, WholeError};
use crate::sample::Sampling;
use crate::{KvCache, ModelError};

/// A whole model that reads and goes on.
pub struct Writer {
    whole: Whole,
    cache: KvCache,
    /// Tokens of the longest prompt.
    prompt: u64,
    /// Tokens that follow at most.
    more: u64,
}

/// What is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'t> {
    /// How tokens are chosen.
    pub sampling: Sampling,
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
pub enum TextError {
    /// There is no model.
    #[error(transparent)]
    Whole(#[from] WholeError),
    /// The model could not be run.
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
    /// A model without weights yet, for prompts of at most so many tokens and so many `more` behind them.
    ///
    /// # Errors
    /// A prompt of no token or of more than the context; or there is no room for the model and what it will remember.
    pub fn new(spec: &JobSpec, (prompt, more): (u64, u64), room: Room) -> Result<Self, TextError> {
        let context = spec.model.context() as usize;
        if prompt == 0 {
            return Err(TextError::Empty);
        }
        if prompt > context as u64 {
            return Err(TextError::Long { found: prompt as usize, context });
        }
        let purpose = Purpose::Text { prompt, more };
        let whole = Whole::new(spec, purpose, room)?;
        let cache = whole.model.kv_cache(purpose.remembered(spec) as usize).map_err(TextError::Model)?;
        Ok(Self { whole, cache, prompt, more })
    }

    /// Overwrites weights.
    ///
    /// # Panics
    /// If there is not one value an element, or the interval is no part of the model.
    pub fn write_weights(&mut self, block: BlockId, interval: Interval, values: &[f32]) {
        self.whole.write_weights(block, interval, values);
    }

    /// The most that was ever in its arena, in bytes.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.whole.most()
    }

    /// Goes on from `prompt`; `take` gets every token and says whether more are wanted. When the context is full, the newer
    /// half of it is read anew and the text goes on.
    ///
    /// # Errors
    /// The prompt has a token outside the vocabulary, or memory runs out.
    ///
    /// # Panics
    /// If the prompt is empty or longer than the writer was made for.
    pub fn go_on(
        &mut self,
        prompt: &[u32],
        wanted: &Wanted<'_>,
        mut take: impl FnMut(u32) -> bool,
    ) -> Result<Ended, TextError> {
        let found = prompt.len() as u64;
        assert!(found > 0 && found <= self.prompt, "TX-1 (as long as was said): {found} of {}", self.prompt);
        let context = self.whole.spec.model.context() as usize;
        self.cache.clear();
        // Not all of a long text is ever read again.
        let mut text = prompt.to_vec();
        let mut unread = prompt.len();
        for made in 0..self.more {
            if self.cache.len() + unread > context {
                self.cache.clear();
                unread = (context / 2).max(1).min(text.len());
            }
            let tokens = &text[text.len() - unread..];
            let (Whole { device, model, .. }, cache) = (&self.whole, &mut self.cache);
            let logits = device.enter(|| model.read_on(device, cache, tokens)).map_err(TextError::Model)?;
            let logits = logits.host_visible().expect("SW-1 (a processor's memory is the host's)");
            // What is not a number is never chosen.
            let known = |(logit, has): (&f32, &bool)| if *has { *logit } else { f32::NAN };
            let known: Vec<f32> = logits.iter().zip(wanted.texts).map(known).collect();
            let token = wanted.sampling.choose(found + made, &known);
            if wanted.end == Some(token) {
                return Ok(Ended::EndOfText);
            }
            text.push(token);
            if text.len() >= 2 * context {
                text.drain(..context);
            }
            unread = 1;
            if !take(token) {
                return Ok(Ended::Unwanted);
            }
        }
        Ok(Ended::Long)
    }
}
