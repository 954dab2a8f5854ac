//! What is inside an MLP: activations alone, and with the product beside them.

use shoal_kernels::Linear;

use super::{Case, Work, buffers, case, passes};

/// Reads one element and writes one.
pub(super) fn gelu(rows: usize, width: usize) -> Case {
    case("gelu", format!("{rows} x {width}"), passes(2, rows * width), move |device, arena| {
        let [x, mut y] = buffers(device, arena, [rows * width; 2])?;
        Ok(Box::new(move |device| device.gelu(y.view_mut(), x.view())))
    })
}

/// Reads two elements and writes one.
pub(super) fn swiglu(rows: usize, width: usize) -> Case {
    case("swiglu", format!("{rows} x {width}"), passes(3, rows * width), move |device, arena| {
        let [gate_up, mut y] = buffers(device, arena, [2 * rows * width, rows * width])?;
        Ok(Box::new(move |device| device.swiglu(y.view_mut(), gate_up.view(), width)))
    })
}

/// The product into the MLP and its activation; the product is what counts.
pub(super) fn linear_gelu(shape: Linear) -> Case {
    let Linear { rows, inputs, outputs, .. } = shape;
    case("linear_gelu", named(shape), product(shape), move |device, arena| {
        let [x, weight] = buffers(device, arena, [rows * inputs, inputs * outputs])?;
        let [mut y, mut hidden] = buffers(device, arena, [rows * outputs; 2])?;
        Ok(Box::new(move |device| {
            device.linear_gelu((y.view_mut(), hidden.view_mut()), x.view(), (weight.view(), None), shape);
        }))
    })
}

/// The input gradient of the product out of the MLP, and of the activation before it.
pub(super) fn linear_gelu_backward(shape: Linear) -> Case {
    let Linear { rows, inputs, outputs, .. } = shape;
    case("linear_gelu_backward", named(shape), product(shape), move |device, arena| {
        let [dout, weight] = buffers(device, arena, [rows * outputs, inputs * outputs])?;
        let [mut dhidden, mut y, hidden] = buffers(device, arena, [rows * inputs; 3])?;
        Ok(Box::new(move |device| {
            let out = (dhidden.view_mut(), y.view_mut());
            device.linear_gelu_backward(out, hidden.view(), dout.view(), weight.view(), shape);
        }))
    })
}

/// As [`linear_gelu_backward`].
pub(super) fn linear_swiglu_backward(shape: Linear) -> Case {
    let Linear { rows, inputs, outputs, .. } = shape;
    case("linear_swiglu_backward", named(shape), product(shape), move |device, arena| {
        let [dout, weight] = buffers(device, arena, [rows * outputs, inputs * outputs])?;
        let [mut dy, mut y, mut gate_up] = buffers(device, arena, [rows * inputs, rows * inputs, 2 * rows * inputs])?;
        Ok(Box::new(move |device| {
            let out = (dy.view_mut(), y.view_mut());
            device.linear_swiglu_backward(out, gate_up.view_mut(), dout.view(), weight.view(), shape);
        }))
    })
}

fn named(Linear { rows, inputs, outputs, .. }: Linear) -> String {
    format!("{rows} x {inputs} -> {outputs}")
}

fn product(Linear { rows, inputs, outputs, .. }: Linear) -> Work {
    Work::Product(2.0 * (rows * inputs * outputs) as f64)
}
