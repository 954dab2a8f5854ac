//! The types that numbers have on their way.

use serde::{Deserialize, Serialize};

/// In which types a job computes and sends. All of it enters bits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NumericsSpec {
    /// What activations and gradients are sent as.
    pub wire: Wire,
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
    /// Bytes of an element.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Self::Fp32 => 4,
            Self::Bf16 => 2,
        }
    }
}
