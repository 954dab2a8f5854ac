use super::super::SHARED_SCRATCH;
use super::super::testing::{close, everywhere, inner, is_gradient, values, wide};
use crate::device::Write;

const EPSILON: f32 = 1e-5;

fn reference(x: &[f64], gamma: &[f64]) -> Vec<f64> {
    let width = gamma.len();
    let mut y = Vec::with_capacity(x.len());
    for row in x.chunks(width) {
        let mean_square = row.iter().map(|x| x * x).sum::<f64>() / width as f64;
        let rms = (mean_square + f64::from(EPSILON)).sqrt();
        y.extend(row.iter().zip(gamma).map(|(x, gamma)| x / rms * gamma));
    }
    y
}

struct Case {
    x: Vec<f32>,
    gamma: Vec<f32>,
    dy: Vec<f32>,
    rows: usize,
}

fn case(rows: usize, width: usize) -> Case {
    let n = rows * width;
    Case { x: values(1, n), gamma: values(2, width), dy: values(3, n), rows }
}

impl Case {
    /// y, then stats.
    fn forward(&self) -> Vec<f32> {
        everywhere(|device| {
            let (mut y, mut stats) = (vec![f32::NAN; self.x.len()], vec![f32::NAN; self.rows]);
            device.rms_norm(&mut y, &mut stats, &self.x, &self.gamma, EPSILON);
            [y, stats].concat()
        })
    }

    /// dx, then dgamma, both starting from `before`.
    fn backward(&self, write: Write, before: f32) -> Vec<f32> {
        let stats = self.forward().split_off(self.x.len());
        everywhere(|device| {
            let (mut dx, mut dgamma) = (vec![before; self.x.len()], vec![before; self.gamma.len()]);
            let saved = (&self.x[..], &stats[..]);
            device.rms_norm_backward((&mut dx, write), (&mut dgamma, write), &self.dy, saved, &self.gamma);
            [dx, dgamma].concat()
        })
    }
}

#[test]
fn forward_as_the_reference() {
    for (rows, width) in [(1, 1), (3, 16), (5, 7), (130, 48), (2, 771)] {
        let case = case(rows, width);
        let got = case.forward();
        close("y", &got[..rows * width], &reference(&wide(&case.x), &wide(&case.gamma)), 1e-6);
        let ones = vec![1.0; width];
        let normal = reference(&wide(&case.x), &ones);
        for (row, stat) in got[rows * width..].iter().enumerate() {
            let (x, h) = (f64::from(case.x[row * width]), normal[row * width]);
            assert!((x * f64::from(*stat) - h).abs() < 1e-6, "the statistic is the reciprocal of the root mean square");
        }
    }
}

#[test]
fn backward_by_finite_differences() {
    for (rows, width) in [(2, 16), (3, 7), (70, 5)] {
        let case = case(rows, width);
        let (x, gamma) = (wide(&case.x), wide(&case.gamma));
        let got = case.backward(Write::Overwrite, f32::NAN);
        let (dx, dgamma) = got.split_at(rows * width);
        is_gradient("dx", dx, &x, |x| inner(&reference(x, &gamma), &case.dy), 1e-5);
        is_gradient("dgamma", dgamma, &gamma, |gamma| inner(&reference(&x, gamma), &case.dy), 1e-5);
    }
}

#[test]
fn add_is_one_addition_of_the_whole_result() {
    let case = case(100, 24);
    let plain = case.backward(Write::Overwrite, f32::NAN);
    let added = case.backward(Write::Add, 0.125);
    assert_eq!(added, plain.iter().map(|x| 0.125 + x).collect::<Vec<_>>());
}

/// Wide rows leave room for few blocks, which then get taller: a function of the shape alone.
#[test]
fn wide_rows_fit_the_scratch() {
    let mut case = case(70, SHARED_SCRATCH / 2);
    case.x.fill(1.0);
    let got = case.backward(Write::Overwrite, f32::NAN);
    let dgamma = &got[got.len() - case.gamma.len()..];
    let h = 1.0 / (1.0 + f64::from(EPSILON)).sqrt();
    let want: Vec<f64> = (0..case.gamma.len())
        .map(|c| case.dy[c..].iter().step_by(case.gamma.len()).map(|&x| h * f64::from(x)).sum())
        .collect();
    close("dgamma", dgamma, &want, 1e-6);
}
