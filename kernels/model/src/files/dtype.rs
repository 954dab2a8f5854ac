//! Element types as PyTorch names them, and their bytes.

use shoal_config::spec::Dtype;

use crate::rounding::half;

/// Its name in a `config.json`.
pub(crate) fn torch_name(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F32 => "float32",
        Dtype::F16 => "float16",
        Dtype::Bf16 => "bfloat16",
    }
}

/// Calls `put(index, value)` for every element of `bytes`; widening is exact.
pub(super) fn decode(dtype: Dtype, bytes: &[u8], mut put: impl FnMut(usize, f32)) {
    match half(dtype) {
        None => {
            for (i, word) in bytes.as_chunks().0.iter().enumerate() {
                put(i, f32::from_le_bytes(*word));
            }
        }
        Some(half) => {
            for (i, word) in bytes.as_chunks().0.iter().enumerate() {
                put(i, half.value(u16::from_le_bytes(*word)));
            }
        }
    }
}

/// Whether a value, rounded to nearest even, is finite if it was.
pub(super) fn holds(dtype: Dtype, value: f32) -> bool {
    half(dtype).is_none_or(|half| !value.is_finite() || half.nearest(value).is_finite())
}

/// Appends values, rounded to nearest even; or the first that the type does not hold.
pub(super) fn encode(dtype: Dtype, values: &[f32], out: &mut Vec<u8>) -> Result<(), f32> {
    if let Some(value) = values.iter().find(|value| !holds(dtype, **value)) {
        return Err(*value);
    }
    match half(dtype) {
        None => out.extend(values.iter().flat_map(|x| x.to_le_bytes())),
        Some(half) => out.extend(values.iter().flat_map(|x| half.bits(*x).to_le_bytes())),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_not_made_infinite() {
        for (dtype, value) in [(Dtype::F16, 70_000.0), (Dtype::Bf16, f32::MAX)] {
            assert_eq!(encode(dtype, &[1.0, value], &mut Vec::new()), Err(value), "{dtype:?}");
        }
    }

    #[test]
    fn halves_are_rounded_to_even_and_widened_exactly() {
        for (dtype, value, stored) in [
            // Halfway between two: 1 + 2^-8, 1 + 3 x 2^-8, 1 + 2^-11.
            (Dtype::Bf16, 1.0 + 1.0 / 256.0, 1.0),
            (Dtype::Bf16, 1.0 + 3.0 / 256.0, 1.015_625),
            (Dtype::F16, 1.0 + 1.0 / 2048.0, 1.0),
            (Dtype::F16, f32::INFINITY, f32::INFINITY),
            (Dtype::F32, 0.1, 0.1),
        ] {
            let mut bytes = Vec::new();
            encode(dtype, &[value], &mut bytes).expect("it fits");
            assert_eq!(bytes.len() as u64, dtype.bytes());
            decode(dtype, &bytes, |_, found| assert_eq!(found, stored, "{dtype:?} of {value}"));
        }
    }

    /// Whatever 16 bits a file has, numbers or not, it gets them back.
    #[test]
    fn every_pattern_comes_back() {
        for dtype in [Dtype::Bf16, Dtype::F16] {
            let all: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
            let mut values = vec![0.0; 1 << 16];
            decode(dtype, &all, |i, value| values[i] = value);
            let mut again = Vec::new();
            encode(dtype, &values, &mut again).expect("they are of the type");
            assert!(all == again, "{dtype:?}");
        }
    }
}
