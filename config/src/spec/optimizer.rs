//! How a gradient becomes an update.

use serde::{Deserialize, Serialize};

/// The update rule, with all that it takes but the learning rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum OptimizerSpec {
    /// Adam with decoupled decay (Loshchilov and Hutter, "Decoupled weight decay regularization").
    AdamW(AdamSpec),
    /// Adam (Kingma and Ba) with decay added to the gradient.
    Adam(AdamSpec),
    /// Gradient descent, with momentum or without; decay added to the gradient.
    Sgd(SgdSpec),
    /// RMSProp (Tieleman and Hinton) as PyTorch has it, not centred; decay added to the gradient.
    RmsProp(RmsPropSpec),
    /// Adafactor (Shazeer and Stern): second moments of matrices as row and column means; decoupled decay.
    Adafactor(AdafactorSpec),
}

/// Adam's numbers, with decoupled decay or without.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdamSpec {
    /// First-moment decay.
    pub beta1: f32,
    /// Second-moment decay.
    pub beta2: f32,
    /// Added to the root of the second moment.
    pub epsilon: f32,
    /// Decay of tensors with two or more dimensions, unless a rule says otherwise.
    pub weight_decay: f32,
}

/// Numbers of gradient descent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SgdSpec {
    /// Running sum of gradients to go by, if any.
    pub momentum: Option<Momentum>,
    /// As [`AdamSpec::weight_decay`].
    pub weight_decay: f32,
}

/// A running sum of gradients: the share of it that is kept at each step, and where the step goes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Momentum {
    /// Along the sum (Polyak).
    Classic(f32),
    /// Along the gradient and the part of the sum that is kept (Nesterov).
    Nesterov(f32),
}

/// RMSProp's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RmsPropSpec {
    /// Share of the mean square that is kept at each step.
    pub alpha: f32,
    /// Added to its root.
    pub epsilon: f32,
    /// Share of the running sum of steps that is kept, if there is one.
    pub momentum: Option<f32>,
    /// As [`AdamSpec::weight_decay`].
    pub weight_decay: f32,
}

/// Adafactor's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdafactorSpec {
    /// Added to squares of the gradient (the paper's first epsilon).
    pub epsilon1: f32,
    /// Root mean square of a parameter's update above which it is scaled down.
    pub clip_threshold: f32,
    /// Exponent c of the second moment's decay 1 - t^c at update t.
    pub decay_rate: f32,
    /// Decay of the mean of updates, if there is one.
    pub beta1: Option<f32>,
    /// If the learning rate is relative to a parameter's root mean square: the least that counts as (the paper's second
    /// epsilon).
    pub parameter_scale: Option<f32>,
    /// As [`AdamSpec::weight_decay`].
    pub weight_decay: f32,
}

/// Weight decay of the parameters with certain names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecayRule {
    /// Of their names, `block.parameter`, e.g. `b3.attn.q.bias`: `*` stands for any characters, `?` for one.
    pub parameters: String,
    /// Their decay.
    pub weight_decay: f32,
}

impl OptimizerSpec {
    /// As typed in a job file.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::AdamW(_) => "adamw",
            Self::Adam(_) => "adam",
            Self::Sgd(_) => "sgd",
            Self::RmsProp(_) => "rmsprop",
            Self::Adafactor(_) => "adafactor",
        }
    }

    /// Decay of parameters with two or more dimensions that no rule names.
    #[must_use]
    pub fn weight_decay(&self) -> f32 {
        match self {
            Self::AdamW(AdamSpec { weight_decay, .. })
            | Self::Adam(AdamSpec { weight_decay, .. })
            | Self::Sgd(SgdSpec { weight_decay, .. })
            | Self::RmsProp(RmsPropSpec { weight_decay, .. })
            | Self::Adafactor(AdafactorSpec { weight_decay, .. }) => *weight_decay,
        }
    }
}
