//! How near is RMSNorm to the memory's speed?

mod common;

use common::{Bench, NAMES, Sizes};
use divan::counter::BytesCount;
use shoal_kernels::Write;

fn main() {
    divan::main();
}

#[divan::bench(args = NAMES)]
fn forward(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (b, s) = (Bench::new(), Sizes::named(name));
    let len = s.tokens() * s.width;
    let (x, gamma) = (b.buffer(len), b.buffer(s.width));
    let (mut y, mut stats) = (b.buffer(len), b.buffer(s.tokens()));
    bencher.counter(BytesCount::new(8 * len)).bench_local(|| {
        b.device.rms_norm(y.view_mut(), stats.view_mut(), x.view(), gamma.view(), 1e-5);
    });
}

#[divan::bench(args = NAMES)]
fn backward(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (b, s) = (Bench::new(), Sizes::named(name));
    let len = s.tokens() * s.width;
    let (x, dy, gamma) = (b.buffer(len), b.buffer(len), b.buffer(s.width));
    let (mut dx, stats, mut dgamma) = (b.buffer(len), b.buffer(s.tokens()), b.buffer(s.width));
    bencher.counter(BytesCount::new(12 * len)).bench_local(|| {
        let (dx, dgamma) = ((dx.view_mut(), Write::Overwrite), (dgamma.view_mut(), Write::Overwrite));
        b.device.rms_norm_backward(dx, dgamma, dy.view(), (x.view(), stats.view()), gamma.view());
    });
}
