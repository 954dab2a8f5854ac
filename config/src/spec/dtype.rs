//! How a number is held: in memory, on its way, in files.

use serde::{Deserialize, Serialize};

/// The type of an element. What is computed with is f32, whatever it is held as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Dtype {
    /// IEEE single.
    F32,
    /// The upper half of an IEEE single.
    Bf16,
    /// IEEE half.
    F16,
}

impl Dtype {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::F32, Self::Bf16, Self::F16];

    /// Bytes of an element.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::Bf16 | Self::F16 => 2,
        }
    }

    /// As people call it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::F32 => "fp32",
            Self::Bf16 => "bf16",
            Self::F16 => "fp16",
        }
    }

    /// The type that people call so.
    #[must_use]
    pub fn called(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.word() == word)
    }
}
