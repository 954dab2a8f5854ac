//! RMSNorm (Zhang and Sennrich) over rows as Llama has it: the weight multiplies what was normalised.
//!
//! With `h = x / rms` and `g = dy gamma`: `dx = (g - h mean(g h)) / rms`, `dgamma = sum dy h`. The parameter sums are taken over
//! fixed blocks of rows, then over blocks in order.

#[cfg(test)]
mod tests;

use super::CpuDevice;
use super::class::by_class;
use super::lanes::{LANES, Lanes};
use super::pool::Parts;
use super::rows::{Blocks, add_blocks, row_sum};
use crate::device::Write;

by_class! {
    fn forward(y: &mut [f32], stats: &mut [f32], x: &[f32], gamma: &[f32], epsilon: f32) {
        let width = gamma.len();
        let inverse = 1.0 / width as f32;
        for ((y, stat), x) in y.chunks_exact_mut(width).zip(stats).zip(x.chunks_exact(width)) {
            let mean_square = row_sum(x, |x| x.map(|x| x * x)) * inverse;
            let rrms = 1.0 / (mean_square + epsilon).sqrt();
            *stat = rrms;
            for ((y, &x), &gamma) in y.iter_mut().zip(x).zip(gamma) {
                *y = gamma * (x * rrms);
            }
        }
    }
}

by_class! {
    /// `dx` of a run of rows, and their parameter sums.
    fn backward(
        dx: &mut [f32],
        write: Write,
        dgamma: &mut [f32],
        dy: &[f32],
        x: &[f32],
        stats: &[f32],
        gamma: &[f32],
    ) {
        let width = gamma.len();
        let inverse = 1.0 / width as f32;
        dgamma.fill(0.0);
        let rows = dx.chunks_exact_mut(width).zip(dy.chunks_exact(width)).zip(x.chunks_exact(width));
        for (((dx, dy), x), &rrms) in rows.zip(stats) {
            let mut sum = Lanes::splat(0.0);
            let mut take = |dy: Lanes, x: Lanes, gamma: Lanes| {
                let h = x.map(|x| x * rrms);
                let g = dy.map2(gamma, |dy, gamma| dy * gamma);
                sum = sum.fused(g, h);
            };
            let ((dys, dy_tail), (xs, x_tail)) = (dy.as_chunks::<LANES>(), x.as_chunks::<LANES>());
            let (gammas, gamma_tail) = gamma.as_chunks::<LANES>();
            for ((dy, x), gamma) in dys.iter().zip(xs).zip(gammas) {
                take(Lanes(*dy), Lanes(*x), Lanes(*gamma));
            }
            if !dy_tail.is_empty() {
                take(Lanes::load_tail(dy_tail, 0.0), Lanes::load_tail(x_tail, 0.0), Lanes::load_tail(gamma_tail, 0.0));
            }
            let mean = sum.sum() * inverse;
            for ((dgamma, &dy), &x) in dgamma.iter_mut().zip(dy).zip(x) {
                *dgamma = dy.mul_add(x * rrms, *dgamma);
            }
            match write {
                Write::Overwrite => {
                    for (((dx, &dy), &x), &gamma) in dx.iter_mut().zip(dy).zip(x).zip(gamma) {
                        *dx = rrms * (-(x * rrms)).mul_add(mean, dy * gamma);
                    }
                }
                Write::Add => {
                    for (((dx, &dy), &x), &gamma) in dx.iter_mut().zip(dy).zip(x).zip(gamma) {
                        *dx += rrms * (-(x * rrms)).mul_add(mean, dy * gamma);
                    }
                }
            }
        }
    }
}

impl CpuDevice {
    pub(crate) fn rms_norm(&self, y: &mut [f32], stats: &mut [f32], x: &[f32], gamma: &[f32], epsilon: f32) {
        let width = gamma.len();
        let rows = x.len() / width;
        assert!(
            x.len() == rows * width && y.len() == x.len() && stats.len() == rows,
            "KN-1 (shapes): rms norm {} of {width}",
            x.len()
        );
        let (y, stats) = (Parts::of(y), Parts::of(stats));
        self.pool.divide(rows, 16, |run| {
            let span = run.start * width..run.end * width;
            // SAFETY: runs of rows of one division are disjoint.
            let (y, stats) = unsafe { (y.part(span.clone()), stats.part(run)) };
            forward(self.class, y, stats, &x[span], gamma, epsilon);
        });
    }

    pub(crate) fn rms_norm_backward(
        &self,
        (dx, dx_write): (&mut [f32], Write),
        (dgamma, write): (&mut [f32], Write),
        dy: &[f32],
        (x, stats): (&[f32], &[f32]),
        gamma: &[f32],
    ) {
        let width = gamma.len();
        let rows = x.len() / width;
        assert!(
            x.len() == rows * width
                && dx.len() == x.len()
                && dy.len() == x.len()
                && stats.len() == rows
                && dgamma.len() == width,
            "KN-1 (shapes): rms norm backward {} of {width}",
            x.len()
        );
        let blocks = Blocks::of(rows, width);
        let mut scratch = self.shared_scratch();
        let scratch = &mut scratch.view_mut().into_host()[..blocks.count * width];
        {
            let (sums, dx) = (Parts::of(scratch), Parts::of(dx));
            self.pool.each(blocks.count, |b| {
                let run = blocks.rows(b);
                let span = run.start * width..run.end * width;
                // SAFETY: blocks are disjoint.
                let (dx, sums) = unsafe { (dx.part(span.clone()), sums.part(b * width..(b + 1) * width)) };
                backward(self.class, dx, dx_write, sums, &dy[span.clone()], &x[span], &stats[run], gamma);
            });
        }
        add_blocks(self.class, dgamma, scratch, width, 0, write);
    }
}
