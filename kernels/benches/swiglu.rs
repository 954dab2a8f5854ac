//! How near is SwiGLU to the memory's speed?

mod common;

use common::{Bench, NAMES, Sizes};
use divan::counter::ItemsCount;

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

#[divan::bench(args = NAMES)]
fn backward(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (b, s) = (Bench::new(), Sizes::named(name));
    let (width, len) = (4 * s.width, s.tokens() * 4 * s.width);
    let (mut gate_up, mut y, dy) = (b.buffer(2 * len), b.buffer(len), b.buffer(len));
    bencher
        .counter(ItemsCount::new(len))
        .bench_local(|| b.device.swiglu_backward(y.view_mut(), gate_up.view_mut(), dy.view(), width));
}
