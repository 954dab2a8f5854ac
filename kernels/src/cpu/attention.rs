//! Causal self-attention in tiles of queries: of the probabilities, only a tile by its keys ever exists.
//!
//! Forward keeps the log-sum-exp of every row; backward draws the probabilities again from it (Dao et al., "FlashAttention"):
//! with `P = softmax(scale Q K^T)`, mask Z (zero or the dropout factor), `O = (P Z) V`: `dV = (P Z)^T dO`, `dP = (dO V^T) Z`,
//! `dS = P (dP - rowsum(dO O))`, `dQ = scale dS K`, `dK = scale dS^T Q`. Where query heads share keys and values, `dK` and `dV`
//! are summed over them in ascending order.

mod decode;
#[cfg(test)]
mod tests;

use shoal_exact::elementary::ln;

use super::class::by_class;
use super::dropout::{Stream, mask};
use super::lanes::{LANES, Lanes};
use super::math::exp;
use super::matmul::{Operand, Packer, Size, Strided};
use super::pool::Parts;
use super::{CpuDevice, THREAD_SCRATCH};
use crate::device::{Attention, Dropout};

/// Queries of a tile, at most.
const TILE: usize = 64;

/// Queries of a tile: two tiles fit the scratch. A function of the shape alone.
fn tile_of(shape: Attention) -> usize {
    let fit = THREAD_SCRATCH / 2 / shape.positions.max(1);
    assert!(fit > 0, "KN-1 (shapes): a sample of {} tokens is longer than the scratch allows", shape.positions);
    TILE.min(fit)
}

by_class! {
    /// Scores of one query become probabilities; returns their log-sum-exp.
    fn softmax(row: &mut [f32], scale: f32) -> f32 {
        let larger = |a: f32, b: f32| if b > a { b } else { a };
        let mut best = Lanes::splat(f32::NEG_INFINITY);
        let (whole, tail) = row.as_chunks::<LANES>();
        for chunk in whole {
            best = best.map2(Lanes(*chunk), larger);
        }
        let max = best.map2(Lanes::load_tail(tail, f32::NEG_INFINITY), larger).fold(larger) * scale;
        let mut sum = Lanes::splat(0.0);
        let (whole, tail) = row.as_chunks_mut::<LANES>();
        for chunk in whole {
            let e = Lanes(*chunk).map(|x| exp(x.mul_add(scale, -max)));
            *chunk = e.0;
            sum = sum.add(e);
        }
        if !tail.is_empty() {
            for x in tail.iter_mut() {
                *x = exp(x.mul_add(scale, -max));
            }
            sum = sum.add(Lanes::load_tail(tail, 0.0));
        }
        let sum = sum.sum();
        let inverse = 1.0 / sum;
        for x in row.iter_mut() {
            *x *= inverse;
        }
        max + ln(f64::from(sum)) as f32
    }
}

by_class! {
    /// Scores of one query become probabilities again.
    fn redraw(row: &mut [f32], scale: f32, log_sum: f32) {
        for x in row {
            *x = exp(x.mul_add(scale, -log_sum));
        }
    }
}

by_class! {
    /// Hides the keys behind a query.
    fn hide(scores: &mut [f32]) {
        scores.fill(0.0);
    }
}

by_class! {
    fn dot(a: &[f32], b: &[f32]) -> f32 {
        let mut sum = Lanes::splat(0.0);
        let ((xs, x), (ys, y)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
        for (x, y) in xs.iter().zip(ys) {
            sum = sum.fused(Lanes(*x), Lanes(*y));
        }
        if !x.is_empty() {
            sum = sum.fused(Lanes::load_tail(x, 0.0), Lanes::load_tail(y, 0.0));
        }
        sum.sum()
    }
}

by_class! {
    /// `dp` becomes `scale p (dp - mean)`.
    fn score_gradient(dp: &mut [f32], p: &[f32], mean: f32, scale: f32) {
        for (dp, &p) in dp.iter_mut().zip(p) {
            *dp = (p * scale) * (*dp - mean);
        }
    }
}

by_class! {
    /// [`score_gradient`] of a masked `dp`; masks `p` too, which is drawn once for both.
    fn dropped_score_gradient(dp: &mut [f32], p: &mut [f32], stream: Stream, from: u64, mean: f32, scale: f32) {
        stream.for_each(from, dp.len(), |i, factor| {
            dp[i] = (p[i] * scale) * (dp[i] * factor - mean);
            p[i] *= factor;
        });
    }
}

/// Where one head of one sample lies.
#[derive(Clone, Copy)]
struct Head {
    sample: usize,
    head: usize,
    shape: Attention,
}

impl Head {
    fn of(shape: Attention, item: usize) -> Self {
        Self { sample: item / shape.heads, head: item % shape.heads, shape }
    }

    /// First elements of query, key and value of the head's first token in the packed buffer.
    fn packed(self) -> [usize; 3] {
        let Attention { positions, size, .. } = self.shape;
        let row = self.sample * positions * self.shape.packed();
        let key = row + self.shape.width() + 2 * (self.head / self.shape.group()) * size;
        [row + self.head * size, key, key + size]
    }

    /// First element of the head's first token in the output.
    fn output(self) -> usize {
        self.sample * self.shape.positions * self.shape.width() + self.head * self.shape.size
    }

    /// Index of the head's first statistic.
    fn statistics(self) -> usize {
        (self.sample * self.shape.heads + self.head) * self.shape.positions
    }

    /// First dropout element of a query.
    fn mask_row(self, query: usize) -> u64 {
        ((self.head * self.shape.positions + query) * self.shape.positions) as u64
    }

    fn scale(self) -> f32 {
        1.0 / (self.shape.size as f32).sqrt()
    }
}

/// A matrix with rows `row` apart that begins at element `at`.
fn matrix(base: &[f32], at: usize, row: usize) -> Strided<*const f32> {
    Strided { base: base[at..].as_ptr(), row, column: 1 }
}

impl CpuDevice {
    pub(crate) fn attention(
        &self,
        y: &mut [f32],
        statistics: &mut [f32],
        qkv: &[f32],
        shape: Attention,
        dropout: Option<&Dropout<'_>>,
    ) {
        check(y.len(), statistics.len(), qkv.len(), shape, dropout);
        let tile = tile_of(shape);
        let (width, packed, positions, size) = (shape.width(), shape.packed(), shape.positions, shape.size);
        let (y, statistics) = (Parts::of(y), Parts::of(statistics));
        self.pool.each(shape.samples * shape.heads, |item| {
            let head = Head::of(shape, item);
            let [q, k, v] = head.packed();
            // SAFETY: each head has statistics of its own.
            let statistics = unsafe { statistics.part(head.statistics()..head.statistics() + positions) };
            let mut scratch = self.thread_scratch();
            let scratch = scratch.view_mut().into_host();
            self.packing(|packer| {
                let keys_of = (matrix(qkv, k, packed).transposed(), size, positions);
                let values = (matrix(qkv, v, packed), positions, size);
                // SAFETY: rows of this head within checked buffers.
                let ([keys_of, values], mut packer) = unsafe { packer.operands([keys_of, values]) };
                for first in (0..positions).step_by(tile) {
                    let rows = tile.min(positions - first);
                    let keys = first + rows;
                    let scores = &mut scratch[..rows * keys];
                    let queries = matrix(qkv, q + first * packed, packed);
                    let at = Strided { base: scores.as_mut_ptr(), row: keys, column: 1 };
                    // SAFETY: as above; scratch is this thread's.
                    unsafe { packer.by(at, queries, &keys_of, Size { m: rows, n: keys, k: size }) };
                    for (i, row) in scores.chunks_exact_mut(keys).enumerate() {
                        let (seen, hidden) = row.split_at_mut(first + i + 1);
                        statistics[first + i] = softmax(self.class, seen, head.scale());
                        if let Some(dropout) = dropout {
                            mask(self.class, seen, Stream::of(dropout, head.sample), head.mask_row(first + i));
                        }
                        hide(self.class, hidden);
                    }
                    let out = head.output() + first * width;
                    // SAFETY: as above; only this item writes this head's columns of these rows.
                    unsafe {
                        let out = Strided { base: y.base().add(out), row: width, column: 1 };
                        let scores = Strided { base: scores.as_ptr(), row: keys, column: 1 };
                        packer.by(out, scores, &values, Size { m: rows, n: size, k: keys });
                    }
                }
            });
        });
    }

    pub(crate) fn attention_backward(
        &self,
        dqkv: &mut [f32],
        dy: &[f32],
        (y, statistics, qkv): (&[f32], &[f32], &[f32]),
        shape: Attention,
        dropout: Option<&Dropout<'_>>,
    ) {
        check(y.len(), statistics.len(), qkv.len(), shape, dropout);
        assert!(dqkv.len() == qkv.len() && dy.len() == y.len(), "KN-1 (shapes): attention backward {shape:?}");
        let tile = tile_of(shape);
        let out = Parts::of(dqkv);
        // Heads of one group write the same key and value gradients, so a group is one item.
        self.pool.each(shape.samples * shape.kv_heads, |item| {
            let mut scratch = self.thread_scratch();
            let (p, dp) = scratch.view_mut().into_host().split_at_mut(THREAD_SCRATCH / 2);
            let heads = (item * shape.group()..(item + 1) * shape.group()).map(|item| Head::of(shape, item));
            self.clear_keys(&out, Head::of(shape, item * shape.group()));
            let (packed, [_, k, v]) = (shape.packed(), Head::of(shape, item * shape.group()).packed());
            self.packing(|packer| {
                let wanted = [
                    (matrix(qkv, k, packed).transposed(), shape.size, shape.positions),
                    (matrix(qkv, v, packed).transposed(), shape.size, shape.positions),
                    (matrix(qkv, k, packed), shape.positions, shape.size),
                ];
                // SAFETY: rows of this group within checked buffers.
                let (shared, mut packer) = unsafe { packer.operands(wanted) };
                for head in heads {
                    let statistics = &statistics[head.statistics()..head.statistics() + shape.positions];
                    for first in (0..shape.positions).step_by(tile) {
                        let rows = tile.min(shape.positions - first);
                        let keys = first + rows;
                        let scores = (&mut p[..rows * keys], &mut dp[..rows * keys]);
                        let products = (&mut packer, &shared);
                        self.tile_backward(&out, dy, (y, statistics, qkv), head, first, scores, products, dropout);
                    }
                }
            });
        });
    }

    /// Zeroes the key and value gradients of a head's group, to which every tile adds.
    fn clear_keys(&self, dqkv: &Parts<'_, f32>, head: Head) {
        let Attention { positions, size, .. } = head.shape;
        let [_, key, _] = head.packed();
        for position in 0..positions {
            let at = key + position * head.shape.packed();
            // SAFETY: only this item touches this group's columns.
            unsafe { dqkv.part(at..at + 2 * size) }.fill(0.0);
        }
    }

    #[allow(clippy::too_many_arguments, reason = "one tile of a backward pass has these operands")]
    fn tile_backward(
        &self,
        dqkv: &Parts<'_, f32>,
        dy: &[f32],
        (y, statistics, qkv): (&[f32], &[f32], &[f32]),
        head: Head,
        first: usize,
        (p, dp): (&mut [f32], &mut [f32]),
        (packer, [keys_of, values, by_key]): (&mut Packer<'_>, &[Operand<'_>; 3]),
        dropout: Option<&Dropout<'_>>,
    ) {
        let Attention { size, .. } = head.shape;
        let (width, packed) = (head.shape.width(), head.shape.packed());
        let [q, k, v] = head.packed();
        let out = head.output() + first * width;
        let rows = tile_of(head.shape).min(head.shape.positions - first);
        let keys = first + rows;
        let scores = Size { m: rows, n: keys, k: size };
        let queries = matrix(qkv, q + first * packed, packed);
        let dout = matrix(dy, out, width);
        // SAFETY: rows of this head within checked buffers; scratch is this thread's.
        unsafe {
            let at = |base| Strided { base, row: keys, column: 1 };
            packer.by(at(p.as_mut_ptr()), queries, keys_of, scores);
            packer.by(at(dp.as_mut_ptr()), dout, values, scores);
        }
        for (i, (p, dp)) in p.chunks_exact_mut(keys).zip(dp.chunks_exact_mut(keys)).enumerate() {
            let ((p, p_hidden), (dp, dp_hidden)) = (p.split_at_mut(first + i + 1), dp.split_at_mut(first + i + 1));
            redraw(self.class, p, head.scale(), statistics[first + i]);
            let at = out + i * width;
            let mean = dot(self.class, &dy[at..at + size], &y[at..at + size]);
            match dropout {
                None => score_gradient(self.class, dp, p, mean, head.scale()),
                Some(dropout) => {
                    let stream = Stream::of(dropout, head.sample);
                    dropped_score_gradient(self.class, dp, p, stream, head.mask_row(first + i), mean, head.scale());
                }
            }
            hide(self.class, p_hidden);
            hide(self.class, dp_hidden);
        }
        // SAFETY: as above; only this item touches this group's columns of the gradient.
        unsafe {
            let gradient = |at: usize| Strided { base: dqkv.base().add(at), row: packed, column: 1 };
            let (p, ds) = (Strided::rows(p, keys).pointer(), Strided::rows(dp, keys).pointer());
            let over_keys = Size { m: rows, n: size, k: keys };
            let over_rows = Size { m: keys, n: size, k: rows };
            packer.by(gradient(q + first * packed), ds, by_key, over_keys);
            packer.product(gradient(k), ds.transposed(), queries, over_rows, true, |_, _| ());
            packer.product(gradient(v), p.transposed(), dout, over_rows, true, |_, _| ());
        }
    }
}

fn check(y: usize, statistics: usize, qkv: usize, shape: Attention, dropout: Option<&Dropout<'_>>) {
    let tokens = shape.samples * shape.positions;
    assert!(
        y == tokens * shape.width()
            && qkv == tokens * shape.packed()
            && statistics == shape.statistics()
            && dropout.is_none_or(|d| d.samples.len() == shape.samples),
        "KN-1 (shapes): attention {shape:?}"
    );
}
