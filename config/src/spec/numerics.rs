//! The types in which numbers are kept and sent.

use serde::{Deserialize, Serialize};

use super::Dtype;

/// In which types a job keeps and sends what it computes. All of it enters bits. Products accumulate in f32, and weights that
/// are updated, their moments and gradient sums are f32, whatever is asked for here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NumericsSpec {
    /// What compute weights and kept activations are.
    pub precision: Precision,
    /// What activations and gradients are sent as.
    pub wire: Wire,
}

/// What compute weights and the activations that wait for their backward pass are rounded to, and the gradients that flow back
/// between blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Precision {
    /// Nothing is rounded.
    Fp32,
    /// bf16: the range of f32.
    Bf16,
    /// IEEE binary16: up to 65504, so gradients are scaled.
    Fp16(LossScaleSpec),
}

impl Precision {
    /// What is kept.
    #[must_use]
    pub fn dtype(self) -> Dtype {
        match self {
            Self::Fp32 => Dtype::F32,
            Self::Bf16 => Dtype::Bf16,
            Self::Fp16(_) => Dtype::F16,
        }
    }
}

/// How gradients are scaled so that they neither vanish nor overflow in a half type. Scales are powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossScaleSpec {
    /// Scale of the first step.
    pub start: u64,
    /// Good steps in a row after which it is doubled.
    pub window: u32,
    /// Steps that were not finite before it is halved; counted anew after it was doubled.
    pub hysteresis: u32,
    /// It is never halved below this.
    pub minimum: u64,
}

/// What activations and gradients are sent as, and rounded to wherever they could be sent, whether they are or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Wire {
    /// As they are computed.
    Fp32,
    /// Rounded to the upper 16 bits, and half as many bytes.
    Bf16,
}

impl Wire {
    /// What is sent.
    #[must_use]
    pub fn dtype(self) -> Dtype {
        match self {
            Self::Fp32 => Dtype::F32,
            Self::Bf16 => Dtype::Bf16,
        }
    }
}
