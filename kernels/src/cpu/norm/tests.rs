use shoal_exact::ExactSum;

use super::super::testing::{device, values};
use crate::cpu::Class;
use crate::device::SquareSum;

fn everywhere(x: &[f32]) -> SquareSum {
    let mut answer = None;
    for class in Class::here() {
        for threads in 1..=3 {
            let got = device(threads, class).sum_of_squares(x);
            assert_eq!(*answer.get_or_insert(got), got, "{} with {threads} threads", class.name());
        }
    }
    answer.expect("the portable class is everywhere")
}

/// The documented order, element by element.
fn reference(x: &[f32]) -> ExactSum {
    let square = |chunk: &[f32], i: usize| chunk.get(i).map_or(0.0, |&x| f64::from(x) * f64::from(x));
    let eight = |c: &[f32], i| square(c, i) + square(c, i + 8);
    let four = |c: &[f32], i| eight(c, i) + eight(c, i + 4);
    let two = |c: &[f32], i| four(c, i) + four(c, i + 2);
    x.chunks(16).map(|chunk| ExactSum::of(two(chunk, 0) + two(chunk, 1))).sum()
}

#[test]
fn as_the_definition_for_any_division() {
    for len in [0, 1, 16, 255, 256, 257, 40_016] {
        let mut x = values(9, len);
        if let Some(last) = x.last_mut() {
            *last = 1e-40;
        }
        let whole = everywhere(&x);
        assert_eq!(whole, SquareSum { sum: reference(&x), finite: true });
        for cut in [0, len / 3 / 16 * 16, len / 16 * 16] {
            let mut parts = everywhere(&x[..cut]);
            parts.merge(&everywhere(&x[cut..]));
            assert_eq!(parts, whole, "cut at {cut} of {len}");
        }
    }
}

#[test]
fn extremes_are_summed_and_what_is_not_finite_is_reported() {
    let big = everywhere(&[f32::MAX; 64]);
    assert!(big.finite && (big.sum.to_f64() / (64.0 * f64::from(f32::MAX).powi(2)) - 1.0).abs() < 1e-15);
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for at in [0, 300, 511] {
            let mut x = values(3, 512);
            x[at] = bad;
            assert!(!everywhere(&x).finite);
        }
    }
}
