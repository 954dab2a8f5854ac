//! What does the exact sum of squares cost a parameter?

mod common;

use common::{Bench, NAMES, Sizes};
use divan::counter::ItemsCount;

fn main() {
    divan::main();
}

#[divan::bench(args = NAMES)]
fn sum_of_squares(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (b, width) = (Bench::new(), Sizes::named(name).width);
    let x = b.buffer(12 * width * width);
    bencher.counter(ItemsCount::new(x.len())).bench_local(|| b.device.sum_of_squares(x.view()));
}
