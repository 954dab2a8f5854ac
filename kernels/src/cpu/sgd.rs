//! Gradient descent with momentum or without, in a written order of multiplications and additions, none fused.

#[cfg(test)]
mod tests;

use super::CpuDevice;
use super::class::by_class;
use super::elementwise::GRAIN;
use super::pool::Parts;
use crate::device::{Momentum, Sgd};

by_class! {
    fn plain(w: &mut [f32], g: &[f32], s: &Sgd) {
        for (w, &g) in w.iter_mut().zip(g) {
            let g = g * s.scale + s.decay * *w;
            *w -= s.rate * g;
        }
    }
}

by_class! {
    fn classic(w: &mut [f32], b: &mut [f32], g: &[f32], s: &Sgd, share: f32) {
        for ((w, b), &g) in w.iter_mut().zip(b.iter_mut()).zip(g) {
            let g = g * s.scale + s.decay * *w;
            *b = share * *b + g;
            *w -= s.rate * *b;
        }
    }
}

by_class! {
    fn nesterov(w: &mut [f32], b: &mut [f32], g: &[f32], s: &Sgd, share: f32) {
        for ((w, b), &g) in w.iter_mut().zip(b.iter_mut()).zip(g) {
            let g = g * s.scale + s.decay * *w;
            *b = share * *b + g;
            *w -= s.rate * (g + share * *b);
        }
    }
}

impl CpuDevice {
    pub(crate) fn sgd(
        &self,
        weight: &mut [f32],
        momentum: Option<(&mut [f32], Momentum)>,
        gradient: &[f32],
        scalars: &Sgd,
    ) {
        let len = gradient.len();
        let sums = momentum.as_ref().map_or(len, |(sum, _)| sum.len());
        assert!(weight.len() == len && sums == len, "KN-1 (shapes): sgd {} {sums} {len}", weight.len());
        let w = Parts::of(weight);
        let momentum = momentum.map(|(sum, momentum)| (Parts::of(sum), momentum));
        self.pool.divide(len, GRAIN, |run| {
            // SAFETY: runs of one division are disjoint.
            let w = unsafe { w.part(run.clone()) };
            let Some((sums, momentum)) = &momentum else { return plain(self.class, w, &gradient[run], scalars) };
            // SAFETY: as above.
            let b = unsafe { sums.part(run.clone()) };
            match *momentum {
                Momentum::Classic(share) => classic(self.class, w, b, &gradient[run], scalars, share),
                Momentum::Nesterov(share) => nesterov(self.class, w, b, &gradient[run], scalars, share),
            }
        });
    }
}
