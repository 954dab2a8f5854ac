//! How near is LayerNorm to the memory's speed?

mod common;

use common::{Bench, NAMES, Sizes};
use divan::counter::BytesCount;
use shoal_kernels::{NormParams, Write};

fn main() {
    divan::main();
}

#[divan::bench(args = NAMES)]
fn forward(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (b, s) = (Bench::new(), Sizes::named(name));
    let len = s.tokens() * s.width;
    let (x, gamma, beta) = (b.buffer(len), b.buffer(s.width), b.buffer(s.width));
    let (mut y, mut stats) = (b.buffer(len), b.buffer(2 * s.tokens()));
    bencher.counter(BytesCount::new(8 * len)).bench_local(|| {
        let params = NormParams { gamma: gamma.view(), beta: Some(beta.view()), epsilon: 1e-5 };
        b.device.layer_norm(y.view_mut(), stats.view_mut(), x.view(), params);
    });
}

#[divan::bench(args = NAMES)]
fn backward(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (b, s) = (Bench::new(), Sizes::named(name));
    let len = s.tokens() * s.width;
    let (x, dy, gamma, beta) = (b.buffer(len), b.buffer(len), b.buffer(s.width), b.buffer(s.width));
    let (mut dx, mut stats) = (b.buffer(len), b.buffer(2 * s.tokens()));
    let (mut dgamma, mut dbeta) = (b.buffer(s.width), b.buffer(s.width));
    let params = NormParams { gamma: gamma.view(), beta: Some(beta.view()), epsilon: 1e-5 };
    b.device.layer_norm(dx.view_mut(), stats.view_mut(), x.view(), params);
    bencher.counter(BytesCount::new(12 * len)).bench_local(|| {
        let parameters = (dgamma.view_mut(), Some(dbeta.view_mut()), Write::Overwrite);
        let dx = (dx.view_mut(), Write::Overwrite);
        b.device.layer_norm_backward(dx, parameters, dy.view(), (x.view(), stats.view()), gamma.view());
    });
}
