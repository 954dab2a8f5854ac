//! How fast is causal self-attention, with and without dropout? Items are floating-point operations of the full square.

mod common;

use common::{Bench, NAMES, Sizes};
use divan::counter::ItemsCount;
use shoal_kernels::{Attention, Dropout, DropoutKey, DropoutSite};

fn main() {
    divan::main();
}

const KEY: DropoutKey = DropoutKey { seed: 1, step: 1, block: 1, site: DropoutSite::Attention };
const SAMPLES: [u64; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

fn shape_of(name: &str) -> Attention {
    let s = Sizes::named(name);
    Attention { samples: s.samples, positions: s.positions, heads: s.heads, kv_heads: s.heads, size: s.width / s.heads }
}

fn dropout(shape: Attention, percent: u32) -> Option<Dropout<'static>> {
    (percent > 0).then(|| Dropout { key: KEY, probability: percent as f32 / 100.0, samples: &SAMPLES[..shape.samples] })
}

#[divan::bench(args = NAMES, consts = [0, 10])]
fn forward<const PERCENT: u32>(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (b, shape) = (Bench::new(), shape_of(name));
    let tokens = shape.samples * shape.positions;
    let qkv = b.buffer(tokens * shape.packed());
    let (mut y, mut sums) = (b.buffer(tokens * shape.width()), b.buffer(shape.statistics()));
    bencher.counter(ItemsCount::new(4 * shape.statistics() * shape.positions * shape.size)).bench_local(|| {
        b.device.attention(y.view_mut(), sums.view_mut(), qkv.view(), shape, dropout(shape, PERCENT).as_ref());
    });
}

#[divan::bench(args = NAMES, consts = [0, 10])]
fn backward<const PERCENT: u32>(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (b, shape) = (Bench::new(), shape_of(name));
    let tokens = shape.samples * shape.positions;
    let (qkv, dy) = (b.buffer(tokens * shape.packed()), b.buffer(tokens * shape.width()));
    let (mut y, mut sums) = (b.buffer(tokens * shape.width()), b.buffer(shape.statistics()));
    let mut dqkv = b.buffer(tokens * shape.packed());
    let dropout = dropout(shape, PERCENT);
    b.device.attention(y.view_mut(), sums.view_mut(), qkv.view(), shape, dropout.as_ref());
    bencher.counter(ItemsCount::new(8 * shape.statistics() * shape.positions * shape.size)).bench_local(|| {
        let saved = (y.view(), sums.view(), qkv.view());
        b.device.attention_backward(dqkv.view_mut(), dy.view(), saved, shape, dropout.as_ref());
    });
}
