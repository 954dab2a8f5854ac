//! What is the memory's speed, for the other benches to be held against?

mod common;

use common::{Bench, NAMES, Sizes};
use divan::counter::BytesCount;

fn main() {
    divan::main();
}

/// A transformer layer's parameters: what lane and tree additions go over.
fn len_of(name: &str) -> usize {
    let width = Sizes::named(name).width;
    12 * width * width
}

#[divan::bench(args = NAMES)]
fn fill(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (b, len) = (Bench::new(), len_of(name));
    let mut dst = b.buffer(len);
    bencher.counter(BytesCount::new(4 * len)).bench_local(|| b.device.fill(dst.view_mut(), 0.0));
}

#[divan::bench(args = NAMES)]
fn copy(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (b, len) = (Bench::new(), len_of(name));
    let (mut dst, src) = (b.buffer(len), b.buffer(len));
    bencher.counter(BytesCount::new(8 * len)).bench_local(|| b.device.copy(dst.view_mut(), src.view()));
}

#[divan::bench(args = NAMES)]
fn add_into(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (b, len) = (Bench::new(), len_of(name));
    let (mut dst, src) = (b.buffer(len), b.buffer(len));
    bencher.counter(BytesCount::new(12 * len)).bench_local(|| b.device.add_into(dst.view_mut(), src.view()));
}
