use super::super::testing::{close, device, everywhere, inner, is_gradient, values, wide};
use super::*;
use crate::cpu::Class;
use crate::device::{DropoutKey, DropoutSite};

const KEY: DropoutKey = DropoutKey { seed: 5, step: 6, block: 2, site: DropoutSite::Attention };

/// Mask factors `[samples, heads, query, key]`, ones without dropout.
fn factors(shape: Attention, dropout: Option<&Dropout<'_>>) -> Vec<f32> {
    let ones = vec![1.0; shape.statistics() * shape.positions];
    let Some(dropout) = dropout else { return ones };
    let mut mask = ones.clone();
    device(1, Class::Portable).dropout(&mut mask, &ones, dropout);
    mask
}

/// Output, then log-sum-exp.
fn reference(qkv: &[f64], shape: Attention, factors: &[f32]) -> (Vec<f64>, Vec<f64>) {
    let Attention { samples, positions, heads, size } = shape;
    let width = shape.width();
    let (mut y, mut sums) = (vec![0.0; samples * positions * width], vec![0.0; shape.statistics()]);
    for (s, h, i) in indices(samples, heads, positions) {
        let token = |t: usize, at: usize| &qkv[(s * positions + t) * 3 * width + at..][..size];
        let q = token(i, h * size);
        let scores: Vec<f64> = (0..=i)
            .map(|j| {
                q.iter().zip(token(j, width + 2 * h * size)).map(|(q, k)| q * k).sum::<f64>() / (size as f64).sqrt()
            })
            .collect();
        let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = scores.iter().map(|x| (x - max).exp()).sum();
        let row = (s * heads + h) * positions + i;
        sums[row] = max + sum.ln();
        for (j, score) in scores.iter().enumerate() {
            let p = (score - sums[row]).exp() * f64::from(factors[row * positions + j]);
            for (c, v) in token(j, width + (2 * h + 1) * size).iter().enumerate() {
                y[(s * positions + i) * width + h * size + c] += p * v;
            }
        }
    }
    (y, sums)
}

fn indices(a: usize, b: usize, c: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..a * b * c).map(move |i| (i / (b * c), i / c % b, i % c))
}

fn forward(qkv: &[f32], shape: Attention, dropout: Option<&Dropout<'_>>) -> (Vec<f32>, Vec<f32>) {
    let tokens = shape.samples * shape.positions;
    let mut both = everywhere(|device| {
        let (mut y, mut sums) = (vec![f32::NAN; tokens * shape.width()], vec![f32::NAN; shape.statistics()]);
        device.attention(&mut y, &mut sums, qkv, shape, dropout);
        [y, sums].concat()
    });
    let sums = both.split_off(tokens * shape.width());
    (both, sums)
}

fn backward(qkv: &[f32], dy: &[f32], shape: Attention, dropout: Option<&Dropout<'_>>) -> Vec<f32> {
    let (y, sums) = forward(qkv, shape, dropout);
    everywhere(|device| {
        let mut dqkv = vec![f32::NAN; qkv.len()];
        device.attention_backward(&mut dqkv, dy, (&y, &sums, qkv), shape, dropout);
        dqkv
    })
}

/// Sizes below, at and above a tile, and a head that is not a multiple of a vector.
const SHAPES: [Attention; 4] = [
    Attention { samples: 1, positions: 1, heads: 1, size: 4 },
    Attention { samples: 2, positions: 5, heads: 3, size: 4 },
    Attention { samples: 1, positions: TILE + 3, heads: 2, size: 20 },
    Attention { samples: 2, positions: 2 * TILE, heads: 1, size: 16 },
];

#[test]
fn forward_as_the_reference() {
    let ids = [100, 200];
    for shape in SHAPES {
        let qkv = values(1, shape.samples * shape.positions * 3 * shape.width());
        for probability in [None, Some(0.25)] {
            let dropout =
                probability.map(|probability| Dropout { key: KEY, probability, samples: &ids[..shape.samples] });
            let (y, sums) = forward(&qkv, shape, dropout.as_ref());
            let want = reference(&wide(&qkv), shape, &factors(shape, dropout.as_ref()));
            close("y", &y, &want.0, 3e-6);
            close("log-sum-exp", &sums, &want.1, 2e-6);
        }
    }
}

#[test]
fn backward_by_finite_differences() {
    let ids = [100, 200];
    for shape in &SHAPES[..2] {
        check_gradient(*shape, &ids[..shape.samples]);
    }
    // Small heads keep a whole sample longer than a tile within the time of a test.
    check_gradient(Attention { samples: 1, positions: TILE + 2, heads: 1, size: 1 }, &ids[..1]);
}

fn check_gradient(shape: Attention, samples: &[u64]) {
    let tokens = shape.samples * shape.positions;
    let (qkv, dy) = (values(1, tokens * 3 * shape.width()), values(2, tokens * shape.width()));
    for probability in [None, Some(0.25)] {
        let dropout = probability.map(|probability| Dropout { key: KEY, probability, samples });
        let got = backward(&qkv, &dy, shape, dropout.as_ref());
        let mask = factors(shape, dropout.as_ref());
        is_gradient("dqkv", &got, &wide(&qkv), |x| inner(&reference(x, shape, &mask).0, &dy), 2e-5);
    }
}

/// A sample's result does not know which samples lie beside it.
#[test]
fn samples_do_not_meet() {
    let both = SHAPES[3];
    let one = Attention { samples: 1, ..both };
    let qkv = values(1, 2 * both.positions * 3 * both.width());
    let dropout = |samples| Dropout { key: KEY, probability: 0.1, samples };
    let (y, _) = forward(&qkv, both, Some(&dropout(&[4, 9])));
    let (alone, _) = forward(&qkv[qkv.len() / 2..], one, Some(&dropout(&[9])));
    assert_eq!(y[y.len() / 2..], alone);
}
