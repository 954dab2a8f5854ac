//! What does a residual addition cost, and what does drawing its mask add?

mod common;

use common::{Bench, NAMES, Sizes};
use divan::counter::ItemsCount;
use shoal_kernels::{Dropout, DropoutKey, DropoutSite};

fn main() {
    divan::main();
}

#[divan::bench(args = NAMES, consts = [0, 10])]
fn add_residual<const PERCENT: u32>(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (b, s) = (Bench::new(), Sizes::named(name));
    let len = s.tokens() * s.width;
    let (mut branch, skip) = (b.buffer(len), b.buffer(len));
    let samples: Vec<u64> = (0..s.samples as u64).collect();
    let key = DropoutKey { seed: 1, step: 2, block: 3, site: DropoutSite::MlpOutput };
    let dropout = Dropout { key, probability: PERCENT as f32 / 100.0, samples: &samples };
    bencher.counter(ItemsCount::new(len)).bench_local(|| {
        b.device.add_residual(branch.view_mut(), skip.view(), (PERCENT > 0).then_some(&dropout));
    });
}
