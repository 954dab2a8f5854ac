//! What a job rounds numbers to: wherever they could be sent, and where they are kept.

use shoal_config::JobSpec;
use shoal_config::spec::Dtype;
use shoal_kernels::{Device, Half, ViewMut};

/// What is rounded to; nothing is, to f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounding(Option<Half>);

/// The half type that is meant; none is, if it is f32.
#[must_use]
pub fn half(dtype: Dtype) -> Option<Half> {
    match dtype {
        Dtype::F32 => None,
        Dtype::Bf16 => Some(Half::Bf16),
        Dtype::F16 => Some(Half::F16),
    }
}

impl Rounding {
    /// Nothing is rounded.
    pub const NONE: Self = Self(None);

    /// Of activations and gradients, wherever they could be sent.
    #[must_use]
    pub fn of_wire(spec: &JobSpec) -> Self {
        Self(half(spec.train.numerics.wire.dtype()))
    }

    /// Of compute weights, kept activations, and gradients that flow back between blocks.
    #[must_use]
    pub fn of_precision(spec: &JobSpec) -> Self {
        Self(half(spec.train.numerics.precision.dtype()))
    }

    /// The half type, if anything is rounded.
    #[must_use]
    pub fn half(self) -> Option<Half> {
        self.0
    }

    /// Whether anything is rounded.
    #[must_use]
    pub fn is_rounded(self) -> bool {
        self.0.is_some()
    }

    /// Rounds every element, if anything is rounded.
    pub fn round(self, device: &Device, x: ViewMut<'_>) {
        if let Some(half) = self.0 {
            device.round(x, half);
        }
    }
}
