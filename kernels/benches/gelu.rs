//! How near is GELU to the memory's speed?

mod common;

use common::{Bench, NAMES, Sizes};
use divan::counter::ItemsCount;
use shoal_kernels::{Layout, Linear};

fn main() {
    divan::main();
}

fn len_of(name: &str) -> usize {
    let s = Sizes::named(name);
    s.tokens() * 4 * s.width
}

#[divan::bench(args = NAMES)]
fn forward(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (b, len) = (Bench::new(), len_of(name));
    let (x, mut y) = (b.buffer(len), b.buffer(len));
    bencher.counter(ItemsCount::new(len)).bench_local(|| b.device.gelu(y.view_mut(), x.view()));
}

/// Behind the product that makes its input: what does it add to `linear`'s `fc`?
#[divan::bench(args = NAMES)]
fn behind_a_product(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (b, s) = (Bench::new(), Sizes::named(name));
    let shape = Linear { rows: s.tokens(), inputs: s.width, outputs: 4 * s.width, layout: Layout::OutIn };
    let (x, w) = (b.buffer(shape.rows * shape.inputs), b.buffer(shape.inputs * shape.outputs));
    let (mut y, mut hidden) = (b.buffer(shape.rows * shape.outputs), b.buffer(shape.rows * shape.outputs));
    bencher.counter(ItemsCount::new(2 * shape.rows * shape.inputs * shape.outputs)).bench_local(|| {
        b.device.linear_gelu((y.view_mut(), hidden.view_mut()), x.view(), (w.view(), None), shape);
    });
}

/// Behind the input gradient of the product that follows it.
#[divan::bench(args = NAMES)]
fn backward(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (b, s) = (Bench::new(), Sizes::named(name));
    let shape = Linear { rows: s.tokens(), inputs: 4 * s.width, outputs: s.width, layout: Layout::InOut };
    let (dout, w) = (b.buffer(shape.rows * shape.outputs), b.buffer(shape.inputs * shape.outputs));
    let [hidden, mut dhidden, mut y] = [(); 3].map(|()| b.buffer(shape.rows * shape.inputs));
    bencher.counter(ItemsCount::new(2 * shape.rows * shape.inputs * shape.outputs)).bench_local(|| {
        let out = (dhidden.view_mut(), y.view_mut());
        b.device.linear_gelu_backward(out, hidden.view(), dout.view(), w.view(), shape);
    });
}
