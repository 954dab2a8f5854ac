//! How fast are the products of a layer, forward and backward? Items are floating-point operations.

mod common;

use common::{Bench, NAMES, Sizes};
use divan::counter::ItemsCount;
use shoal_kernels::{Layout, Linear, Write};

fn main() {
    divan::main();
}

/// A layer's linear maps as (name, inputs, outputs, layout) in units of the width.
const MAPS: [(&str, usize, usize, Layout); 4] = [
    ("qkv", 1, 3, Layout::OutIn),
    ("attn_proj", 1, 1, Layout::InOut),
    ("fc", 1, 4, Layout::OutIn),
    ("mlp_proj", 4, 1, Layout::InOut),
];

fn cases() -> Vec<String> {
    let names = NAMES.iter().flat_map(|size| MAPS.iter().map(move |map| format!("{size}/{}", map.0)));
    names.chain(NAMES.iter().map(|size| format!("{size}/head"))).collect()
}

fn shape_of(case: &str) -> Linear {
    let (size, map) = case.split_once('/').expect("size/map");
    let s = Sizes::named(size);
    match MAPS.iter().find(|m| m.0 == map) {
        Some(&(_, i, o, layout)) => Linear { rows: s.tokens(), inputs: i * s.width, outputs: o * s.width, layout },
        None => Linear { rows: s.tokens(), inputs: s.width, outputs: s.vocab, layout: Layout::OutIn },
    }
}

fn operations(shape: Linear) -> ItemsCount {
    ItemsCount::new(2 * shape.rows * shape.inputs * shape.outputs)
}

#[divan::bench(args = cases())]
fn forward(bencher: divan::Bencher<'_, '_>, case: &str) {
    let (b, shape) = (Bench::new(), shape_of(case));
    let (x, w) = (b.buffer(shape.rows * shape.inputs), b.buffer(shape.inputs * shape.outputs));
    let (bias, mut y) = (b.buffer(shape.outputs), b.buffer(shape.rows * shape.outputs));
    bencher
        .counter(operations(shape))
        .bench_local(|| b.device.linear(y.view_mut(), x.view(), w.view(), Some(bias.view()), shape));
}

#[divan::bench(args = cases())]
fn input_gradient(bencher: divan::Bencher<'_, '_>, case: &str) {
    let (b, shape) = (Bench::new(), shape_of(case));
    let (dy, w) = (b.buffer(shape.rows * shape.outputs), b.buffer(shape.inputs * shape.outputs));
    let mut dx = b.buffer(shape.rows * shape.inputs);
    bencher
        .counter(operations(shape))
        .bench_local(|| b.device.linear_input_gradient(dx.view_mut(), dy.view(), w.view(), shape));
}

#[divan::bench(args = cases(), consts = [0, 1])]
fn weight_gradient<const ADD: usize>(bencher: divan::Bencher<'_, '_>, case: &str) {
    let (b, shape) = (Bench::new(), shape_of(case));
    let (dy, x) = (b.buffer(shape.rows * shape.outputs), b.buffer(shape.rows * shape.inputs));
    let mut dw = b.buffer(shape.inputs * shape.outputs);
    let write = if ADD == 1 { Write::Add } else { Write::Overwrite };
    bencher
        .counter(operations(shape))
        .bench_local(|| b.device.linear_weight_gradient(dw.view_mut(), dy.view(), x.view(), shape, write));
}

#[divan::bench(args = cases())]
fn bias_gradient(bencher: divan::Bencher<'_, '_>, case: &str) {
    let (b, shape) = (Bench::new(), shape_of(case));
    let (dy, mut dbias) = (b.buffer(shape.rows * shape.outputs), b.buffer(shape.outputs));
    bencher
        .counter(ItemsCount::new(shape.rows * shape.outputs))
        .bench_local(|| b.device.bias_gradient(dbias.view_mut(), dy.view(), Write::Overwrite));
}
