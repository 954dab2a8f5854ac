//! How an element is stored: as it is, or rounded to half the bits.

use half::{bf16, f16};

/// A stored element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// IEEE single.
    F32,
    /// IEEE half.
    F16,
    /// The upper half of an IEEE single.
    Bf16,
}

impl Element {
    /// Bytes of one.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }

    /// Its name in a safetensors header.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::Bf16 => "BF16",
        }
    }

    /// Its name in a `config.json`.
    #[must_use]
    pub fn torch_name(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::F16 => "float16",
            Self::Bf16 => "bfloat16",
        }
    }

    /// The type that people call so.
    #[must_use]
    pub fn called(word: &str) -> Option<Self> {
        match word {
            "fp32" => Some(Self::F32),
            "fp16" => Some(Self::F16),
            "bf16" => Some(Self::Bf16),
            _ => None,
        }
    }

    /// The type of a safetensors header's name, if it is one that holds weights.
    pub(crate) fn of(name: &str) -> Option<Self> {
        [Self::F32, Self::F16, Self::Bf16].into_iter().find(|kind| kind.name() == name)
    }

    /// Calls `put(index, value)` for every element of `bytes`; widening is exact.
    pub(crate) fn decode(self, bytes: &[u8], mut put: impl FnMut(usize, f32)) {
        match self {
            Self::F32 => {
                for (i, word) in bytes.as_chunks().0.iter().enumerate() {
                    put(i, f32::from_le_bytes(*word));
                }
            }
            Self::F16 => {
                for (i, word) in bytes.as_chunks().0.iter().enumerate() {
                    put(i, f16::from_le_bytes(*word).to_f32());
                }
            }
            Self::Bf16 => {
                for (i, word) in bytes.as_chunks().0.iter().enumerate() {
                    put(i, bf16::from_le_bytes(*word).to_f32());
                }
            }
        }
    }

    /// Appends values, rounded to nearest even; or the first finite one that would not be finite any more.
    pub(crate) fn encode(self, values: &[f32], out: &mut Vec<u8>) -> Result<(), f32> {
        let lost = |x: &&f32| match self {
            Self::F32 => false,
            Self::F16 => x.is_finite() && !f16::from_f32(**x).is_finite(),
            Self::Bf16 => x.is_finite() && !bf16::from_f32(**x).is_finite(),
        };
        if let Some(value) = values.iter().find(lost) {
            return Err(*value);
        }
        match self {
            Self::F32 => out.extend(values.iter().flat_map(|x| x.to_le_bytes())),
            Self::F16 => out.extend(values.iter().flat_map(|x| f16::from_f32(*x).to_le_bytes())),
            Self::Bf16 => out.extend(values.iter().flat_map(|x| bf16::from_f32(*x).to_le_bytes())),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_not_made_infinite() {
        for (kind, value) in [(Element::F16, 70_000.0), (Element::Bf16, f32::MAX)] {
            assert_eq!(kind.encode(&[1.0, value], &mut Vec::new()), Err(value), "{kind:?}");
        }
    }

    #[test]
    fn halves_are_rounded_to_even_and_widened_exactly() {
        for (kind, value, stored) in [
            // Halfway between two: 1 + 2^-8, 1 + 3 x 2^-8, 1 + 2^-11.
            (Element::Bf16, 1.0 + 1.0 / 256.0, 1.0),
            (Element::Bf16, 1.0 + 3.0 / 256.0, 1.015_625),
            (Element::F16, 1.0 + 1.0 / 2048.0, 1.0),
            (Element::F16, f32::INFINITY, f32::INFINITY),
            (Element::F32, 0.1, 0.1),
        ] {
            let mut bytes = Vec::new();
            kind.encode(&[value], &mut bytes).expect("it fits");
            assert_eq!(bytes.len(), kind.bytes());
            kind.decode(&bytes, |_, found| assert_eq!(found, stored, "{kind:?} of {value}"));
        }
    }
}
