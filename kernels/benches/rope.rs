//! How near are rotary positions to the memory's speed?

mod common;

use common::{Bench, NAMES, Sizes};
use divan::counter::BytesCount;
use shoal_kernels::{Attention, Rotary, RotaryScaling};

fn main() {
    divan::main();
}

#[divan::bench(args = NAMES)]
fn forward(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (b, s) = (Bench::new(), Sizes::named(name));
    let size = s.width / s.heads;
    let shape = Attention { samples: s.samples, positions: s.positions, heads: s.heads, kv_heads: s.heads, size };
    let (mut qkv, mut table) = (b.buffer(s.tokens() * shape.packed()), b.buffer(s.positions * size));
    b.device.rope_table(table.view_mut(), size, &Rotary { theta: 10_000.0, scaling: RotaryScaling::None });
    let bytes = 8 * s.tokens() * (shape.heads + shape.kv_heads) * size;
    bencher.counter(BytesCount::new(bytes)).bench_local(|| b.device.rope(qkv.view_mut(), table.view(), shape));
}
