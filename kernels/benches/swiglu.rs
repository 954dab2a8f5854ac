//! How near is SwiGLU to the memory's speed?

mod common;

use common::{Bench, NAMES, Sizes};
use divan::counter::ItemsCount;
use shoal_kernels::{Layout, Linear};

fn main() {
    divan::main();
}

#[divan::bench(args = NAMES)]
fn forward(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (b, s) = (Bench::new(), Sizes::named(name));
    let (width, len) = (4 * s.width, s.tokens() * 4 * s.width);
    let (gate_up, mut y) = (b.buffer(2 * len), b.buffer(len));
    bencher.counter(ItemsCount::new(len)).bench_local(|| b.device.swiglu(y.view_mut(), gate_up.view(), width));
}

/// Behind the input gradient of the product that follows it.
#[divan::bench(args = NAMES)]
fn backward(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (b, s) = (Bench::new(), Sizes::named(name));
    let shape = Linear { rows: s.tokens(), inputs: 4 * s.width, outputs: s.width, layout: Layout::InOut };
    let (dout, w) = (b.buffer(shape.rows * shape.outputs), b.buffer(shape.inputs * shape.outputs));
    let [mut dy, mut y] = [(); 2].map(|()| b.buffer(shape.rows * shape.inputs));
    let mut gate_up = b.buffer(2 * shape.rows * shape.inputs);
    bencher.counter(ItemsCount::new(2 * shape.rows * shape.inputs * shape.outputs)).bench_local(|| {
        let out = (dy.view_mut(), y.view_mut());
        b.device.linear_swiglu_backward(out, gate_up.view_mut(), dout.view(), w.view(), shape);
    });
}
