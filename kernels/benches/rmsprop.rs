//! What does an RMSProp update with momentum cost a parameter?

mod common;

use common::{Bench, NAMES, Sizes};
use divan::counter::ItemsCount;
use shoal_kernels::RmsProp;

fn main() {
    divan::main();
}

#[divan::bench(args = NAMES)]
fn update(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (b, width) = (Bench::new(), Sizes::named(name).width);
    let len = 12 * width * width;
    let (mut w, mut m, mut v, g) = (b.buffer(len), b.buffer(len), b.buffer(len), b.buffer(len));
    b.device.fill(v.view_mut(), 0.25);
    let scalars = RmsProp { scale: 0.01, decay: 1e-4, rate: 1e-4, alpha: 0.99, epsilon: 1e-8 };
    bencher.counter(ItemsCount::new(len)).bench_local(|| {
        b.device.rmsprop(w.view_mut(), v.view_mut(), Some((m.view_mut(), 0.9)), g.view(), &scalars);
    });
}
