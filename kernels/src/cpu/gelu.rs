//! GELU, the tanh form (Hendrycks and Gimpel; GPT-2's `gelu_new`), as `x sigmoid(2 u)`, which is the same function:
//! `u = sqrt(2/pi) (x + 0.044715 x^3)`, `0.5 (1 + tanh u) = 1 / (1 + e^(-2u))`.

#[cfg(test)]
mod tests;

use super::CpuDevice;
use super::class::by_class;
use super::elementwise::GRAIN;
use super::math::exp;
use super::pool::Parts;
use crate::device::Linear;

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
    /// `y` gets the function at `x`, and `dx` is multiplied by its derivative there.
    fn backward(dx: &mut [f32], y: &mut [f32], x: &[f32]) {
        for ((dx, y), &x) in dx.iter_mut().zip(y).zip(x) {
            let square = x * x;
            let s = sigmoid_of_twice_u(x, square);
            // d(2u)/dx = TWICE + 3 TWICE_CUBIC x^2; s' = s (1 - s) d(2u)/dx.
            let slope = square.mul_add(3.0 * TWICE_CUBIC, TWICE);
            *y = x * s;
            *dx *= (x * slope).mul_add(s * (1.0 - s), s);
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

    pub(crate) fn linear_gelu(
        &self,
        (y, hidden): (&mut [f32], &mut [f32]),
        x: &[f32],
        map: (&[f32], Option<&[f32]>),
        shape: Linear,
    ) {
        assert_eq!(y.len(), hidden.len(), "KN-1 (shapes): gelu of {shape:?}");
        let y = Parts::of(y);
        self.linear_then(hidden, x, map, shape, |hidden, row, columns| {
            let at = row * shape.outputs;
            // SAFETY: every run of columns of a row comes once.
            forward(self.class, unsafe { y.part(at + columns.start..at + columns.end) }, hidden);
        });
    }

    pub(crate) fn linear_gelu_backward(
        &self,
        (dhidden, y): (&mut [f32], &mut [f32]),
        hidden: &[f32],
        dy: &[f32],
        weight: &[f32],
        shape: Linear,
    ) {
        assert!(y.len() == hidden.len() && y.len() == dhidden.len(), "KN-1 (shapes): gelu backward of {shape:?}");
        let y = Parts::of(y);
        self.linear_input_gradient_then(dhidden, dy, weight, shape, |dhidden, row, columns| {
            let run = row * shape.inputs + columns.start..row * shape.inputs + columns.end;
            // SAFETY: every run of columns of a row comes once.
            backward(self.class, dhidden, unsafe { y.part(run.clone()) }, &hidden[run]);
        });
    }
}
