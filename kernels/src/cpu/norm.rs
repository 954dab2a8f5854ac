//! Sum of squares for the global gradient norm: in f64 within a chunk of 16 elements, in ascending order, then exactly.
//!
//! The square of an f32 is exact in f64, and a sum of 16 of them is a multiple of the exact sum's lowest bit.

#[cfg(test)]
mod tests;

use std::sync::{Mutex, PoisonError};

use super::CpuDevice;
use super::class::by_class;
use super::elementwise::GRAIN;
use crate::device::SquareSum;

const CHUNK: usize = 16;
/// Chunks whose sums are taken before they enter the exact sum: one vector loop, then one scalar loop.
const BATCH: usize = 16;

by_class! {
    /// Sums of squares of [`BATCH`] chunks; element order within a chunk ascends.
    fn chunk_sums(x: &[f32; CHUNK * BATCH]) -> [f64; BATCH] {
        let mut sums = [0.0; BATCH];
        for i in 0..CHUNK {
            for (c, sum) in sums.iter_mut().enumerate() {
                let x = f64::from(x[c * CHUNK + i]);
                *sum += x * x;
            }
        }
        sums
    }
}

fn enter(total: &mut SquareSum, chunk: f64) {
    if chunk.is_finite() {
        total.sum.add(chunk);
    } else {
        total.finite = false;
    }
}

impl CpuDevice {
    pub(crate) fn sum_of_squares(&self, x: &[f32]) -> SquareSum {
        let total = Mutex::new(SquareSum::ZERO);
        self.pool.divide(x.len(), GRAIN, |run| {
            let mut part = SquareSum::ZERO;
            let (batches, rest) = x[run].as_chunks::<{ CHUNK * BATCH }>();
            for batch in batches {
                for chunk in chunk_sums(self.class, batch) {
                    enter(&mut part, chunk);
                }
            }
            for chunk in rest.chunks(CHUNK) {
                enter(&mut part, chunk.iter().fold(0.0, |sum, &x| sum + f64::from(x) * f64::from(x)));
            }
            total.lock().unwrap_or_else(PoisonError::into_inner).merge(&part);
        });
        total.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
