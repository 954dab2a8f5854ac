//! How near is the vocabulary softmax to the memory's speed?

mod common;

use common::{Bench, NAMES, Sizes};
use divan::counter::ItemsCount;

fn main() {
    divan::main();
}

#[divan::bench(args = NAMES)]
fn loss_and_gradient(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (b, s) = (Bench::new(), Sizes::named(name));
    let (mut logits, targets) = (b.buffer(s.tokens() * s.vocab), Bench::tokens(s));
    bencher
        .counter(ItemsCount::new(s.tokens() * s.vocab))
        .bench_local(|| b.device.cross_entropy(logits.view_mut(), &targets, 1.0));
}

#[divan::bench(args = NAMES)]
fn loss(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (b, s) = (Bench::new(), Sizes::named(name));
    let (logits, targets) = (b.buffer(s.tokens() * s.vocab), Bench::tokens(s));
    bencher
        .counter(ItemsCount::new(s.tokens() * s.vocab))
        .bench_local(|| b.device.cross_entropy_loss(logits.view(), &targets));
}
