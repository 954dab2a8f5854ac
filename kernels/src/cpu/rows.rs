//! Reductions over rows: within a row in lanes, and over rows in fixed blocks, which are then added in order.

use std::ops::Range;

use super::SHARED_SCRATCH;
use super::class::by_class;
use super::lanes::{LANES, Lanes};
use crate::device::Write;

/// Rows of a block, at least.
const LEAST: usize = 32;

/// How rows are cut into blocks, each of which leaves a run of partial sums in the shared scratch.
#[derive(Clone, Copy)]
pub(super) struct Blocks {
    pub(super) count: usize,
    block: usize,
    rows: usize,
}

impl Blocks {
    /// A function of the shape alone: `rows` rows, and `partials` sums a block.
    pub(super) fn of(rows: usize, partials: usize) -> Self {
        let room = SHARED_SCRATCH / partials;
        assert!(room > 0, "KN-1 (shapes): {partials} partial sums a row are more than the scratch allows");
        let block = LEAST.max(rows.div_ceil(room));
        Self { count: rows.div_ceil(block), block, rows }
    }

    /// Rows of block `b`.
    pub(super) fn rows(self, b: usize) -> Range<usize> {
        b * self.block..((b + 1) * self.block).min(self.rows)
    }
}

/// Sum over a row of `f(index)` in lanes; `f` gives the sixteen values from an index, padded with zeros.
#[inline(always)]
pub(super) fn row_sum(row: &[f32], f: impl Fn(Lanes) -> Lanes) -> f32 {
    let mut sum = Lanes::splat(0.0);
    let (whole, tail) = row.as_chunks::<LANES>();
    for chunk in whole {
        sum = sum.add(f(Lanes(*chunk)));
    }
    if !tail.is_empty() {
        let mut last = f(Lanes::load_tail(tail, 0.0));
        last.0[tail.len()..].fill(0.0);
        sum = sum.add(last);
    }
    sum.sum()
}

by_class! {
    /// `out` from the partial sums of all blocks, `stride` a block, in order; `offset` says which of a block's sums.
    pub(super) fn add_blocks(out: &mut [f32], sums: &mut [f32], stride: usize, offset: usize, write: Write) {
        let width = out.len();
        let (first, rest) = sums.split_at_mut(stride.min(sums.len()));
        if first.is_empty() {
            if write == Write::Overwrite {
                out.fill(0.0);
            }
            return;
        }
        let total = &mut first[offset..offset + width];
        for block in rest.chunks_exact(stride) {
            for (total, sum) in total.iter_mut().zip(&block[offset..]) {
                *total += sum;
            }
        }
        match write {
            Write::Overwrite => out.copy_from_slice(total),
            Write::Add => {
                for (out, total) in out.iter_mut().zip(total) {
                    *out += *total;
                }
            }
        }
    }
}
