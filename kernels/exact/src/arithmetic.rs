//! How the sums of matrix products round, which depends on the processor.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a step `sum + a * b` of a matrix product is. Everything else that computes is one written order of operations on
/// every processor, so this is all that a processor has a say in: nodes of one arithmetic give each other's bits, whatever their
/// vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arithmetic {
    /// One rounding: the processor multiplies and adds in one instruction. The faster one, and what every machine of today has.
    Fused,
    /// Two roundings: it multiplies, then adds.
    Plain,
}

impl Arithmetic {
    /// Each of them, the better first.
    pub const ALL: [Self; 2] = [Self::Fused, Self::Plain];
}

impl fmt::Display for Arithmetic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fused => "fused",
            Self::Plain => "plain",
        })
    }
}
