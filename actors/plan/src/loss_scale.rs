//! The dynamic loss scale: as large as gradients in a half type bear. A pure function of the ledger.
//!
//! After `window` good steps in a row it doubles. A step that is not finite is skipped and uses up one of `hysteresis` chances; the
//! one that uses up the last halves the scale, and so does each further one, until the scale is doubled again and the chances are
//! back (as Megatron-LM and DeepSpeed do it).

use serde::{Deserialize, Serialize};
use shoal_config::JobSpec;
use shoal_config::spec::{LossScaleSpec, Precision};

/// Highest scale: 2^32.
const MOST: u8 = 32;

/// The scale of the next step, and how near it is to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossScale {
    /// The scale is two to this power.
    pub exponent: u8,
    /// Good steps since it changed or a step was skipped.
    pub good: u32,
    /// Steps that may still be not finite without a change.
    pub chances: u32,
}

/// What a step says of the scale it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything was finite.
    Good,
    /// Something was not.
    NotFinite,
    /// Nothing: no token entered it.
    Silent,
}

impl LossScale {
    /// That of a job's first step, if its gradients are scaled.
    #[must_use]
    pub fn first(spec: &JobSpec) -> Option<Self> {
        let rule = rule(spec)?;
        Some(Self { exponent: exponent(rule.start), good: 0, chances: rule.hysteresis - 1 })
    }

    /// That of the step after one with this scale.
    #[must_use]
    pub fn after(self, spec: &JobSpec, verdict: Verdict) -> Self {
        let Some(rule) = rule(spec) else { return self };
        match verdict {
            Verdict::Silent => self,
            Verdict::Good if self.good + 1 < rule.window => Self { good: self.good + 1, ..self },
            Verdict::Good => Self { exponent: (self.exponent + 1).min(MOST), good: 0, chances: rule.hysteresis - 1 },
            Verdict::NotFinite if self.chances > 0 => Self { good: 0, chances: self.chances - 1, ..self },
            Verdict::NotFinite => {
                let exponent = self.exponent.saturating_sub(1).max(exponent(rule.minimum));
                Self { exponent, good: 0, chances: 0 }
            }
        }
    }

    /// The scale.
    #[must_use]
    pub fn factor(self) -> f32 {
        f32::from_bits((u32::from(self.exponent) + 127) << 23)
    }
}

fn rule(spec: &JobSpec) -> Option<LossScaleSpec> {
    match spec.train.numerics.precision {
        Precision::Fp16(rule) => Some(rule),
        Precision::Fp32 | Precision::Bf16 => None,
    }
}

/// Of a power of two.
fn exponent(scale: u64) -> u8 {
    scale.trailing_zeros() as u8
}

#[cfg(test)]
mod tests {
    use super::Verdict::{Good, NotFinite, Silent};
    use super::*;
    use crate::fixture;

    fn spec(start: u64, window: u32, hysteresis: u32, minimum: u64) -> JobSpec {
        let mut spec = fixture::job().spec;
        spec.train.numerics.precision = Precision::Fp16(LossScaleSpec { start, window, hysteresis, minimum });
        spec
    }

    /// Scales of the steps after a run of verdicts.
    fn scales(spec: &JobSpec, verdicts: impl IntoIterator<Item = Verdict>) -> Vec<f32> {
        let mut scale = LossScale::first(spec).expect("fp16 has a scale");
        let next = |verdict| {
            scale = scale.after(spec, verdict);
            scale.factor()
        };
        verdicts.into_iter().map(next).collect()
    }

    #[test]
    fn it_is_halved_when_the_chances_are_used_up_and_then_each_time() {
        let spec = spec(1 << 16, 1000, 2, 1);
        assert_eq!(LossScale::first(&spec).map(LossScale::factor), Some(65_536.0));
        let found = scales(&spec, [NotFinite, Good, NotFinite, NotFinite, Good, NotFinite]);
        assert_eq!(found, [65_536.0, 65_536.0, 32_768.0, 16_384.0, 16_384.0, 8_192.0]);
    }

    #[test]
    fn it_is_doubled_after_a_window_of_good_steps_and_has_its_chances_back() {
        let spec = spec(4, 3, 2, 1);
        let found = scales(&spec, [NotFinite, Good, Good, Good, NotFinite, Good, Good, Good, NotFinite, NotFinite]);
        assert_eq!(found, [4.0, 4.0, 4.0, 8.0, 8.0, 8.0, 8.0, 16.0, 16.0, 8.0]);
        // A step that is not finite begins the window anew; one without tokens says nothing.
        assert_eq!(scales(&spec, [Good, Good, NotFinite, Good, Good, Good]), [4.0, 4.0, 4.0, 4.0, 4.0, 8.0]);
        assert_eq!(scales(&spec, [Good, Silent, Good, Silent, Good]), [4.0, 4.0, 4.0, 4.0, 8.0]);
    }

    #[test]
    fn it_has_bounds() {
        assert_eq!(scales(&spec(16, 1000, 1, 8), [NotFinite, NotFinite, NotFinite]), [8.0, 8.0, 8.0]);
        let most = 2_f32.powi(32);
        assert_eq!(scales(&spec(1 << 31, 1, 1, 1), [Good, Good, Good]), [most, most, most]);
    }

    #[test]
    fn only_fp16_has_one() {
        let mut spec = spec(1, 1, 1, 1);
        for precision in [Precision::Fp32, Precision::Bf16] {
            spec.train.numerics.precision = precision;
            assert_eq!(LossScale::first(&spec), None);
        }
    }
}
