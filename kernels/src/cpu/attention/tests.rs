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
    let Attention { samples, positions, heads, size, .. } = shape;
    let (width, packed) = (shape.width(), shape.packed());
    let (mut y, mut sums) = (vec![0.0; samples * positions * width], vec![0.0; shape.statistics()]);
    for (s, h, i) in indices(samples, heads, positions) {
        let token = |t: usize, at: usize| &qkv[(s * positions + t) * packed + at..][..size];
        let (q, kv) = (token(i, h * size), width + 2 * (h / shape.group()) * size);
        let scores: Vec<f64> = (0..=i)
            .map(|j| q.iter().zip(token(j, kv)).map(|(q, k)| q * k).sum::<f64>() / (size as f64).sqrt())
            .collect();
        let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = scores.iter().map(|x| (x - max).exp()).sum();
        let row = (s * heads + h) * positions + i;
        sums[row] = max + sum.ln();
        for (j, score) in scores.iter().enumerate() {
            let p = (score - sums[row]).exp() * f64::from(factors[row * positions + j]);
            for (c, v) in token(j, kv + size).iter().enumerate() {
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

/// Sizes below, at and above a tile, a head that is not a multiple of a vector, and heads that share keys and values.
const SHAPES: [Attention; 5] = [
    Attention { samples: 1, positions: 1, heads: 1, kv_heads: 1, size: 4 },
    Attention { samples: 2, positions: 5, heads: 3, kv_heads: 3, size: 4 },
    Attention { samples: 2, positions: 5, heads: 6, kv_heads: 2, size: 4 },
    Attention { samples: 1, positions: TILE + 3, heads: 2, kv_heads: 1, size: 20 },
    Attention { samples: 2, positions: 2 * TILE, heads: 1, kv_heads: 1, size: 16 },
];

#[test]
fn forward_as_the_reference() {
    let ids = [100, 200];
    for shape in SHAPES {
        let qkv = values(1, shape.samples * shape.positions * shape.packed());
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
    for shape in &SHAPES[..3] {
        check_gradient(*shape, &ids[..shape.samples]);
    }
    // Small heads keep a whole sample longer than a tile within the time of a test.
    check_gradient(Attention { samples: 1, positions: TILE + 2, heads: 2, kv_heads: 1, size: 1 }, &ids[..1]);
}

fn check_gradient(shape: Attention, samples: &[u64]) {
    let tokens = shape.samples * shape.positions;
    let (qkv, dy) = (values(1, tokens * shape.packed()), values(2, tokens * shape.width()));
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
    let both = SHAPES[4];
    let one = Attention { samples: 1, ..both };
    let qkv = values(1, 2 * both.positions * both.packed());
    let dropout = |samples| Dropout { key: KEY, probability: 0.1, samples };
    let (y, _) = forward(&qkv, both, Some(&dropout(&[4, 9])));
    let (alone, _) = forward(&qkv[qkv.len() / 2..], one, Some(&dropout(&[9])));
    assert_eq!(y[y.len() / 2..], alone);
}

/// A new token against kept keys and values: the bits of its row in the whole sequence, at any length.
#[test]
fn decode_has_the_bits_of_the_last_row() {
    for (kv_heads, heads) in [(2, 2), (1, 3), (2, 4)] {
        // Longer than a tile and than a slice of a product.
        let shape = Attention { samples: 1, positions: 600, heads, kv_heads, size: 12 };
        let (packed, width, cached) = (shape.packed(), shape.width(), shape.cached());
        let qkv = values(3, shape.positions * packed);
        let (whole, _) = forward(&qkv, shape, None);
        let row = |position: usize| &qkv[position * packed..(position + 1) * packed];
        let kept: Vec<f32> = (0..shape.positions).flat_map(|position| row(position)[width..].to_vec()).collect();
        let lengths = [1, 2, TILE, TILE + 1, 511, 512, 513, 600];
        let sequences = Attention { samples: lengths.len(), ..shape };
        // What lies behind a sequence's length is not read.
        let cache: Vec<f32> = lengths
            .iter()
            .flat_map(|&length| [&kept[..length * cached], &vec![f32::NAN; (600 - length) * cached]].concat())
            .collect();
        let queries: Vec<f32> = lengths.iter().flat_map(|&length| row(length - 1).to_vec()).collect();
        let got = everywhere(|device| {
            let mut y = vec![f32::NAN; lengths.len() * width];
            device.attention_decode(&mut y, &queries, &cache, &lengths, sequences);
            y
        });
        let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        for (got, length) in got.chunks(width).zip(lengths) {
            assert_eq!(bits(got), bits(&whole[(length - 1) * width..length * width]), "{heads}/{kv_heads} at {length}");
        }
    }
}
