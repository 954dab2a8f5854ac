//! Types of what is kept and sent.

use super::{count, refuse};
use crate::document::Found;
use crate::error::ConfigError;
use crate::limits::{self, LOSS_SCALE};
use crate::raw::RawTrain;
use crate::spec::{LossScaleSpec, NumericsSpec, Precision, Wire};

pub(super) fn numerics(raw: &RawTrain<'_>) -> Result<NumericsSpec, ConfigError> {
    let wire = match raw.wire.as_ref().map(|found| (found, found.value.as_str())) {
        None | Some((_, "fp32")) => Wire::Fp32,
        Some((_, "bf16")) => Wire::Bf16,
        Some((found, _)) => return Err(found.refuse("\"fp32\" or \"bf16\"")),
    };
    let precision = match raw.precision.as_ref().map(|found| (found, found.value.as_str())) {
        None | Some((_, "fp32")) => Precision::Fp32,
        Some((_, "bf16")) => Precision::Bf16,
        Some((_, "fp16")) => return Ok(NumericsSpec { precision: Precision::Fp16(loss_scale(raw)?), wire }),
        Some((found, _)) => return Err(found.refuse("\"fp32\", \"bf16\" or \"fp16\"")),
    };
    for found in [&raw.loss_scale, &raw.loss_scale_window, &raw.loss_scale_hysteresis, &raw.loss_scale_minimum] {
        if found.is_some() {
            return Err(refuse(found, "left out, unless precision = \"fp16\""));
        }
    }
    Ok(NumericsSpec { precision, wire })
}

fn loss_scale(raw: &RawTrain<'_>) -> Result<LossScaleSpec, ConfigError> {
    let minimum = scale(&raw.loss_scale_minimum, 1, 1)?;
    Ok(LossScaleSpec {
        start: scale(&raw.loss_scale, minimum.max(1 << 16), minimum)?,
        window: count(&raw.loss_scale_window, 1000, limits::LOSS_SCALE_STEPS)? as u32,
        hysteresis: count(&raw.loss_scale_hysteresis, 2, limits::LOSS_SCALE_STEPS)? as u32,
        minimum,
    })
}

fn scale(found: &Option<Found<u64>>, default: u64, least: u64) -> Result<u64, ConfigError> {
    match found {
        None => Ok(default),
        Some(found) if limits::is_loss_scale(found.value, least) => Ok(found.value),
        Some(found) => Err(found.refuse(format!("a power of two from {least} to {}", LOSS_SCALE.end()))),
    }
}
