//! A sum whose result does not depend on the order or grouping of its terms.
//!
//! 640-bit two's-complement fixed point (U. Kulisch's long accumulator, cut to what this project adds):
//! the lowest bit is worth 2^-298, the square of the smallest f32, and the highest value bit 2^340, the sum of
//! 2^80 squares of the largest f32. Every sum of f32 values or of products of two f32 values, taken in f64, is a multiple of
//! the lowest bit, so adding is exact and merging is associative and commutative.
//!
//! * EX-1 (finite terms): whoever adds keeps a mark of its own for what is not finite; into bins, nothing negative is added.
//! * EX-2 (range): terms are f32 values or products of two, whose bits all lie between the lowest and the highest.

use serde::{Deserialize, Serialize};

const LIMBS: usize = 10;
/// Exponent of the lowest bit.
const LOW: i32 = -298;

/// An exact sum of finite f64 terms, each a multiple of 2^-298 and below 2^320 in magnitude.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct ExactSum {
    limbs: [u64; LIMBS],
}

impl ExactSum {
    /// The empty sum.
    pub const ZERO: Self = Self { limbs: [0; LIMBS] };

    /// The sum of one term.
    #[must_use]
    pub fn of(term: f64) -> Self {
        let mut sum = Self::ZERO;
        sum.add(term);
        sum
    }

    /// Adds one term.
    ///
    /// # Panics
    /// If the term is not finite, not a multiple of 2^-298, or 2^320 or more: none of these can come from f32 data,
    /// and callers keep a separate mark for "not finite".
    pub fn add(&mut self, term: f64) {
        assert!(term.is_finite(), "EX-1 (finite terms): {term} cannot enter an exact sum");
        if term == 0.0 {
            return;
        }
        let bits = term.to_bits();
        let biased = ((bits >> 52) & 0x7ff) as i32;
        let fraction = bits & ((1 << 52) - 1);
        let (mantissa, exponent) = if biased == 0 { (fraction, -1074) } else { (fraction | (1 << 52), biased - 1075) };
        self.add_signed(mantissa, exponent, term < 0.0);
    }

    /// Adds `mantissa x 2^exponent`, which must be in the range of [`Self::add`].
    pub(crate) fn add_scaled(&mut self, mantissa: u64, exponent: i32) {
        if mantissa != 0 {
            self.add_signed(mantissa, exponent, false);
        }
    }

    fn add_signed(&mut self, mantissa: u64, exponent: i32, negative: bool) {
        let spare = mantissa.trailing_zeros();
        let (mantissa, exponent) = (mantissa >> spare, exponent + spare as i32);
        let width = (u64::BITS - mantissa.leading_zeros()) as i32;
        let fits = exponent >= LOW && exponent + width <= 320;
        assert!(fits, "EX-2 (range): {mantissa} x 2^{exponent} is outside an exact sum of f32 data");
        let shift = (exponent - LOW) as u32;
        let (limb, bit) = ((shift / 64) as usize, shift % 64);
        let wide = u128::from(mantissa) << bit;
        // A term touches two limbs; beyond them only a carry or borrow travels, and seldom.
        let step = if negative { u64::overflowing_sub } else { u64::overflowing_add };
        let (mut term, mut carry) = ([wide as u64, (wide >> 64) as u64], false);
        for limb in &mut self.limbs[limb..] {
            let (value, first) = step(*limb, term[0]);
            let (value, second) = step(value, u64::from(carry));
            (*limb, carry, term) = (value, first || second, [term[1], 0]);
            if term[0] == 0 && !carry {
                break;
            }
        }
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &Self) {
        add_limbs(&mut self.limbs, &other.limbs);
    }

    /// The sum rounded once, to nearest, ties to even.
    #[must_use]
    pub fn to_f64(&self) -> f64 {
        let negative = self.limbs[LIMBS - 1] >> 63 == 1;
        let mut magnitude = self.limbs;
        if negative {
            negate(&mut magnitude);
        }
        let Some(top) = (0..LIMBS).rev().find(|&i| magnitude[i] != 0) else { return 0.0 };
        let highest = top as i32 * 64 + 63 - magnitude[top].leading_zeros() as i32;
        let cut = highest - 52;
        let value = if cut <= 0 {
            magnitude[0]
        } else {
            let kept = bits_at(&magnitude, cut as u32) & ((1 << 53) - 1);
            let half = bit(&magnitude, cut as u32 - 1);
            let sticky = any_below(&magnitude, cut as u32 - 1);
            kept + u64::from(half && (sticky || kept & 1 == 1))
        };
        // 2^53 at most, so the conversion is exact, and the scale is a normal power of two.
        let scaled = value as f64 * pow2(LOW + cut.max(0));
        if negative { -scaled } else { scaled }
    }

    /// The 80 bytes of the sum, lowest first.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; LIMBS * 8] {
        let mut bytes = [0; LIMBS * 8];
        for (chunk, limb) in bytes.chunks_exact_mut(8).zip(self.limbs) {
            chunk.copy_from_slice(&limb.to_le_bytes());
        }
        bytes
    }
}

impl std::fmt::Debug for ExactSum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ExactSum({:e})", self.to_f64())
    }
}

impl std::iter::Sum for ExactSum {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, |mut total, part| {
            total.merge(&part);
            total
        })
    }
}

fn add_limbs(into: &mut [u64; LIMBS], other: &[u64; LIMBS]) {
    let mut carry = false;
    for (a, b) in into.iter_mut().zip(other) {
        let (sum, first) = a.overflowing_add(*b);
        let (sum, second) = sum.overflowing_add(u64::from(carry));
        *a = sum;
        carry = first || second;
    }
}

fn negate(limbs: &mut [u64; LIMBS]) {
    let mut carry = true;
    for limb in limbs {
        let (value, over) = (!*limb).overflowing_add(u64::from(carry));
        *limb = value;
        carry = over;
    }
}

fn bits_at(limbs: &[u64; LIMBS], position: u32) -> u64 {
    let (limb, bit) = ((position / 64) as usize, position % 64);
    let low = limbs[limb] >> bit;
    if bit == 0 || limb + 1 >= LIMBS { low } else { low | (limbs[limb + 1] << (64 - bit)) }
}

fn bit(limbs: &[u64; LIMBS], position: u32) -> bool {
    (limbs[(position / 64) as usize] >> (position % 64)) & 1 == 1
}

fn any_below(limbs: &[u64; LIMBS], position: u32) -> bool {
    let (limb, bit) = ((position / 64) as usize, position % 64);
    limbs[..limb].iter().any(|&l| l != 0) || limbs[limb] & ((1u64 << bit) - 1) != 0
}

fn pow2(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_term_comes_back_unchanged() {
        for term in [0.0, 1.0, -1.0, 0.1f32 as f64, f64::from(f32::MAX) * f64::from(f32::MAX), 2f64.powi(-298)] {
            assert_eq!(ExactSum::of(term).to_f64().to_bits(), term.to_bits(), "{term:e}");
        }
    }

    #[test]
    fn cancellation_leaves_the_small_term() {
        let mut sum = ExactSum::of(1e60);
        sum.add(f64::from(1e-30f32));
        sum.add(-1e60);
        assert_eq!(sum.to_f64(), f64::from(1e-30f32));
    }

    #[test]
    fn ties_go_to_even() {
        let half = 2f64.powi(-53);
        for (terms, want) in [
            (vec![1.0, half], 1.0),
            (vec![1.0, half, 2f64.powi(-200)], 1.0 + f64::EPSILON),
            (vec![1.0 + f64::EPSILON, half], 1.0 + 2.0 * f64::EPSILON),
        ] {
            let sum: ExactSum = terms.into_iter().map(ExactSum::of).sum();
            assert_eq!(sum.to_f64(), want);
        }
    }

    proptest! {
        #[test]
        fn grouping_does_not_matter(mut terms in prop::collection::vec(any::<f32>(), 1..60), cut in 0usize..60) {
            for t in &mut terms { if !t.is_finite() { *t = 1.5; } }
            let squares: Vec<f64> = terms.iter().map(|&t| f64::from(t) * f64::from(t) * t.signum() as f64).collect();
            let whole: ExactSum = squares.iter().copied().map(ExactSum::of).sum();
            let cut = cut.min(squares.len());
            let mut right: ExactSum = squares[cut..].iter().rev().copied().map(ExactSum::of).sum();
            right.merge(&squares[..cut].iter().copied().map(ExactSum::of).sum());
            prop_assert_eq!(whole, right);
        }
    }
}
