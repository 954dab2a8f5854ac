//! SwiGLU (Shazeer): `silu(gate) up`, with `silu(x) = x / (1 + e^-x)`; a packed row is the gate, then what it lets up.

#[cfg(test)]
mod tests;

use super::CpuDevice;
use super::class::by_class;
use super::math::exp;
use super::pool::Parts;
use crate::device::Linear;

#[inline(always)]
fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

by_class! {
    fn forward(y: &mut [f32], gate_up: &[f32], width: usize) {
        for (y, packed) in y.chunks_exact_mut(width).zip(gate_up.chunks_exact(2 * width)) {
            let (gate, up) = packed.split_at(width);
            for ((y, &gate), &up) in y.iter_mut().zip(gate).zip(up) {
                *y = (gate * sigmoid(gate)) * up;
            }
        }
    }
}

by_class! {
    /// `y` gets the output again, and gate and up become their gradients.
    fn backward(y: &mut [f32], gate: &mut [f32], up: &mut [f32], dy: &[f32]) {
        for (((y, gate), up), &dy) in y.iter_mut().zip(gate).zip(up).zip(dy) {
            let s = sigmoid(*gate);
            let silu = *gate * s;
            *y = silu * *up;
            // silu' = s + x s (1 - s).
            *gate = (dy * *up) * silu.mul_add(1.0 - s, s);
            *up = dy * silu;
        }
    }
}

impl CpuDevice {
    pub(crate) fn swiglu(&self, y: &mut [f32], gate_up: &[f32], width: usize) {
        let rows = check(y.len(), gate_up.len(), width);
        let y = Parts::of(y);
        self.pool.divide(rows, 1, |run| {
            // SAFETY: runs of rows of one division are disjoint.
            let y = unsafe { y.part(run.start * width..run.end * width) };
            forward(self.class, y, &gate_up[run.start * 2 * width..run.end * 2 * width], width);
        });
    }

    pub(crate) fn linear_swiglu_backward(
        &self,
        (dy, y): (&mut [f32], &mut [f32]),
        gate_up: &mut [f32],
        dout: &[f32],
        weight: &[f32],
        shape: Linear,
    ) {
        let width = shape.inputs;
        check(y.len(), gate_up.len(), width);
        assert_eq!(dy.len(), y.len(), "KN-1 (shapes): swiglu backward of {shape:?}");
        let (y, gate_up) = (Parts::of(y), Parts::of(gate_up));
        self.linear_input_gradient_then(dy, dout, weight, shape, |dy, row, columns| {
            let run = |at: usize| at + columns.start..at + columns.end;
            // SAFETY: every run of columns of a row comes once, and gate and up do not overlap.
            let (y, gate, up) = unsafe {
                let packed = 2 * row * width;
                (y.part(run(row * width)), gate_up.part(run(packed)), gate_up.part(run(packed + width)))
            };
            backward(self.class, y, gate, up, dy);
        });
    }
}

/// Rows of a packed input of two times `width`.
fn check(y: usize, gate_up: usize, width: usize) -> usize {
    let rows = y / width.max(1);
    assert!(width > 0 && y == rows * width && gate_up == 2 * y, "KN-1 (shapes): swiglu {gate_up} of {width}");
    rows
}
