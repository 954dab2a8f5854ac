//! What does an Adafactor update of a matrix, which visits its gradient four times, cost a parameter?

mod common;

use common::{Bench, NAMES, Sizes};
use divan::counter::ItemsCount;
use shoal_kernels::{Adafactor, Factors, Squares};

fn main() {
    divan::main();
}

#[divan::bench(args = NAMES)]
fn update(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (b, width) = (Bench::new(), Sizes::named(name).width);
    let height = 12 * width;
    let len = height * width;
    let (mut w, g) = (b.buffer(len), b.buffer(len));
    let (mut rows, mut columns) = (b.buffer(height), b.buffer(width));
    for factors in [&mut rows, &mut columns] {
        b.device.fill(factors.view_mut(), 0.25);
    }
    let squares = Squares { scale: 0.01, epsilon: 1e-30, share: 0.1 };
    let scalars = Adafactor { scale: 0.01, kept: 0.9999, rate: 1e-4 };
    bencher.counter(ItemsCount::new(len)).bench_local(|| {
        b.device.adafactor_rows(rows.view_mut(), g.view(), &squares);
        b.device.adafactor_columns(columns.view_mut(), g.view(), (0, width), &squares);
        let mean = b.device.mean(rows.view());
        let factors = || Factors::Matrix { rows: rows.view(), mean, columns: columns.view() };
        divan::black_box(b.device.adafactor_squares(factors(), g.view(), squares.scale));
        b.device.adafactor(w.view_mut(), None, factors(), g.view(), &scalars);
    });
}
