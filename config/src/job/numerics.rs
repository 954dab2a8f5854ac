//! Types of what is computed and sent.

use crate::error::ConfigError;
use crate::raw::RawTrain;
use crate::spec::{NumericsSpec, Wire};

pub(super) fn numerics(raw: &RawTrain<'_>) -> Result<NumericsSpec, ConfigError> {
    let wire = match raw.wire.as_ref().map(|found| (found, found.value.as_str())) {
        None | Some((_, "fp32")) => Wire::Fp32,
        Some((_, "bf16")) => Wire::Bf16,
        Some((found, _)) => return Err(found.refuse("\"fp32\" or \"bf16\"")),
    };
    Ok(NumericsSpec { wire })
}
