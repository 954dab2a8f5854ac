//! Many non-negative terms into an exact sum, cheaply: mantissas are first added as integers, one bin for each exponent.

use crate::ExactSum;

/// Mantissas have 53 bits, so this many fit a 64-bit bin.
const FULL: u32 = 1 << 11;

/// A sum of non-negative terms on its way into an [`ExactSum`]; gives the same sum as adding each term there.
pub struct Bins {
    mantissas: [u64; 2048],
    terms: u32,
    /// Lowest and highest exponent in use.
    used: (usize, usize),
    sum: ExactSum,
}

impl Bins {
    /// The empty sum.
    #[must_use]
    pub fn new() -> Self {
        Self { mantissas: [0; 2048], terms: 0, used: (2047, 0), sum: ExactSum::ZERO }
    }

    /// Adds one term.
    ///
    /// # Panics
    /// If it is negative or not finite; and, now or later, if it is out of the range of an [`ExactSum`].
    #[inline]
    pub fn add(&mut self, term: f64) {
        let bits = term.to_bits();
        let exponent = (bits >> 52) as usize;
        assert!(exponent < 2047, "EX-1 (finite terms): {term} cannot enter these bins");
        let fraction = bits & ((1 << 52) - 1);
        self.mantissas[exponent] += if exponent == 0 { fraction } else { fraction | 1 << 52 };
        self.used = (self.used.0.min(exponent), self.used.1.max(exponent));
        self.terms += 1;
        if self.terms == FULL {
            self.empty();
        }
    }

    /// The sum so far.
    #[must_use]
    pub fn finish(mut self) -> ExactSum {
        self.empty();
        self.sum
    }

    fn empty(&mut self) {
        let (low, high) = self.used;
        for exponent in low..=high {
            let mantissa = std::mem::take(&mut self.mantissas[exponent]);
            // Two halves, each exact in f64. Subnormals have the exponent of the smallest normals.
            let unit = (exponent.max(1) as i32) - 1075;
            for (half, shift) in [(mantissa & 0xffff_ffff, 0), (mantissa >> 32, 32)] {
                self.sum.add_scaled(half, unit + shift);
            }
        }
        self.terms = 0;
        self.used = (2047, 0);
    }
}

impl Default for Bins {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn as_term_by_term(terms in prop::collection::vec(any::<f32>(), 0..200), repeat in 1_usize..30) {
            let terms = || terms.iter().filter(|x| x.is_finite()).map(|&x| f64::from(x) * f64::from(x));
            let (mut bins, mut sum) = (Bins::new(), ExactSum::ZERO);
            for term in (0..repeat).flat_map(|_| terms()) {
                bins.add(term);
                sum.add(term);
            }
            prop_assert_eq!(bins.finish(), sum);
        }
    }

    #[test]
    fn full_bins_and_the_smallest_term() {
        let (mut bins, mut sum) = (Bins::new(), ExactSum::ZERO);
        for i in 0..10_000 {
            let term = if i % 3 == 0 { 2_f64.powi(-298) } else { 2.0 - f64::EPSILON };
            bins.add(term);
            sum.add(term);
        }
        assert_eq!(bins.finish(), sum);
    }

    #[test]
    #[should_panic(expected = "EX-1")]
    fn negative_terms_are_refused() {
        Bins::new().add(-1.0);
    }
}
