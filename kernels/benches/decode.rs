//! How fast does one new token attend to a full cache? The cache is read once: bytes are its.

mod common;

use common::{Bench, NAMES, Sizes};
use divan::counter::BytesCount;
use shoal_kernels::Attention;

fn main() {
    divan::main();
}

#[divan::bench(args = NAMES)]
fn attention_decode(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (b, s) = (Bench::new(), Sizes::named(name));
    let size = s.width / s.heads;
    let shape = Attention { samples: s.samples, positions: s.positions, heads: s.heads, kv_heads: s.heads, size };
    let (qkv, cache) = (b.buffer(s.samples * shape.packed()), b.buffer(s.tokens() * shape.cached()));
    let (mut y, lengths) = (b.buffer(s.samples * s.width), vec![s.positions; s.samples]);
    bencher.counter(BytesCount::new(4 * s.tokens() * shape.cached())).bench_local(|| {
        b.device.attention_decode(y.view_mut(), qkv.view(), cache.view(), &lengths, shape);
    });
}
