//! One matrix product, timed.

use std::time::Instant;

use shoal_kernels::{Device, Layout, Linear, View, ViewMut};

/// Side of the square product that stands for what the machine can do.
const SIDE: usize = 2048;

/// That product.
pub(super) const SQUARE: Linear = Linear { rows: SIDE, inputs: SIDE, outputs: SIDE, layout: Layout::InOut };

/// GFLOP/s of a product of the first elements of these.
pub(super) fn rate(device: &Device, shape: Linear, y: ViewMut<'_>, (x, weight): (View<'_>, View<'_>)) -> f64 {
    let Linear { rows, inputs, outputs, .. } = shape;
    let (x, weight) = (x.range(0..rows * inputs), weight.range(0..inputs * outputs));
    let y = y.range(0..rows * outputs);
    let start = Instant::now();
    device.enter(|| device.linear(y, x, weight, None, shape));
    2e-9 * (rows * inputs * outputs) as f64 / start.elapsed().as_secs_f64()
}
