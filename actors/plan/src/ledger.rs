//! The step ledger: an append-only hash chain of commit records.
//!
//! An entry is everything that turns version k-1 into version k, as bits. It is a pure function of entry k-1, the set of
//! `Prepared` reports and the operator commands with an effective step. Generation, layout and node never enter it.

use serde::{Deserialize, Serialize};
use shoal_config::JobSpec;
use shoal_exact::{Arithmetic, ExactSum};

use crate::batch::context;
use crate::ids::Digest;
use crate::job::Job;
use crate::loss_scale::LossScale;

/// A state of the job: how many steps, and the chain of records that led there. A bare step number is not enough: a
/// zombie could offer other bits under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Version {
    /// Committed steps.
    pub step: u64,
    /// Hash of entry `step`, or the genesis hash for 0.
    pub chain: Digest,
}

/// One commit record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerEntry {
    /// The step it commits, counted from 1.
    pub step: u64,
    /// Hash of the entry before, or the genesis hash.
    pub previous: Digest,
    /// Digest of the sample ids, in lane order.
    pub samples: Digest,
    /// Tokens that entered the loss.
    pub tokens: u64,
    /// Sum of per-token losses.
    pub loss: ExactSum,
    /// Sum of squares of the gradient of the summed loss.
    pub norm: ExactSum,
    /// What the update does.
    pub update: Update,
    /// Updates applied so far, this one included unless it is a skip: the optimizer's time.
    pub optimizer_time: u64,
    /// The loss scale of the next step, where gradients are scaled.
    pub loss_scale: Option<LossScale>,
}

/// The end of the chain: all that the next record follows from, beside what is reported of its step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Committed steps, and the chain.
    pub version: Version,
    /// Updates applied so far.
    pub time: u64,
    /// The loss scale of the next step.
    pub loss_scale: Option<LossScale>,
}

impl Head {
    /// Before the first step of nodes of an arithmetic.
    #[must_use]
    pub fn genesis(job: &Job, arithmetic: Arithmetic) -> Self {
        let version = Version { step: 0, chain: job.genesis(arithmetic) };
        Self { version, time: 0, loss_scale: LossScale::first(&job.spec) }
    }

    /// After a record.
    #[must_use]
    pub fn after(entry: &LedgerEntry) -> Self {
        Self { version: entry.version(), time: entry.optimizer_time, loss_scale: entry.loss_scale }
    }
}

/// What a holder does with its gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Update {
    /// Apply the job's optimizer with these scalars.
    Apply(UpdateScalars),
    /// Change nothing: no token, or something was not finite.
    Skip,
}

/// Scalars of one update, computed once by the engine and carried as the bits of floats; what the job file says itself is not
/// repeated. The gradient of the update is `g = gradient * scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateScalars {
    /// clip / (tokens x backward seed x loss scale), f32.
    pub scale: u32,
    /// Learning rate, f64: each parameter has its own decay, so [`Self::kept`] takes it unrounded.
    pub learning_rate: u64,
    /// What depends on the optimizer's time.
    pub corrections: Corrections,
}

/// What of an update depends on the optimizer's time t, as the bits of f32 values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Corrections {
    /// Nothing: gradient descent and RMSProp.
    None,
    /// Of Adam and AdamW.
    Adam {
        /// learning rate / (1 - beta1^t).
        step_size: u32,
        /// sqrt(1 - beta2^t).
        root_correction: u32,
    },
    /// Of Adafactor.
    Adafactor {
        /// t^decay_rate: the share that the new squares have in the second moment.
        share: u32,
    },
}

impl UpdateScalars {
    /// The learning rate.
    #[must_use]
    pub fn rate(&self) -> f64 {
        f64::from_bits(self.learning_rate)
    }

    /// 1 - learning rate x weight decay: what decoupled decay leaves of a weight.
    #[must_use]
    pub fn kept(&self, weight_decay: f32) -> f32 {
        (1.0 - self.rate() * f64::from(weight_decay)) as f32
    }
}

/// Factor of every gradient in a step beside the loss scale, a job constant: 2^-ceil(log2(tokens of a full global batch)), so that
/// sums over many tokens stay in range. The ledger's norm speaks of gradients with both factors, and
/// [`UpdateScalars::scale`] takes them away.
#[must_use]
pub fn backward_seed(spec: &JobSpec) -> f32 {
    let tokens = u64::from(spec.train.global_batch) * context(spec);
    1.0 / tokens.next_power_of_two() as f32
}

impl LedgerEntry {
    /// blake3 over a fixed little-endian layout of every field.
    #[must_use]
    pub fn hash(&self) -> Digest {
        let mut h = blake3::Hasher::new();
        h.update(b"shoal ledger entry 2");
        h.update(&self.step.to_le_bytes());
        h.update(&self.previous.0);
        h.update(&self.samples.0);
        h.update(&self.tokens.to_le_bytes());
        h.update(&self.loss.to_bytes());
        h.update(&self.norm.to_bytes());
        match self.update {
            Update::Skip => h.update(&[0]),
            Update::Apply(s) => {
                h.update(&[1]);
                h.update(&s.scale.to_le_bytes());
                h.update(&s.learning_rate.to_le_bytes());
                let (which, words) = match s.corrections {
                    Corrections::None => (0, [0; 2]),
                    Corrections::Adam { step_size, root_correction } => (1, [step_size, root_correction]),
                    Corrections::Adafactor { share } => (2, [share, 0]),
                };
                h.update(&[which]);
                words.iter().for_each(|word| {
                    h.update(&word.to_le_bytes());
                });
                &mut h
            }
        };
        h.update(&self.optimizer_time.to_le_bytes());
        if let Some(scale) = self.loss_scale {
            h.update(&[scale.exponent]);
            h.update(&scale.good.to_le_bytes());
            h.update(&scale.chances.to_le_bytes());
        }
        Digest(*h.finalize().as_bytes())
    }

    /// The version this entry leads to.
    #[must_use]
    pub fn version(&self) -> Version {
        Version { step: self.step, chain: self.hash() }
    }

    /// Mean loss per token; none if the step was skipped: then no token entered it, or something was not finite.
    #[must_use]
    pub fn mean_loss(&self) -> Option<f64> {
        match self.update {
            Update::Apply(_) => Some(self.loss.to_f64() / self.tokens as f64),
            Update::Skip => None,
        }
    }
}
