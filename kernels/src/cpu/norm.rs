//! Sum of squares for the global gradient norm: in f64 within a chunk of 16 elements, then exactly.
//!
//! The square of an f32 is exact in f64, and a sum of 16 of them is a multiple of the exact sum's lowest bit. Within a chunk,
//! squares are added pairwise: i with i + 8, then + 4, + 2, + 1; a short last chunk counts as filled up with zeros.

#[cfg(test)]
mod tests;

use std::sync::{Mutex, PoisonError};

use shoal_exact::Bins;

use super::CpuDevice;
use super::class::by_class;
use super::elementwise::GRAIN;
use crate::device::SquareSum;

pub(super) const CHUNK: usize = 16;

by_class! {
    /// Sum of the chunks of `x` that are finite, and whether all are.
    fn squares(x: &[f32]) -> SquareSum {
        let (mut bins, mut finite) = (Bins::new(), true);
        let mut enter = |sum: f64| {
            if sum.is_finite() {
                bins.add(sum);
            } else {
                finite = false;
            }
        };
        let (whole, tail) = x.as_chunks::<CHUNK>();
        for chunk in whole {
            enter(chunk_sum(chunk));
        }
        if !tail.is_empty() {
            let mut last = [0.0; CHUNK];
            last[..tail.len()].copy_from_slice(tail);
            enter(chunk_sum(&last));
        }
        SquareSum { sum: bins.finish(), finite }
    }
}

#[inline(always)]
pub(super) fn chunk_sum(x: &[f32; CHUNK]) -> f64 {
    // Indexed loops of constant length, which become a few vector instructions.
    let mut sums = [0.0; CHUNK / 2];
    for i in 0..CHUNK / 2 {
        let (a, b) = (f64::from(x[i]), f64::from(x[i + CHUNK / 2]));
        sums[i] = a * a + b * b;
    }
    let [a, b, c, d, e, f, g, h] = sums;
    let [a, b, c, d] = [a + e, b + f, c + g, d + h];
    (a + c) + (b + d)
}

impl CpuDevice {
    pub(crate) fn sum_of_squares(&self, x: &[f32]) -> SquareSum {
        let total = Mutex::new(SquareSum::ZERO);
        self.pool.divide(x.len(), GRAIN, |run| {
            let part = squares(self.class, &x[run]);
            total.lock().unwrap_or_else(PoisonError::into_inner).merge(&part);
        });
        total.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
