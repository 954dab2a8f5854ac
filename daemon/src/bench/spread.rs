//! What was measured several times on a machine that is not quiet.

use serde::{Deserialize, Serialize};

/// The least, the middle and the greatest of several measurements.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The least.
    pub min: f64,
    /// The middle one; of an even number, the greater of the two.
    pub median: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// Of at least one measurement.
    pub(super) fn of(measured: &[f64]) -> Option<Self> {
        let mut sorted = measured.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        Some(Self { min: *sorted.first()?, median: sorted[sorted.len() / 2], max: *sorted.last()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_between() {
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[2.0]), Some(Spread { min: 2.0, median: 2.0, max: 2.0 }));
        assert_eq!(Spread::of(&[3.0, 1.0, 9.0, 2.0]), Some(Spread { min: 1.0, median: 3.0, max: 9.0 }));
    }
}
