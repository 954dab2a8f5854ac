//! RMSProp (Tieleman and Hinton), in a written order of multiply, add, divide and root, none fused.

#[cfg(test)]
mod tests;

use super::CpuDevice;
use super::class::by_class;
use super::elementwise::GRAIN;
use super::pool::Parts;
use crate::device::RmsProp;

by_class! {
    fn plain(w: &mut [f32], v: &mut [f32], g: &[f32], s: &RmsProp) {
        for ((w, v), &g) in w.iter_mut().zip(v.iter_mut()).zip(g) {
            *w -= s.rate * direction(*w, v, g, s);
        }
    }
}

by_class! {
    fn with_momentum(w: &mut [f32], v: &mut [f32], b: &mut [f32], g: &[f32], s: &RmsProp, share: f32) {
        for (((w, v), b), &g) in w.iter_mut().zip(v.iter_mut()).zip(b.iter_mut()).zip(g) {
            *b = share * *b + direction(*w, v, g, s);
            *w -= s.rate * *b;
        }
    }
}

#[inline(always)]
fn direction(w: f32, v: &mut f32, g: f32, s: &RmsProp) -> f32 {
    let g = g * s.scale + s.decay * w;
    *v = s.alpha * *v + (1.0 - s.alpha) * (g * g);
    g / (v.sqrt() + s.epsilon)
}

impl CpuDevice {
    pub(crate) fn rmsprop(
        &self,
        weight: &mut [f32],
        squares: &mut [f32],
        momentum: Option<(&mut [f32], f32)>,
        gradient: &[f32],
        scalars: &RmsProp,
    ) {
        let len = gradient.len();
        let sums = momentum.as_ref().map_or(len, |(sum, _)| sum.len());
        assert!(
            weight.len() == len && squares.len() == len && sums == len,
            "KN-1 (shapes): rmsprop {} {} {sums} {len}",
            weight.len(),
            squares.len()
        );
        let (w, v) = (Parts::of(weight), Parts::of(squares));
        let momentum = momentum.map(|(sum, share)| (Parts::of(sum), share));
        self.pool.divide(len, GRAIN, |run| {
            // SAFETY: runs of one division are disjoint.
            let (w, v) = unsafe { (w.part(run.clone()), v.part(run.clone())) };
            let Some((sums, share)) = &momentum else { return plain(self.class, w, v, &gradient[run], scalars) };
            // SAFETY: as above.
            let b = unsafe { sums.part(run.clone()) };
            with_momentum(self.class, w, v, b, &gradient[run], scalars, *share);
        });
    }
}
