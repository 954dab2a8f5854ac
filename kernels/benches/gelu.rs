//! How near is GELU to the memory's speed?

mod common;

use common::{Bench, NAMES, Sizes};
use divan::counter::ItemsCount;

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

#[divan::bench(args = NAMES)]
fn with_slope(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (b, len) = (Bench::new(), len_of(name));
    let (mut x, mut y) = (b.buffer(len), b.buffer(len));
    bencher.counter(ItemsCount::new(len)).bench_local(|| b.device.gelu_with_slope(y.view_mut(), x.view_mut()));
}
