//! Linear maps: `y = x W + b` and its three gradients, for both weight layouts.

#[cfg(test)]
mod tests;

use std::ops::Range;

use super::CpuDevice;
use super::class::by_class;
use super::elementwise::add;
use super::matmul::{Size, Strided};
use super::pool::Parts;
use crate::device::{Layout, Linear, Write};

/// Rows whose column sums are taken in one chain before they are added to the total.
pub(super) const ROW_BLOCK: usize = 64;
/// Columns summed together: long enough runs of a row for the memory, few enough for the first cache.
const STRIPE: usize = 512;

/// The weight as `[inputs, outputs]`.
fn as_in_out(weight: &[f32], shape: Linear) -> Strided<&[f32]> {
    match shape.layout {
        Layout::OutIn => Strided::rows(weight, shape.inputs).transposed(),
        Layout::InOut => Strided::rows(weight, shape.outputs),
    }
}

impl CpuDevice {
    pub(crate) fn linear(&self, y: &mut [f32], x: &[f32], weight: &[f32], bias: Option<&[f32]>, shape: Linear) {
        self.linear_then(y, x, (weight, bias), shape, |_, _, _| ());
    }

    /// [`Self::linear`]; `then` gets every run of columns of a row of `y` once, with the row and the columns.
    pub(super) fn linear_then(
        &self,
        y: &mut [f32],
        x: &[f32],
        (weight, bias): (&[f32], Option<&[f32]>),
        shape: Linear,
        then: impl Fn(&mut [f32], usize, Range<usize>) + Sync,
    ) {
        let Linear { rows, inputs, outputs, .. } = shape;
        assert!(
            y.len() == rows * outputs
                && x.len() == rows * inputs
                && weight.len() == inputs * outputs
                && bias.is_none_or(|b| b.len() == outputs),
            "KN-1 (shapes): {shape:?}"
        );
        let size = Size { m: rows, n: outputs, k: inputs };
        let finish = |run: &mut [f32], row: usize, columns: Range<usize>| {
            if let Some(bias) = bias {
                add(self.class, run, &bias[columns.clone()]);
            }
            then(run, row, columns);
        };
        self.matmul(y, Strided::rows(x, inputs), as_in_out(weight, shape), size, Write::Overwrite, finish);
    }

    pub(crate) fn linear_input_gradient(&self, dx: &mut [f32], dy: &[f32], weight: &[f32], shape: Linear) {
        self.linear_input_gradient_then(dx, dy, weight, shape, |_, _, _| ());
    }

    /// [`Self::linear_input_gradient`]; `then` as in [`Self::linear_then`].
    pub(super) fn linear_input_gradient_then(
        &self,
        dx: &mut [f32],
        dy: &[f32],
        weight: &[f32],
        shape: Linear,
        then: impl Fn(&mut [f32], usize, Range<usize>) + Sync,
    ) {
        let Linear { rows, inputs, outputs, .. } = shape;
        assert!(
            dx.len() == rows * inputs && dy.len() == rows * outputs && weight.len() == inputs * outputs,
            "KN-1 (shapes): {shape:?}"
        );
        let size = Size { m: rows, n: inputs, k: outputs };
        let weight = as_in_out(weight, shape).transposed();
        self.matmul(dx, Strided::rows(dy, outputs), weight, size, Write::Overwrite, then);
    }

    pub(crate) fn linear_weight_gradient(&self, dw: &mut [f32], dy: &[f32], x: &[f32], shape: Linear, write: Write) {
        let Linear { rows, inputs, outputs, layout } = shape;
        assert!(
            dw.len() == inputs * outputs && dy.len() == rows * outputs && x.len() == rows * inputs,
            "KN-1 (shapes): {shape:?}"
        );
        let (x, dy) = (Strided::rows(x, inputs), Strided::rows(dy, outputs));
        let (a, b, m, n) = match layout {
            Layout::OutIn => (dy.transposed(), x, outputs, inputs),
            Layout::InOut => (x.transposed(), dy, inputs, outputs),
        };
        self.matmul(dw, a, b, Size { m, n, k: rows }, write, |_, _, _| ());
    }

    pub(crate) fn bias_gradient(&self, dbias: &mut [f32], dy: &[f32], write: Write) {
        let width = dbias.len();
        assert!(width > 0 && dy.len().is_multiple_of(width), "KN-1 (shapes): bias gradient {} of {width}", dy.len());
        let out = Parts::of(dbias);
        self.pool.divide(width, 64, |columns| {
            for start in columns.clone().step_by(STRIPE) {
                let end = (start + STRIPE).min(columns.end);
                // SAFETY: runs of columns of one division are disjoint.
                column_sums(self.class, unsafe { out.part(start..end) }, &dy[start.min(dy.len())..], width, write);
            }
        });
    }
}

by_class! {
    /// Sums of up to [`STRIPE`] columns of rows `width` apart.
    fn column_sums(out: &mut [f32], dy: &[f32], width: usize, write: Write) {
        let columns = out.len();
        let mut total = [0.0_f32; STRIPE];
        for block in dy.chunks(ROW_BLOCK * width) {
            let mut sums = [0.0_f32; STRIPE];
            for row in block.chunks(width) {
                for (sum, x) in sums[..columns].iter_mut().zip(&row[..columns]) {
                    *sum += x;
                }
            }
            for (total, sum) in total[..columns].iter_mut().zip(&sums) {
                *total += sum;
            }
        }
        for (out, total) in out.iter_mut().zip(&total) {
            match write {
                Write::Overwrite => *out = *total,
                Write::Add => *out += total,
            }
        }
    }
}
