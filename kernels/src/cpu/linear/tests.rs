use super::super::testing::{close, everywhere, values, wide};
use crate::device::{Layout, Linear, Write};

/// y, dx, dw, dbias in f64.
fn reference(x: &[f64], w: &[f64], b: &[f64], dy: &[f64], shape: Linear) -> [Vec<f64>; 4] {
    let Linear { rows, inputs, outputs, layout } = shape;
    let at = |i: usize, o: usize| match layout {
        Layout::OutIn => o * inputs + i,
        Layout::InOut => i * outputs + o,
    };
    let mut all = [rows * outputs, rows * inputs, inputs * outputs, outputs].map(|len| vec![0.0; len]);
    let [y, dx, dw, dbias] = &mut all;
    for r in 0..rows {
        for o in 0..outputs {
            let seed = dy[r * outputs + o];
            y[r * outputs + o] = b[o];
            dbias[o] += seed;
            for i in 0..inputs {
                y[r * outputs + o] += x[r * inputs + i] * w[at(i, o)];
                dx[r * inputs + i] += seed * w[at(i, o)];
                dw[at(i, o)] += seed * x[r * inputs + i];
            }
        }
    }
    all
}

#[test]
fn as_the_reference_in_both_layouts() {
    for layout in [Layout::OutIn, Layout::InOut] {
        for (rows, inputs, outputs) in [(1, 1, 1), (1, 40, 30), (7, 5, 3), (33, 48, 70), (600, 20, 33)] {
            let shape = Linear { rows, inputs, outputs, layout };
            let (x, w) = (values(1, rows * inputs), values(2, inputs * outputs));
            let (b, dy) = (values(3, outputs), values(4, rows * outputs));
            let [y, dx, dw, dbias] = reference(&wide(&x), &wide(&w), &wide(&b), &wide(&dy), shape);
            let got = everywhere(|device| {
                let mut got = vec![f32::NAN; y.len()];
                device.linear(&mut got, &x, &w, Some(&b), shape);
                got
            });
            close("y", &got, &y, 2e-6);
            let got = everywhere(|device| {
                let mut got = vec![f32::NAN; dx.len()];
                device.linear_input_gradient(&mut got, &dy, &w, shape);
                got
            });
            close("dx", &got, &dx, 2e-6);
            let weight = |write, before: f32| {
                everywhere(|device| {
                    let (mut got, mut bias) = (vec![before; dw.len()], vec![before; outputs]);
                    device.linear_weight_gradient(&mut got, &dy, &x, shape, write);
                    device.bias_gradient(&mut bias, &dy, write);
                    [got, bias].concat()
                })
            };
            let got = weight(Write::Overwrite, f32::NAN);
            close("dw", &got[..dw.len()], &dw, 2e-6);
            close("dbias", &got[dw.len()..], &dbias, 2e-6);
            let added = weight(Write::Add, 0.3);
            assert_eq!(added, got.iter().map(|x| 0.3 + x).collect::<Vec<_>>(), "{shape:?}");
        }
    }
}
