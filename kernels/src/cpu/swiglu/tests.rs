use super::super::testing::{close, everywhere, inner, is_gradient, values, wide};
use crate::device::{Layout, Linear};

fn reference(gate_up: &[f64], width: usize) -> Vec<f64> {
    let row =
        |row: &[f64]| -> Vec<f64> { (0..width).map(|i| row[i] / (1.0 + (-row[i]).exp()) * row[width + i]).collect() };
    gate_up.chunks(2 * width).flat_map(row).collect()
}

/// Values of about -10 .. 10, and a row's ends far out.
fn inputs(rows: usize, width: usize) -> Vec<f32> {
    let mut x: Vec<f32> = values(1, rows * 2 * width).iter().map(|x| x * 5.0).collect();
    (x[0], x[2 * width - 1]) = (60.0, -0.0);
    x
}

fn forward(x: &[f32], width: usize) -> Vec<f32> {
    everywhere(|device| {
        let mut y = vec![f32::NAN; x.len() / 2];
        device.swiglu(&mut y, x, width);
        y
    })
}

#[test]
fn forward_as_the_reference() {
    for (rows, width) in [(1, 1), (3, 16), (5, 7), (40, 33)] {
        let x = inputs(rows, width);
        close("y", &forward(&x, width), &reference(&wide(&x), width), 1e-6);
    }
}

#[test]
fn backward_by_finite_differences_and_the_same_output_again() {
    for (rows, width) in [(1, 1), (3, 16), (5, 7)] {
        let x = inputs(rows, width);
        let dy = values(2, rows * width);
        let got = everywhere(|device| {
            let (mut y, mut gradient) = (vec![f32::NAN; rows * width], x.clone());
            // A map of one to one, so that its input gradient is what comes in.
            let weight: Vec<f32> = (0..width * width).map(|i| f32::from(i % width == i / width)).collect();
            let shape = Linear { rows, inputs: width, outputs: width, layout: Layout::InOut };
            let mut through = vec![f32::NAN; rows * width];
            device.linear_swiglu_backward((&mut through, &mut y), &mut gradient, &dy, &weight, shape);
            assert_eq!(through, dy);
            [y, gradient].concat()
        });
        let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&got[..rows * width]), bits(&forward(&x, width)), "the same bits again");
        is_gradient("dx", &got[rows * width..], &wide(&x), |x| inner(&reference(x, width), &dy), 2e-6);
    }
}

/// Far out the gate is the identity or zero.
#[test]
fn ends() {
    let got = forward(&[1e4, -1e4, 2.0, 2.0], 2);
    close("y", &got, &[2e4, 0.0], 1e-12);
}
