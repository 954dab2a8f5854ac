//! Adam with decay added to the gradient (Kingma and Ba) or decoupled from it (AdamW, Loshchilov and Hutter), in a written order
//! of multiply, add, divide and root, none fused, so that every class and every other device can give the same bits.

#[cfg(test)]
mod tests;

use super::CpuDevice;
use super::class::by_class;
use super::elementwise::GRAIN;
use super::pool::Parts;
use crate::device::{Adam, Decay};

by_class! {
    fn decoupled(w: &mut [f32], m: &mut [f32], v: &mut [f32], g: &[f32], s: &Adam, kept: f32) {
        for (((w, m), v), &g) in w.iter_mut().zip(m.iter_mut()).zip(v.iter_mut()).zip(g) {
            update(w, m, v, g * s.scale, s, kept);
        }
    }
}

by_class! {
    fn added(w: &mut [f32], m: &mut [f32], v: &mut [f32], g: &[f32], s: &Adam, decay: f32) {
        for (((w, m), v), &g) in w.iter_mut().zip(m.iter_mut()).zip(v.iter_mut()).zip(g) {
            let g = g * s.scale + decay * *w;
            update(w, m, v, g, s, 1.0);
        }
    }
}

#[inline(always)]
fn update(w: &mut f32, m: &mut f32, v: &mut f32, g: f32, s: &Adam, kept: f32) {
    let first = s.beta1 * *m + (1.0 - s.beta1) * g;
    let second = s.beta2 * *v + (1.0 - s.beta2) * (g * g);
    let denominator = second.sqrt() / s.root_correction + s.epsilon;
    // Multiplying by one changes no bit.
    *w = *w * kept - (s.step_size * first) / denominator;
    *m = first;
    *v = second;
}

impl CpuDevice {
    pub(crate) fn adam(
        &self,
        weight: &mut [f32],
        (moment1, moment2): (&mut [f32], &mut [f32]),
        gradient: &[f32],
        scalars: &Adam,
    ) {
        let len = gradient.len();
        assert!(
            weight.len() == len && moment1.len() == len && moment2.len() == len,
            "KN-1 (shapes): adam {} {} {} {len}",
            weight.len(),
            moment1.len(),
            moment2.len()
        );
        let (w, m, v) = (Parts::of(weight), Parts::of(moment1), Parts::of(moment2));
        self.pool.divide(len, GRAIN, |run| {
            // SAFETY: runs of one division are disjoint.
            let (w, m, v) = unsafe { (w.part(run.clone()), m.part(run.clone()), v.part(run.clone())) };
            match scalars.decay {
                Decay::Kept(kept) => decoupled(self.class, w, m, v, &gradient[run], scalars, kept),
                Decay::Added(decay) => added(self.class, w, m, v, &gradient[run], scalars, decay),
            }
        });
    }
}
