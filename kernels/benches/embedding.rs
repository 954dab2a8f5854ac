//! What does the lookup cost, and what the scatter of its gradient?

mod common;

use common::{Bench, NAMES, Sizes};
use divan::counter::ItemsCount;
use shoal_kernels::Write;

fn main() {
    divan::main();
}

#[divan::bench(args = NAMES)]
fn forward(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (b, s) = (Bench::new(), Sizes::named(name));
    let (wte, wpe, tokens) = (b.buffer(s.vocab * s.width), b.buffer(s.positions * s.width), Bench::tokens(s));
    let mut y = b.buffer(s.tokens() * s.width);
    bencher.counter(ItemsCount::new(s.tokens() * s.width)).bench_local(|| {
        b.device.embedding(y.view_mut(), &tokens, (wte.view(), Some(wpe.view())), s.positions, None);
    });
}

#[divan::bench(args = NAMES, consts = [0, 1])]
fn backward<const ADD: usize>(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (b, s) = (Bench::new(), Sizes::named(name));
    let (mut dwte, mut dwpe) = (b.buffer(s.vocab * s.width), b.buffer(s.positions * s.width));
    let (dy, tokens) = (b.buffer(s.tokens() * s.width), Bench::tokens(s));
    let write = if ADD == 1 { Write::Add } else { Write::Overwrite };
    bencher.counter(ItemsCount::new(s.tokens() * s.width)).bench_local(|| {
        b.device.embedding_backward((dwte.view_mut(), Some(dwpe.view_mut())), dy.view(), &tokens, s.positions, write);
    });
}
