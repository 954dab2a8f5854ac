//! What does an update cost a parameter?

mod common;

use common::{Bench, NAMES, Sizes};
use divan::counter::ItemsCount;
use shoal_kernels::{Adam, Decay};

fn main() {
    divan::main();
}

#[divan::bench(args = NAMES)]
fn update(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (b, width) = (Bench::new(), Sizes::named(name).width);
    let len = 12 * width * width;
    let (mut w, mut m, g) = (b.buffer(len), b.buffer(len), b.buffer(len));
    let mut v = b.buffer(len);
    b.device.fill(v.view_mut(), 0.25);
    let scalars = Adam {
        scale: 0.01,
        decay: Decay::Kept(0.9999),
        step_size: 1e-4,
        root_correction: 0.9,
        beta1: 0.9,
        beta2: 0.95,
        epsilon: 1e-8,
    };
    bencher.counter(ItemsCount::new(len)).bench_local(|| {
        b.device.adam(w.view_mut(), (m.view_mut(), v.view_mut()), g.view(), &scalars);
    });
}
