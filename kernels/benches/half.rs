//! How near are rounding and packing of half types to the memory's speed?

mod common;

use common::{Bench, NAMES, Sizes};
use divan::counter::BytesCount;
use shoal_kernels::Half;

fn main() {
    divan::main();
}

fn len_of(name: &str) -> usize {
    let s = Sizes::named(name);
    12 * s.width * s.width
}

const BOTH: [Half; 2] = [Half::Bf16, Half::F16];

#[divan::bench(args = NAMES, consts = [0, 1])]
fn round<const HALF: usize>(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (b, len) = (Bench::new(), len_of(name));
    let mut x = b.buffer(len);
    bencher.counter(BytesCount::new(8 * len)).bench_local(|| b.device.round(x.view_mut(), BOTH[HALF]));
}

#[divan::bench(args = NAMES, consts = [0, 1])]
fn pack<const HALF: usize>(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (b, len) = (Bench::new(), len_of(name));
    let (x, mut packed) = (b.buffer(len), b.buffer(Half::slots(len)));
    bencher.counter(BytesCount::new(6 * len)).bench_local(|| b.device.pack(packed.view_mut(), x.view(), BOTH[HALF]));
}

#[divan::bench(args = NAMES, consts = [0, 1])]
fn unpack<const HALF: usize>(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (b, len) = (Bench::new(), len_of(name));
    let (mut x, packed) = (b.buffer(len), b.buffer(Half::slots(len)));
    bencher.counter(BytesCount::new(6 * len)).bench_local(|| b.device.unpack(x.view_mut(), packed.view(), BOTH[HALF]));
}
