//! The learning rate of a step: IEEE operations in a written order, the same on every machine.

use shoal_config::spec::{LrShape, LrSpec};
use shoal_exact::elementary::cos_half_turns;

/// The learning rate of a step (from 1) of `steps`: linear up to the peak over the warm-up, then as the schedule's shape says.
/// `time` counts updates, this one included: Adafactor's relative steps are of its own state, which a skip does not touch.
#[must_use]
pub fn learning_rate(schedule: &LrSpec, steps: u64, (step, time): (u64, u64)) -> f64 {
    let LrSpec { peak, minimum, warmup, shape } = *schedule;
    if step <= warmup {
        return peak * step as f64 / warmup as f64;
    }
    // From 0 at `from` to 1 at the last step.
    let progress = |from: u64| {
        let done = step.saturating_sub(from) as f64 / steps.saturating_sub(from).max(1) as f64;
        done.min(1.0)
    };
    let line = |from| peak + progress(from) * (minimum - peak);
    match shape {
        LrShape::Cosine => minimum + 0.5 * (1.0 + cos_half_turns(progress(warmup))) * (peak - minimum),
        LrShape::Linear => line(warmup),
        LrShape::Constant => peak,
        LrShape::InverseSqrt => (peak * (warmup.max(1) as f64 / step as f64).sqrt()).max(minimum),
        LrShape::RelativeStep => (1.0 / (time as f64).sqrt()).min(peak),
        LrShape::Wsd { decay } => line(steps.saturating_sub(decay).max(warmup)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSINE: LrSpec = LrSpec { peak: 1e-3, minimum: 1e-4, warmup: 10, shape: LrShape::Cosine };

    fn close(found: f64, want: f64) {
        assert!((found - want).abs() < 1e-15, "{found} is not {want}");
    }

    #[test]
    fn every_shape_warms_up() {
        let shapes =
            [LrShape::Cosine, LrShape::Linear, LrShape::Constant, LrShape::InverseSqrt, LrShape::Wsd { decay: 20 }];
        for shape in shapes {
            let schedule = LrSpec { shape, ..COSINE };
            assert_eq!(learning_rate(&schedule, 100, (1, 1)), 1e-4, "{shape:?}");
            assert_eq!(learning_rate(&schedule, 100, (10, 10)), 1e-3, "{shape:?}");
            let none = LrSpec { warmup: 0, ..schedule };
            assert!((1e-4..=1e-3).contains(&learning_rate(&none, 100, (1, 1))), "{shape:?}");
        }
    }

    #[test]
    fn each_shape_goes_on_by_its_formula() {
        let at = |shape, step| learning_rate(&LrSpec { shape, ..COSINE }, 100, (step, step));
        close(at(LrShape::Cosine, 55), 5.5e-4);
        close(at(LrShape::Cosine, 100), 1e-4);
        close(at(LrShape::Linear, 55), 5.5e-4);
        close(at(LrShape::Linear, 28), 8.2e-4);
        close(at(LrShape::Linear, 100), 1e-4);
        close(at(LrShape::Constant, 100), 1e-3);
        close(at(LrShape::InverseSqrt, 40), 5e-4);
        close(learning_rate(&LrSpec { shape: LrShape::InverseSqrt, ..COSINE }, 10_000, (4000, 4000)), 1e-4);
        close(at(LrShape::RelativeStep, 80), 1e-3);
        close(learning_rate(&LrSpec { shape: LrShape::RelativeStep, ..COSINE }, 100, (5_000_000, 4_000_000)), 5e-4);
        close(at(LrShape::Wsd { decay: 20 }, 80), 1e-3);
        close(at(LrShape::Wsd { decay: 20 }, 90), 5.5e-4);
        close(at(LrShape::Wsd { decay: 20 }, 100), 1e-4);
        close(at(LrShape::Wsd { decay: 0 }, 99), 1e-3);
    }
}
