//! What does a step of gradient descent with momentum cost a parameter?

mod common;

use common::{Bench, NAMES, Sizes};
use divan::counter::ItemsCount;
use shoal_kernels::{Momentum, Sgd};

fn main() {
    divan::main();
}

#[divan::bench(args = NAMES)]
fn update(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (b, width) = (Bench::new(), Sizes::named(name).width);
    let len = 12 * width * width;
    let (mut w, mut m, g) = (b.buffer(len), b.buffer(len), b.buffer(len));
    let scalars = Sgd { scale: 0.01, decay: 1e-4, rate: 1e-4 };
    bencher.counter(ItemsCount::new(len)).bench_local(|| {
        b.device.sgd(w.view_mut(), Some((m.view_mut(), Momentum::Classic(0.9))), g.view(), &scalars);
    });
}
