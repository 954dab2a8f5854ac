//! The type that activations and gradients are rounded to wherever they could be sent.

use shoal_config::JobSpec;
use shoal_config::spec::Wire;
use shoal_kernels::{Device, Half, ViewMut};

/// What is rounded to; nothing is, if the wire takes f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireType(Option<Half>);

impl WireType {
    /// Nothing is rounded.
    pub const PLAIN: Self = Self(None);

    /// That of a job.
    #[must_use]
    pub fn of(spec: &JobSpec) -> Self {
        Self(match spec.train.numerics.wire {
            Wire::Fp32 => None,
            Wire::Bf16 => Some(Half::Bf16),
        })
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
