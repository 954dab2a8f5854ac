//! Inside an MLP: activations, alone or while caches still hold what the product before them gave.

use super::{Device, Linear, View, ViewMut};

impl Device {
    /// `y = gelu(x)`, the tanh form.
    pub fn gelu(&self, y: ViewMut<'_>, x: View<'_>) {
        match self {
            Self::Cpu(cpu) => cpu.gelu(y.into_host(), x.host()),
        }
    }

    /// `hidden = x W + bias` as [`Self::linear`] gives it, and `y = gelu(hidden)`, while caches hold it.
    pub fn linear_gelu(
        &self,
        (y, hidden): (ViewMut<'_>, ViewMut<'_>),
        x: View<'_>,
        (weight, bias): (View<'_>, Option<View<'_>>),
        shape: Linear,
    ) {
        match self {
            Self::Cpu(cpu) => {
                let map = (weight.host(), bias.map(View::host));
                cpu.linear_gelu((y.into_host(), hidden.into_host()), x.host(), map, shape);
            }
        }
    }

    /// Backward of `gelu(hidden)` and the map behind it: `y = gelu(hidden)` again, with the same bits, and `dhidden`, both `[rows,
    /// inputs]`, from `dout [rows, outputs]`.
    pub fn linear_gelu_backward(
        &self,
        (dhidden, y): (ViewMut<'_>, ViewMut<'_>),
        hidden: View<'_>,
        dout: View<'_>,
        weight: View<'_>,
        shape: Linear,
    ) {
        match self {
            Self::Cpu(cpu) => {
                let out = (dhidden.into_host(), y.into_host());
                cpu.linear_gelu_backward(out, hidden.host(), dout.host(), weight.host(), shape);
            }
        }
    }

    /// `y [rows, width] = silu(gate) up` from the packed `gate_up [rows, 2 width]`, the gate first.
    pub fn swiglu(&self, y: ViewMut<'_>, gate_up: View<'_>, width: usize) {
        match self {
            Self::Cpu(cpu) => cpu.swiglu(y.into_host(), gate_up.host(), width),
        }
    }

    /// Backward of [`Self::swiglu`] and the map behind it: `y` again, with the same bits, its gradient `dy`, both `[rows, inputs]`,
    /// and `gate_up` becomes its gradient, from `dout [rows, outputs]`.
    pub fn linear_swiglu_backward(
        &self,
        (dy, y): (ViewMut<'_>, ViewMut<'_>),
        gate_up: ViewMut<'_>,
        dout: View<'_>,
        weight: View<'_>,
        shape: Linear,
    ) {
        match self {
            Self::Cpu(cpu) => {
                let out = (dy.into_host(), y.into_host());
                cpu.linear_swiglu_backward(out, gate_up.into_host(), dout.host(), weight.host(), shape);
            }
        }
    }
}
