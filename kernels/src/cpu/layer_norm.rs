//! LayerNorm (Ba, Kiros and Hinton) over rows, forward and backward in one pass each over memory.
//!
//! With `h = (x - mean) rstd` and `g = dy gamma`: `dx = rstd (g - mean(g) - h mean(g h))`, `dgamma = sum dy h`, `dbeta = sum dy`.
//! The parameter sums are taken over fixed blocks of rows, then over blocks in order.

#[cfg(test)]
mod tests;

use super::CpuDevice;
use super::class::by_class;
use super::lanes::{LANES, Lanes};
use super::pool::Parts;
use super::rows::{Blocks, add_blocks, row_sum};
use crate::device::Write;

by_class! {
    fn forward(y: &mut [f32], stats: &mut [f32], x: &[f32], gamma: &[f32], beta: Option<&[f32]>, epsilon: f32) {
        let width = gamma.len();
        let inverse = 1.0 / width as f32;
        for ((y, stats), x) in y.chunks_exact_mut(width).zip(stats.chunks_exact_mut(2)).zip(x.chunks_exact(width)) {
            let mean = row_sum(x, |x| x) * inverse;
            let variance = row_sum(x, |x| x.map(|x| (x - mean) * (x - mean))) * inverse;
            let rstd = 1.0 / (variance + epsilon).sqrt();
            stats.copy_from_slice(&[mean, rstd]);
            match beta {
                Some(beta) => {
                    for (((y, &x), &gamma), &beta) in y.iter_mut().zip(x).zip(gamma).zip(beta) {
                        *y = ((x - mean) * rstd).mul_add(gamma, beta);
                    }
                }
                None => {
                    for ((y, &x), &gamma) in y.iter_mut().zip(x).zip(gamma) {
                        *y = (x - mean) * rstd * gamma;
                    }
                }
            }
        }
    }
}

by_class! {
    /// `dx` of a run of rows, and their parameter sums.
    fn backward(
        dx: &mut [f32],
        write: Write,
        sums: &mut [f32],
        dy: &[f32],
        x: &[f32],
        stats: &[f32],
        gamma: &[f32],
    ) {
        let width = gamma.len();
        let inverse = 1.0 / width as f32;
        let (dgamma, dbeta) = sums.split_at_mut(width);
        dgamma.fill(0.0);
        dbeta.fill(0.0);
        let rows = dx.chunks_exact_mut(width).zip(dy.chunks_exact(width)).zip(x.chunks_exact(width));
        for (((dx, dy), x), stats) in rows.zip(stats.chunks_exact(2)) {
            let (mean, rstd) = (stats[0], stats[1]);
            let (mut sum_g, mut sum_gh) = (Lanes::splat(0.0), Lanes::splat(0.0));
            let mut take = |dy: Lanes, x: Lanes, gamma: Lanes| {
                let h = x.map(|x| (x - mean) * rstd);
                let g = dy.map2(gamma, |dy, gamma| dy * gamma);
                sum_g = sum_g.add(g);
                sum_gh = sum_gh.fused(g, h);
            };
            let ((dys, dy_tail), (xs, x_tail)) = (dy.as_chunks::<LANES>(), x.as_chunks::<LANES>());
            let (gammas, gamma_tail) = gamma.as_chunks::<LANES>();
            for ((dy, x), gamma) in dys.iter().zip(xs).zip(gammas) {
                take(Lanes(*dy), Lanes(*x), Lanes(*gamma));
            }
            if !dy_tail.is_empty() {
                // Missing elements have g = 0; x is the mean, so that h is 0 too.
                take(Lanes::load_tail(dy_tail, 0.0), Lanes::load_tail(x_tail, mean), Lanes::load_tail(gamma_tail, 0.0));
            }
            let (mean_g, mean_gh) = (sum_g.sum() * inverse, sum_gh.sum() * inverse);
            for (((dgamma, dbeta), &dy), &x) in dgamma.iter_mut().zip(dbeta.iter_mut()).zip(dy).zip(x) {
                let h = (x - mean) * rstd;
                *dgamma = dy.mul_add(h, *dgamma);
                *dbeta += dy;
            }
            match write {
                Write::Overwrite => {
                    for (((dx, &dy), &x), &gamma) in dx.iter_mut().zip(dy).zip(x).zip(gamma) {
                        let h = (x - mean) * rstd;
                        *dx = rstd * (-h).mul_add(mean_gh, dy * gamma - mean_g);
                    }
                }
                Write::Add => {
                    for (((dx, &dy), &x), &gamma) in dx.iter_mut().zip(dy).zip(x).zip(gamma) {
                        let h = (x - mean) * rstd;
                        *dx += rstd * (-h).mul_add(mean_gh, dy * gamma - mean_g);
                    }
                }
            }
        }
    }
}

impl CpuDevice {
    pub(crate) fn layer_norm(
        &self,
        y: &mut [f32],
        stats: &mut [f32],
        x: &[f32],
        (gamma, beta): (&[f32], Option<&[f32]>),
        epsilon: f32,
    ) {
        let width = gamma.len();
        let rows = x.len() / width;
        assert!(
            x.len() == rows * width
                && y.len() == x.len()
                && stats.len() == 2 * rows
                && beta.is_none_or(|beta| beta.len() == width),
            "KN-1 (shapes): layer norm {} of {width}",
            x.len()
        );
        let (y, stats) = (Parts::of(y), Parts::of(stats));
        self.pool.divide(rows, 8, |run| {
            // SAFETY: runs of rows of one division are disjoint.
            let (y, stats) =
                unsafe { (y.part(run.start * width..run.end * width), stats.part(2 * run.start..2 * run.end)) };
            forward(self.class, y, stats, &x[run.start * width..run.end * width], gamma, beta, epsilon);
        });
    }

    pub(crate) fn layer_norm_backward(
        &self,
        (dx, dx_write): (&mut [f32], Write),
        (dgamma, dbeta, write): (&mut [f32], Option<&mut [f32]>, Write),
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
                && stats.len() == 2 * rows
                && dgamma.len() == width
                && dbeta.as_ref().is_none_or(|dbeta| dbeta.len() == width),
            "KN-1 (shapes): layer norm backward {} of {width}",
            x.len()
        );
        let blocks = Blocks::of(rows, 2 * width);
        let mut scratch = self.shared_scratch();
        let scratch = &mut scratch.view_mut().into_host()[..blocks.count * 2 * width];
        {
            let (sums, dx) = (Parts::of(scratch), Parts::of(dx));
            self.pool.each(blocks.count, |b| {
                let run = blocks.rows(b);
                let span = run.start * width..run.end * width;
                // SAFETY: blocks are disjoint.
                let (dx, sums) = unsafe { (dx.part(span.clone()), sums.part(b * 2 * width..(b + 1) * 2 * width)) };
                let stats = &stats[2 * run.start..2 * run.end];
                backward(self.class, dx, dx_write, sums, &dy[span.clone()], &x[span], stats, gamma);
            });
        }
        // Few enough numbers that one thread adds them.
        for (half, out) in std::iter::once(dgamma).chain(dbeta).enumerate() {
            add_blocks(self.class, out, scratch, 2 * width, half * width, write);
        }
    }
}
