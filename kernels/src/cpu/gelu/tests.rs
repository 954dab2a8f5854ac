use super::super::testing::{close, everywhere, is_gradient, values, wide};
use crate::device::{Layout, Linear};

fn reference(x: f64) -> f64 {
    let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
    0.5 * x * (1.0 + u.tanh())
}

/// Values of every size that matters, with their neighbours.
fn inputs() -> Vec<f32> {
    let mut x: Vec<f32> = values(1, 5000).iter().map(|x| x * 6.0).collect();
    x.extend([0.0, -0.0, 1e-20, -1e-20, 1e-3, 30.0, -30.0, 1e4, -1e4]);
    x
}

#[test]
fn forward_as_the_reference() {
    let x = inputs();
    let got = everywhere(|device| {
        let mut y = vec![0.0; x.len()];
        device.gelu(&mut y, &x);
        y
    });
    for (got, x) in got.iter().zip(wide(&x)) {
        let want = reference(x);
        // In the tail the rounding of u is raised to an exponential: relative to x the error stays small.
        assert!((f64::from(*got) - want).abs() <= 2e-7 * want.abs() + 1e-7 * x.abs(), "{x}: {got} is not {want}");
    }
}

/// A map of one to one, so that what is before and behind it can be chosen.
fn one_to_one(len: usize) -> (Linear, Vec<f32>) {
    assert!(len.is_multiple_of(SIDE));
    let weight = (0..SIDE * SIDE).map(|i| if i % SIDE == i / SIDE { 1.0 } else { 0.0 }).collect();
    (Linear { rows: len / SIDE, inputs: SIDE, outputs: SIDE, layout: Layout::InOut }, weight)
}

const SIDE: usize = 9;

#[test]
fn behind_a_map_as_alone() {
    let x = &inputs()[..5004];
    let (shape, weight) = one_to_one(x.len());
    let bias = values(3, SIDE);
    let got = everywhere(|device| {
        let (mut y, mut hidden) = (vec![f32::NAN; x.len()], vec![f32::NAN; x.len()]);
        device.linear_gelu((&mut y, &mut hidden), x, (&weight, Some(&bias)), shape);
        let (mut plain, mut alone) = (vec![f32::NAN; x.len()], vec![f32::NAN; x.len()]);
        device.linear(&mut plain, x, &weight, Some(&bias), shape);
        device.gelu(&mut alone, &plain);
        let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!((bits(&y), bits(&hidden)), (bits(&alone), bits(&plain)));
        y
    });
    let want: Vec<f64> = wide(x).iter().enumerate().map(|(i, x)| reference(x + f64::from(bias[i % SIDE]))).collect();
    close("y", &got, &want, 1e-6);
}

#[test]
fn backward_by_finite_differences() {
    let mut x: Vec<f32> = inputs().into_iter().filter(|x| x.abs() < 50.0).collect();
    x.truncate(x.len() / SIDE * SIDE);
    let (shape, weight) = one_to_one(x.len());
    let seed = values(2, x.len());
    let got = everywhere(|device| {
        let (mut dx, mut y) = (vec![f32::NAN; x.len()], vec![f32::NAN; x.len()]);
        device.linear_gelu_backward((&mut dx, &mut y), &x, &seed, &weight, shape);
        let mut again = vec![0.0; x.len()];
        device.gelu(&mut again, &x);
        assert!(y.iter().zip(&again).all(|(a, b)| a.to_bits() == b.to_bits()), "the same bits again");
        dx
    });
    for ((got, x), seed) in got.iter().zip(wide(&x)).zip(&seed) {
        is_gradient("gelu", &[*got], &[x], |x| reference(x[0]) * f64::from(*seed), 2e-6);
    }
    // Far out the function is the identity or zero.
    let ([mut ends, mut y], far) = ([[f32::NAN; SIDE]; 2], [1e4, -1e4, 1e4, -1e4, 1e4, -1e4, 1e4, -1e4, 1e4]);
    let (shape, weight) = one_to_one(SIDE);
    let device = super::super::testing::device(1, crate::cpu::Class::Portable);
    device.linear_gelu_backward((&mut ends, &mut y), &far, &[1.0; SIDE], &weight, shape);
    close("ends", &ends, &[1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0], 1e-12);
}
