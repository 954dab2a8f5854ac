//! State has one address: `(block, kind, interval, version)`.
//!
//! SP-1 (an interval is not empty): nothing has an address of no elements.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::BlockId;

mod holdings;
mod set;
#[cfg(test)]
mod tests;

pub use holdings::Holdings;
pub use set::IntervalSet;

/// Elements `start..end` of a block's flat f32 space. Never empty, also when it was read from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Ends")]
pub struct Interval {
    /// First element.
    pub start: u64,
    /// One past the last element.
    pub end: u64,
}

/// An interval as it is read.
#[derive(Deserialize)]
struct Ends {
    start: u64,
    end: u64,
}

/// What was read is no interval.
#[derive(Debug, thiserror::Error)]
#[error("an interval from {start} to {end} has no elements")]
struct Empty {
    start: u64,
    end: u64,
}

impl TryFrom<Ends> for Interval {
    type Error = Empty;

    fn try_from(Ends { start, end }: Ends) -> Result<Self, Empty> {
        if start < end { Ok(Self { start, end }) } else { Err(Empty { start, end }) }
    }
}

impl Interval {
    /// `start..end`.
    ///
    /// # Panics
    /// If it would be empty.
    #[must_use]
    pub fn new(start: u64, end: u64) -> Self {
        assert!(start < end, "SP-1 (an interval is not empty): {start}..{end}");
        Self { start, end }
    }

    /// Elements in it.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(self) -> u64 {
        self.end - self.start
    }

    /// The common part, if any.
    #[must_use]
    pub fn intersection(self, other: Self) -> Option<Self> {
        let (start, end) = (self.start.max(other.start), self.end.min(other.end));
        (start < end).then_some(Self { start, end })
    }

    /// As indices.
    #[must_use]
    pub fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

/// What kind of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// Parameters.
    Weight,
    /// Gradient of the summed loss.
    Grad,
    /// First moment.
    Moment1,
    /// Second moment.
    Moment2,
    /// Second moments of matrices as row and column means, in a space of their own ([`crate::state`]).
    Factors,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Weight => "weight",
            Self::Grad => "grad",
            Self::Moment1 => "moment1",
            Self::Moment2 => "moment2",
            Self::Factors => "factors",
        })
    }
}

/// A separately accumulated contribution to a block's gradient; each goes through the lane tree on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GradUnit {
    /// Whose space it lies in.
    pub block: BlockId,
    /// Which contribution.
    pub part: GradPart,
}

/// Which contribution to a block's gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum GradPart {
    /// From the stage that computes the block; covers the block's whole space.
    Own,
    /// From the head's stage to the embedding's token table; covers that parameter alone. The owner adds own + tied.
    TiedHead,
}
