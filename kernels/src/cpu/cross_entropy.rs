//! Softmax cross-entropy over the vocabulary: loss and logit gradient in one visit of each row.
//!
//! `loss = max + ln(sum e^(x - max)) - x[target]`, `dx = seed (softmax - onehot)`.

#[cfg(test)]
mod tests;

use std::sync::{Mutex, PoisonError};

use shoal_exact::elementary::ln;

use super::CpuDevice;
use super::class::by_class;
use super::lanes::{LANES, Lanes};
use super::math::exp;
use super::pool::Parts;
use crate::device::{IGNORE, LossSum};

/// Elements whose exponentials are summed in f32 before they enter the row's f64 sum.
const RUN: usize = 1024;

#[inline(always)]
fn max_of(row: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let mut best = Lanes::splat(f32::NEG_INFINITY);
    let (whole, tail) = row.as_chunks::<LANES>();
    for chunk in whole {
        best = best.map2(Lanes(*chunk), larger);
    }
    best.map2(Lanes::load_tail(tail, f32::NEG_INFINITY), larger).fold(larger)
}

by_class! {
    /// Exponentials of `row - max`, in place, and their sum.
    fn exponentials(row: &mut [f32], max: f32) -> f64 {
        let mut total = 0.0_f64;
        for run in row.chunks_mut(RUN) {
            let mut sum = Lanes::splat(0.0);
            let (whole, tail) = run.as_chunks_mut::<LANES>();
            for chunk in whole {
                let e = Lanes(*chunk).map(|x| exp(x - max));
                *chunk = e.0;
                sum = sum.add(e);
            }
            if !tail.is_empty() {
                for x in tail.iter_mut() {
                    *x = exp(*x - max);
                }
                sum = sum.add(Lanes::load_tail(tail, 0.0));
            }
            total += f64::from(sum.sum());
        }
        total
    }
}

by_class! {
    /// The sum that [`exponentials`] gives, leaving the row as it is.
    fn sum_exponentials(row: &[f32], max: f32) -> f64 {
        let mut total = 0.0_f64;
        for run in row.chunks(RUN) {
            let mut sum = Lanes::splat(0.0);
            let (whole, tail) = run.as_chunks::<LANES>();
            for chunk in whole {
                sum = sum.add(Lanes(*chunk).map(|x| exp(x - max)));
            }
            if !tail.is_empty() {
                let mut last = Lanes::splat(0.0);
                for (e, &x) in last.0.iter_mut().zip(tail) {
                    *e = exp(x - max);
                }
                sum = sum.add(last);
            }
            total += f64::from(sum.sum());
        }
        total
    }
}

by_class! {
    fn row_max(row: &[f32]) -> f32 {
        max_of(row)
    }
}

by_class! {
    fn scale(row: &mut [f32], factor: f32) {
        for x in row {
            *x *= factor;
        }
    }
}

fn score(loss: &mut LossSum, max: f32, sum: f64, target: f32) {
    let token = (f64::from(max) - f64::from(target) + ln(sum)) as f32;
    loss.tokens += 1;
    if token.is_finite() {
        loss.sum.add(f64::from(token));
    } else {
        loss.finite = false;
    }
}

impl CpuDevice {
    pub(crate) fn cross_entropy(&self, logits: &mut [f32], targets: &[u32], seed: f32) -> LossSum {
        let vocab = vocabulary(logits.len(), targets);
        let logits = Parts::of(logits);
        self.over_rows(targets, |row, target, loss| {
            // SAFETY: rows are disjoint.
            let row = unsafe { logits.part(row * vocab..(row + 1) * vocab) };
            if target == IGNORE {
                row.fill(0.0);
                return;
            }
            let at = target as usize;
            let (max, logit) = (row_max(self.class, row), row[at]);
            let sum = exponentials(self.class, row, max);
            score(loss, max, sum, logit);
            scale(self.class, row, (f64::from(seed) / sum) as f32);
            row[at] -= seed;
        })
    }

    pub(crate) fn cross_entropy_loss(&self, logits: &[f32], targets: &[u32]) -> LossSum {
        let vocab = vocabulary(logits.len(), targets);
        self.over_rows(targets, |row, target, loss| {
            if target != IGNORE {
                let row = &logits[row * vocab..(row + 1) * vocab];
                let max = row_max(self.class, row);
                score(loss, max, sum_exponentials(self.class, row, max), row[target as usize]);
            }
        })
    }

    fn over_rows(&self, targets: &[u32], body: impl Fn(usize, u32, &mut LossSum) + Sync) -> LossSum {
        let total = Mutex::new(LossSum::ZERO);
        self.pool.divide(targets.len(), 1, |rows| {
            let mut part = LossSum::ZERO;
            for row in rows {
                body(row, targets[row], &mut part);
            }
            // Exact sums do not depend on who comes first.
            total.lock().unwrap_or_else(PoisonError::into_inner).merge(&part);
        });
        total.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

fn vocabulary(logits: usize, targets: &[u32]) -> usize {
    if targets.is_empty() {
        return 0;
    }
    let vocab = logits / targets.len();
    assert!(logits == vocab * targets.len(), "KN-1 (shapes): {logits} logits for {} targets", targets.len());
    let known = targets.iter().all(|&t| t == IGNORE || (t as usize) < vocab);
    assert!(known, "KN-5 (tokens are in the vocabulary): a target is not below {vocab}");
    vocab
}
