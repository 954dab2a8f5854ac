//! AdamW with decoupled decay (Loshchilov and Hutter), in a written order of multiply, add, divide and root, none fused, so that
//! every class and every other device can give the same bits.

#[cfg(test)]
mod tests;

use super::CpuDevice;
use super::class::by_class;
use super::elementwise::GRAIN;
use super::pool::Parts;
use crate::device::AdamW;

by_class! {
    fn update(w: &mut [f32], m: &mut [f32], v: &mut [f32], g: &[f32], s: &AdamW, decay: f32) {
        let (rest1, rest2) = (1.0 - s.beta1, 1.0 - s.beta2);
        for (((w, m), v), &g) in w.iter_mut().zip(m.iter_mut()).zip(v.iter_mut()).zip(g) {
            let g = g * s.scale;
            let first = s.beta1 * *m + rest1 * g;
            let second = s.beta2 * *v + rest2 * (g * g);
            let denominator = second.sqrt() / s.root_correction + s.epsilon;
            *w = *w * decay - (s.step_size * first) / denominator;
            *m = first;
            *v = second;
        }
    }
}

impl CpuDevice {
    pub(crate) fn adamw(
        &self,
        weight: &mut [f32],
        (moment1, moment2): (&mut [f32], &mut [f32]),
        gradient: &[f32],
        scalars: &AdamW,
        decayed: bool,
    ) {
        let len = gradient.len();
        assert!(
            weight.len() == len && moment1.len() == len && moment2.len() == len,
            "KN-1 (shapes): adamw {} {} {} {len}",
            weight.len(),
            moment1.len(),
            moment2.len()
        );
        // Multiplying by one changes no bit.
        let decay = if decayed { scalars.decay } else { 1.0 };
        let (w, m, v) = (Parts::of(weight), Parts::of(moment1), Parts::of(moment2));
        self.pool.divide(len, GRAIN, |run| {
            // SAFETY: runs of one division are disjoint.
            let (w, m, v) = unsafe { (w.part(run.clone()), m.part(run.clone()), v.part(run.clone())) };
            update(self.class, w, m, v, &gradient[run], scalars, decay);
        });
    }
}
