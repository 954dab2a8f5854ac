//! The ledger entry of a step: a pure function of the entry before and of what the holders report.
//!
//! Everything here is IEEE add, multiply, divide and square root in a written order, so that a coordinator restarted on
//! another machine computes the same record.

use shoal_config::spec::{AdamSpec, OptimizerSpec};
use shoal_exact::ExactSum;
use shoal_exact::elementary::{power, whole_power};

use crate::batch::digest_of_step;
use crate::job::Job;
use crate::learning_rate::learning_rate;
use crate::ledger::{Corrections, Head, LedgerEntry, Update, UpdateScalars, backward_seed};
use crate::loss_scale::{LossScale, Verdict};
use crate::protocol::{LossSum, Norm};

/// What the holders report of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepReport {
    /// Over the norms of all intervals, each once.
    pub norm: Norm,
    /// Of the step.
    pub loss: LossSum,
}

/// Adds norms; one that is not finite spoils the sum.
#[must_use]
pub fn total(norms: impl IntoIterator<Item = Norm>) -> Norm {
    let mut sum = ExactSum::ZERO;
    for norm in norms {
        match norm {
            Norm::Finite(part) => sum.merge(&part),
            Norm::NotFinite => return Norm::NotFinite,
        }
    }
    Norm::Finite(sum)
}

/// The record that follows `head`.
///
/// No token, or anything that is not finite, is a skip: the step is used up and nothing changes but the loss scale. So is a
/// gradient that is so long, clipped, that an f32 cannot hold its square: second moments would not be finite.
#[must_use]
pub fn entry(job: &Job, head: &Head, report: &StepReport) -> LedgerEntry {
    let Head { version: at, time, loss_scale } = *head;
    let step = at.step + 1;
    let samples = digest_of_step(job, step);
    let tokens = report.loss.tokens;
    let (update, loss, norm, verdict) = match (report.loss.loss, report.norm) {
        (Norm::Finite(loss), Norm::Finite(norm)) if tokens > 0 => {
            let factor = loss_scale.map_or(1.0, LossScale::factor);
            match scalars(job, step, time + 1, (tokens, factor), &norm) {
                Some(scalars) => (Update::Apply(scalars), loss, norm, Verdict::Good),
                None => (Update::Skip, loss, norm, Verdict::NotFinite),
            }
        }
        (Norm::Finite(loss), Norm::Finite(norm)) => (Update::Skip, loss, norm, Verdict::Silent),
        (Norm::NotFinite, _) | (_, Norm::NotFinite) => {
            (Update::Skip, ExactSum::ZERO, ExactSum::ZERO, Verdict::NotFinite)
        }
    };
    let optimizer_time = match update {
        Update::Apply(_) => time + 1,
        Update::Skip => time,
    };
    let loss_scale = loss_scale.map(|scale| scale.after(&job.spec, verdict));
    LedgerEntry { step, previous: at.chain, samples, tokens, loss, norm, update, optimizer_time, loss_scale }
}

/// The longest gradient of the mean loss, clipped, that an update takes: 2^62. Nothing of it is longer, so squares are below 2^124.
const LONGEST: f64 = (1_u64 << 62) as f64;

/// None if the gradient is too long.
fn scalars(
    job: &Job,
    step: u64,
    time: u64,
    (tokens, loss_scale): (u64, f32),
    norm: &ExactSum,
) -> Option<UpdateScalars> {
    let train = &job.spec.train;
    // The gradient of the mean loss is the seeded sum over tokens and seed; its norm is clipped as PyTorch's
    // clip_grad_norm_ does it: clip / (norm + 1e-6), at most 1.
    let mean = 1.0 / (tokens as f64 * f64::from(backward_seed(&job.spec)) * f64::from(loss_scale));
    let length = norm.to_f64().sqrt() * mean;
    let clip = train.clip.map_or(1.0, |most| (f64::from(most) / (length + 1e-6)).min(1.0));
    if length * clip > LONGEST {
        return None;
    }
    let rate = learning_rate(&train.schedule, train.steps, (step, time));
    let bits = |x: f64| (x as f32).to_bits();
    Some(UpdateScalars {
        scale: bits(clip * mean),
        learning_rate: rate.to_bits(),
        corrections: match &train.optimizer {
            OptimizerSpec::AdamW(AdamSpec { beta1, beta2, .. })
            | OptimizerSpec::Adam(AdamSpec { beta1, beta2, .. }) => Corrections::Adam {
                step_size: bits(rate / (1.0 - whole_power(f64::from(*beta1), time))),
                root_correction: bits((1.0 - whole_power(f64::from(*beta2), time)).sqrt()),
            },
            OptimizerSpec::Sgd(_) | OptimizerSpec::RmsProp(_) => Corrections::None,
            OptimizerSpec::Adafactor(spec) => {
                Corrections::Adafactor { share: bits(power(time as f64, f64::from(spec.decay_rate))) }
            }
        },
    })
}

#[cfg(test)]
mod tests {
    use shoal_config::spec::{LossScaleSpec, LrShape, LrSpec, Precision};

    use super::*;
    use crate::fixture;
    use crate::ids::Digest;
    use crate::ledger::Version;

    fn at(time: u64) -> Head {
        Head { version: Version { step: 0, chain: Digest([7; 32]) }, time, loss_scale: None }
    }

    fn report(norm: f64, loss: f64, tokens: u64) -> StepReport {
        let of = |x| Norm::Finite(ExactSum::of(x));
        StepReport { norm: of(norm), loss: LossSum { loss: of(loss), tokens } }
    }

    fn float(bits: u32) -> f32 {
        f32::from_bits(bits)
    }

    /// torch.optim.AdamW(lr=1e-3, betas=(0.9, 0.999), weight_decay=0.1), first step.
    #[test]
    fn scalars_are_those_of_adamw() {
        let mut job = fixture::job();
        job.spec.train.schedule = LrSpec { peak: 1e-3, minimum: 1e-3, warmup: 0, shape: LrShape::Cosine };
        job.spec.train.clip = None;
        let tokens = 512;
        let entry = entry(&job, &at(0), &report(4.0, 100.0, tokens));
        let Update::Apply(s) = entry.update else { panic!("applied") };
        let Corrections::Adam { step_size, root_correction } = s.corrections else { panic!("AdamW's") };
        assert_eq!(s.kept(0.1), 1.0 - 1e-4);
        assert!((float(step_size) - 1e-2).abs() < 1e-8);
        assert!((float(root_correction) - 0.001f32.sqrt()).abs() < 1e-6);
        assert_eq!(float(s.scale), 1.0 / (tokens as f32 * backward_seed(&job.spec)));
        assert_eq!((entry.step, entry.optimizer_time, entry.tokens), (1, 1, tokens));
    }

    #[test]
    fn adafactors_new_squares_have_the_whole_share_at_first() {
        let mut job = fixture::job();
        job.spec.train.optimizer = fixture::adafactor();
        let share = |time| match entry(&job, &at(time), &report(4.0, 100.0, 512)).update {
            Update::Apply(UpdateScalars { corrections: Corrections::Adafactor { share }, .. }) => float(share),
            other => panic!("{other:?}"),
        };
        assert_eq!(share(0), 1.0);
        assert!((share(99) - 100f32.powf(-0.8)).abs() < 1e-8);
    }

    /// Skips move the step and not the optimizer's time.
    #[test]
    fn relative_steps_count_updates() {
        let mut job = fixture::job();
        (job.spec.train.optimizer, job.spec.train.schedule) = (fixture::adafactor(), LrSpec::RELATIVE);
        let head = Head { version: Version { step: 1_000_000, chain: Digest([7; 32]) }, ..at(39_999) };
        let Update::Apply(s) = entry(&job, &head, &report(4.0, 100.0, 512)).update else { panic!("applied") };
        assert_eq!(s.rate(), 1.0 / 200.0);
    }

    #[test]
    fn long_gradients_are_clipped_and_short_ones_are_not() {
        let mut job = fixture::job();
        job.spec.train.clip = Some(1.0);
        let tokens = 512;
        let mean = 1.0 / (tokens as f64 * f64::from(backward_seed(&job.spec)));
        for (length, clip) in [(0.5, 1.0), (4.0, 0.25)] {
            let squares = (length / mean) * (length / mean);
            let Update::Apply(s) = entry(&job, &at(0), &report(squares, 1.0, tokens)).update else { panic!("applied") };
            assert!((f64::from(float(s.scale)) / mean - clip).abs() < 1e-5, "{length}");
        }
    }

    #[test]
    fn nothing_changes_without_tokens_or_with_infinities() {
        let job = fixture::job();
        let infinite = StepReport { norm: Norm::NotFinite, ..report(1.0, 1.0, 8) };
        for report in [report(1.0, 1.0, 0), infinite] {
            let entry = entry(&job, &at(3), &report);
            assert_eq!((entry.update, entry.optimizer_time, entry.step), (Update::Skip, 3, 1));
        }
    }

    #[test]
    fn a_gradient_whose_square_no_f32_holds_is_skipped_unless_it_is_clipped() {
        let mut job = fixture::job();
        let mean = 1.0 / (512.0 * f64::from(backward_seed(&job.spec)));
        let squares = |length: f64| (length / mean) * (length / mean);
        let is_skipped = |job: &Job, length| {
            let entry = entry(job, &at(3), &report(squares(length), 1.0, 512));
            assert_eq!(
                (entry.norm, entry.optimizer_time == 3),
                (ExactSum::of(squares(length)), entry.update == Update::Skip)
            );
            entry.update == Update::Skip
        };
        job.spec.train.clip = None;
        assert!(!is_skipped(&job, LONGEST) && is_skipped(&job, 2.0 * LONGEST));
        job.spec.train.clip = Some(1.0);
        assert!(!is_skipped(&job, 2.0 * LONGEST));
    }

    #[test]
    fn totals_do_not_depend_on_the_cut() {
        let parts = [1.0, 2.5, 1e-20].map(|x| Norm::Finite(ExactSum::of(x)));
        let whole = total(parts);
        assert_eq!(whole, total([parts[2], total([parts[1], parts[0]])]));
        assert_eq!(total([parts[0], Norm::NotFinite]), Norm::NotFinite);
    }

    /// The gradient carries the loss scale, and the update takes it away again: nothing else of the record knows it.
    #[test]
    fn a_scaled_gradient_is_applied_as_the_plain_one() {
        let mut job = fixture::job();
        let plain = entry(&job, &at(3), &report(4.0, 100.0, 512));
        let rule = LossScaleSpec { start: 1 << 10, window: 1, hysteresis: 1, minimum: 1 };
        job.spec.train.numerics.precision = Precision::Fp16(rule);
        let head = Head { loss_scale: LossScale::first(&job.spec), ..at(3) };
        let factor = 1024.0;
        let scaled = entry(&job, &head, &report(4.0 * factor * factor, 100.0, 512));
        let (Update::Apply(mut s), Update::Apply(p)) = (scaled.update, plain.update) else { panic!("applied") };
        assert_eq!(float(s.scale) * factor as f32, float(p.scale));
        s.scale = p.scale;
        assert_eq!((s, scaled.optimizer_time), (p, plain.optimizer_time));
        assert_eq!(scaled.loss_scale.map(LossScale::factor), Some(2048.0));
        let infinite = StepReport { norm: Norm::NotFinite, ..report(1.0, 1.0, 8) };
        let skipped = entry(&job, &Head::after(&scaled), &infinite);
        assert_eq!((skipped.update, skipped.optimizer_time), (Update::Skip, 4));
        assert_eq!(skipped.loss_scale.map(LossScale::factor), Some(1024.0));
        assert_ne!(LedgerEntry { loss_scale: None, ..skipped.clone() }.hash(), skipped.hash(), "the chain knows it");
    }
}
