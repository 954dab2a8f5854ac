//! GELU, the tanh form (Hendrycks and Gimpel; GPT-2's `gelu_new`), as `x sigmoid(2 u)`, which is the same function:
//! `u = sqrt(2/pi) (x + 0.044715 x^3)`, `0.5 (1 + tanh u) = 1 / (1 + e^(-2u))`.

#[cfg(test)]
mod tests;

use super::CpuDevice;
use super::class::by_class;
use super::elementwise::GRAIN;
use super::math::exp;
use super::pool::Parts;

/// 2 sqrt(2/pi).
const TWICE: f32 = 1.595_769;
/// `TWICE` times 0.044715.
const TWICE_CUBIC: f32 = 0.071_354_816;

#[inline(always)]
fn sigmoid_of_twice_u(x: f32, square: f32) -> f32 {
    let twice_u = x * square.mul_add(TWICE_CUBIC, TWICE);
    1.0 / (1.0 + exp(-twice_u))
}

by_class! {
    fn forward(y: &mut [f32], x: &[f32]) {
        for (y, &x) in y.iter_mut().zip(x) {
            *y = x * sigmoid_of_twice_u(x, x * x);
        }
    }
}

by_class! {
    /// `y` gets the function at `x`, and `x` becomes its derivative there.
    fn with_slope(y: &mut [f32], x: &mut [f32]) {
        for (y, x) in y.iter_mut().zip(x) {
            let at = *x;
            let square = at * at;
            let s = sigmoid_of_twice_u(at, square);
            // d(2u)/dx = TWICE + 3 TWICE_CUBIC x^2; s' = s (1 - s) d(2u)/dx.
            let slope = square.mul_add(3.0 * TWICE_CUBIC, TWICE);
            *y = at * s;
            *x = (at * slope).mul_add(s * (1.0 - s), s);
        }
    }
}

impl CpuDevice {
    pub(crate) fn gelu(&self, y: &mut [f32], x: &[f32]) {
        assert_eq!(y.len(), x.len(), "KN-1 (shapes): gelu");
        let y = Parts::of(y);
        // SAFETY: runs of one division are disjoint.
        self.pool.divide(x.len(), GRAIN, |run| forward(self.class, unsafe { y.part(run.clone()) }, &x[run]));
    }

    pub(crate) fn gelu_with_slope(&self, y: &mut [f32], x: &mut [f32]) {
        assert_eq!(y.len(), x.len(), "KN-1 (shapes): gelu with slope");
        let len = y.len();
        let (y, x) = (Parts::of(y), Parts::of(x));
        self.pool.divide(len, GRAIN, |run| {
            // SAFETY: runs of one division are disjoint.
            unsafe { with_slope(self.class, y.part(run.clone()), x.part(run)) }
        });
    }
}
