//! Random shapes: every operation gives the same bits on any number of threads and in every class.

use proptest::prelude::*;

use super::testing::{everywhere, values};
use crate::device::{Attention, Dropout, DropoutKey, DropoutSite, Layout, Linear, Write};

const KEY: DropoutKey = DropoutKey { seed: 9, step: 4, block: 1, site: DropoutSite::Attention };
const IDS: [u64; 4] = [70, 7, 1 << 40, 3];

fn write() -> impl Strategy<Value = Write> {
    prop_oneof![Just(Write::Overwrite), Just(Write::Add)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn rows_and_columns(rows in 1_usize..200, width in 1_usize..300, write in write(), salt in any::<u64>()) {
        let n = rows * width;
        let (x, dy, gamma) = (values(salt, n), values(salt ^ 1, n), values(salt ^ 2, width));
        let stats = everywhere(|device| {
            let (mut y, mut stats) = (vec![0.0; n], vec![0.0; 2 * rows]);
            device.layer_norm(&mut y, &mut stats, &x, (&gamma, Some(&gamma)), 1e-5);
            [y, stats].concat()
        }).split_off(n);
        everywhere(|device| {
            let (mut dx, mut dgamma, mut dbeta) = (dy.clone(), gamma.clone(), gamma.clone());
            let parameters = (&mut dgamma[..], Some(&mut dbeta[..]), write);
            device.layer_norm_backward((&mut dx, write), parameters, &dy, (&x, &stats), &gamma);
            [dx, dgamma, dbeta].concat()
        });
        everywhere(|device| {
            let mut dbias = gamma.clone();
            device.bias_gradient(&mut dbias, &dy, write);
            dbias
        });
        let stats = everywhere(|device| {
            let (mut y, mut stats) = (vec![0.0; n], vec![0.0; rows]);
            device.rms_norm(&mut y, &mut stats, &x, &gamma, 1e-5);
            [y, stats].concat()
        }).split_off(n);
        everywhere(|device| {
            let (mut dx, mut dgamma) = (dy.clone(), gamma.clone());
            device.rms_norm_backward((&mut dx, write), (&mut dgamma, write), &dy, (&x, &stats), &gamma);
            [dx, dgamma].concat()
        });
        everywhere(|device| {
            let (mut y, gate_up) = (vec![0.0; n], values(salt ^ 3, 2 * n));
            device.swiglu(&mut y, &gate_up, width);
            y
        });
        let targets: Vec<u32> = (0..rows).map(|row| (row * 31 % width) as u32).collect();
        everywhere(|device| {
            let mut logits = x.clone();
            let loss = device.cross_entropy(&mut logits, &targets, 0.5);
            logits.push(loss.sum.to_f64() as f32);
            logits
        });
    }

    #[test]
    fn elements(len in 1_usize..40_000, salt in any::<u64>()) {
        let (x, dy) = (values(salt, len), values(salt ^ 1, len));
        everywhere(|device| {
            let (mut y, mut dx) = (x.clone(), dy.clone());
            device.gelu(&mut y, &x);
            device.add_into(&mut dx, &y);
            dx.push(device.sum_of_squares(&y).sum.to_f64() as f32);
            dx
        });
    }

    #[test]
    fn maps(
        rows in 1_usize..260, inputs in 1_usize..150, outputs in 1_usize..150, in_out in any::<bool>(), write in write(),
        salt in any::<u64>(),
    ) {
        let shape = Linear { rows, inputs, outputs, layout: if in_out { Layout::InOut } else { Layout::OutIn } };
        let (x, w) = (values(salt, rows * inputs), values(salt ^ 1, inputs * outputs));
        let (bias, dy) = (values(salt ^ 2, outputs), values(salt ^ 3, rows * outputs));
        everywhere(|device| {
            let [mut y, mut hidden] = [(); 2].map(|()| vec![f32::NAN; rows * outputs]);
            device.linear_gelu((&mut y, &mut hidden), &x, (&w, Some(&bias)), shape);
            let mut dw = w.clone();
            device.linear_weight_gradient(&mut dw, &dy, &x, shape, write);
            [y, hidden, dw].concat()
        });
        everywhere(|device| {
            let [mut dhidden, mut y, mut dgated, mut z] = [(); 4].map(|()| vec![f32::NAN; rows * inputs]);
            device.linear_gelu_backward((&mut dhidden, &mut y), &x, &dy, &w, shape);
            let mut gate_up = values(salt ^ 4, 2 * rows * inputs);
            device.linear_swiglu_backward((&mut dgated, &mut z), &mut gate_up, &dy, &w, shape);
            [dhidden, y, dgated, z, gate_up].concat()
        });
    }

    #[test]
    fn samples(
        samples in 1_usize..=4, positions in 1_usize..150, kv_heads in 1_usize..4, group in 1_usize..3, size in 1_usize..40,
        probability in 0.0_f32..0.9, salt in any::<u64>(),
    ) {
        let shape = Attention { samples, positions, heads: kv_heads * group, kv_heads, size };
        let (tokens, width) = (samples * positions, shape.width());
        let dropout = Dropout { key: KEY, probability, samples: &IDS[..samples] };
        let (qkv, dy) = (values(salt, tokens * shape.packed()), values(salt ^ 1, tokens * width));
        let mut y = everywhere(|device| {
            let (mut y, mut sums) = (vec![0.0; tokens * width], vec![0.0; shape.statistics()]);
            device.attention(&mut y, &mut sums, &qkv, shape, Some(&dropout));
            device.add_residual(&mut y, &dy, Some(&dropout));
            [y, sums].concat()
        });
        let sums = y.split_off(tokens * width);
        everywhere(|device| {
            let mut dqkv = vec![0.0; qkv.len()];
            device.attention_backward(&mut dqkv, &dy, (&y, &sums, &qkv), shape, Some(&dropout));
            dqkv
        });
        let ids: Vec<u32> = (0..tokens).map(|token| (token * token % 19) as u32).collect();
        everywhere(|device| {
            let (mut dwte, mut dwpe) = (vec![0.0; 19 * width], vec![0.0; positions * width]);
            device.embedding_backward((&mut dwte, Some(&mut dwpe[..])), &dy, &ids, positions, Write::Overwrite);
            let mut y = vec![0.0; tokens * width];
            device.embedding(&mut y, &ids, (&dwte, Some(&dwpe[..])), positions, Some(&dropout));
            [dwte, dwpe, y].concat()
        });
    }
}
