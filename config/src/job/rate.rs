//! The learning rate over steps.

use super::optimizer::{Name, has_relative_steps};
use super::{count, positive, real, refuse};
use crate::error::ConfigError;
use crate::raw::RawTrain;
use crate::spec::{LrShape, LrSpec};

const SHAPES: &str = "\"cosine\", \"linear\", \"constant\", \"inverse-sqrt\" or \"wsd\"";

pub(super) fn schedule(optimizer: Name, raw: &RawTrain<'_>, steps: u64) -> Result<LrSpec, ConfigError> {
    if has_relative_steps(raw) {
        return relative(raw);
    }
    let peak = positive(&raw.learning_rate, optimizer.learning_rate())?;
    let warmup = count(&raw.warmup_steps, (steps / 10).min(100), 0..=steps)?;
    let shape = match raw.learning_rate_schedule.as_ref().map(|found| (found, found.value.as_str())) {
        None | Some((_, "cosine")) => LrShape::Cosine,
        Some((_, "linear")) => LrShape::Linear,
        Some((_, "constant")) => LrShape::Constant,
        Some((_, "inverse-sqrt")) => LrShape::InverseSqrt,
        Some((_, "wsd")) => {
            LrShape::Wsd { decay: count(&raw.decay_steps, (steps / 5).min(steps - warmup), 0..=steps - warmup)? }
        }
        Some((found, _)) => return Err(found.refuse(SHAPES)),
    };
    let decays = matches!(shape, LrShape::Wsd { .. });
    if raw.decay_steps.is_some() && !decays {
        return Err(refuse(&raw.decay_steps, "left out, unless learning_rate_schedule = \"wsd\""));
    }
    if raw.minimum_learning_rate.is_some() && shape == LrShape::Constant {
        return Err(refuse(&raw.minimum_learning_rate, "left out, because learning_rate_schedule = \"constant\""));
    }
    let floor = match shape {
        LrShape::Cosine | LrShape::Linear | LrShape::Wsd { .. } => peak / 10.0,
        LrShape::InverseSqrt | LrShape::RelativeStep => 0.0,
        LrShape::Constant => peak,
    };
    let allowed = format!("a number from 0 to train.learning_rate = {peak}");
    let minimum = real(&raw.minimum_learning_rate, floor, |rate| (0.0..=peak).contains(&rate), &allowed)?;
    Ok(LrSpec { peak, minimum, warmup, shape })
}

/// Steps of Adafactor's own choosing: nothing about them is left to say.
fn relative(raw: &RawTrain<'_>) -> Result<LrSpec, ConfigError> {
    const ALLOWED: &str = "left out, because train.relative_step = true";
    for found in [&raw.learning_rate, &raw.minimum_learning_rate] {
        found.as_ref().map_or(Ok(()), |found| Err(found.refuse(ALLOWED)))?;
    }
    for found in [&raw.warmup_steps, &raw.decay_steps] {
        found.as_ref().map_or(Ok(()), |found| Err(found.refuse(ALLOWED)))?;
    }
    raw.learning_rate_schedule.as_ref().map_or(Ok(()), |found| Err(found.refuse(ALLOWED)))?;
    Ok(LrSpec::RELATIVE)
}
