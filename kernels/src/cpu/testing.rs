//! What the tests of the operations share.

use shoal_exact::philox::philox;

use super::{Class, CpuDevice};
use crate::arena::{Arena, Budget, Tier};

/// A device with enough room, whose products are of the best class.
pub(super) fn device(threads: usize, class: Class) -> CpuDevice {
    let arena = Arena::new(Tier::Device, 64 << 20, &Budget::new(64 << 20));
    CpuDevice::with_classes(threads, &arena, class, Class::detect()).expect("room for scratch")
}

/// Runs `op` on 1, 2 and 3 threads of every class there is and wants one answer to the bit.
pub(super) fn everywhere(op: impl Fn(&CpuDevice) -> Vec<f32>) -> Vec<f32> {
    let mut answer: Option<Vec<f32>> = None;
    for class in Class::here() {
        for threads in 1..=3 {
            let got = op(&device(threads, class));
            let want = answer.get_or_insert_with(|| got.clone());
            let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&got), bits(want), "{} with {threads} threads gives other bits", class.name());
        }
    }
    answer.expect("the portable class is everywhere")
}

/// `len` values in about -2 .. 2, a pure function of `seed`.
pub(super) fn values(seed: u64, len: usize) -> Vec<f32> {
    (0..len)
        .map(|i| {
            let [word, _] = philox(seed, [i as u64, 7]);
            ((word >> 40) as f32 / (1 << 23) as f32 - 1.0) * 2.0
        })
        .collect()
}

pub(super) fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| f64::from(x)).collect()
}

/// Every element within `tolerance`, relative to the larger of 1 and the largest wanted magnitude.
pub(super) fn close(what: &str, got: &[f32], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{what}");
    let size = want.iter().fold(1.0_f64, |size, x| size.max(x.abs()));
    for (i, (&got, &want)) in got.iter().zip(want).enumerate() {
        assert!((f64::from(got) - want).abs() <= tolerance * size, "{what}[{i}]: {got} is not {want}");
    }
}

/// `gradient` is that of `f` at `at`, by central differences in f64.
pub(super) fn is_gradient(what: &str, gradient: &[f32], at: &[f64], f: impl Fn(&[f64]) -> f64, tolerance: f64) {
    let mut x = at.to_vec();
    let slopes: Vec<f64> = (0..at.len())
        .map(|i| {
            let step = 1e-5;
            x[i] = at[i] + step;
            let above = f(&x);
            x[i] = at[i] - step;
            let below = f(&x);
            x[i] = at[i];
            (above - below) / (2.0 * step)
        })
        .collect();
    close(what, gradient, &slopes, tolerance);
}

/// The inner product, by which a gradient test makes one number of many.
pub(super) fn inner(a: &[f64], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, &b)| a * f64::from(b)).sum()
}
