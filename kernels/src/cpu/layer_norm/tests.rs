use super::super::testing::{close, everywhere, inner, is_gradient, values, wide};
use crate::device::Write;

const EPSILON: f32 = 1e-5;

fn reference(x: &[f64], gamma: &[f64], beta: &[f64]) -> Vec<f64> {
    let width = gamma.len();
    let mut y = Vec::with_capacity(x.len());
    for row in x.chunks(width) {
        let mean = row.iter().sum::<f64>() / width as f64;
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / width as f64;
        let rstd = 1.0 / (variance + f64::from(EPSILON)).sqrt();
        y.extend(row.iter().zip(gamma).zip(beta).map(|((x, g), b)| (x - mean) * rstd * g + b));
    }
    y
}

struct Case {
    x: Vec<f32>,
    gamma: Vec<f32>,
    /// None: a norm without a shift.
    beta: Option<Vec<f32>>,
    dy: Vec<f32>,
    rows: usize,
}

fn case(rows: usize, width: usize) -> Case {
    let n = rows * width;
    Case { x: values(1, n), gamma: values(2, width), beta: Some(values(3, width)), dy: values(4, n), rows }
}

/// With a shift and without.
fn cases(rows: usize, width: usize) -> [Case; 2] {
    [case(rows, width), Case { beta: None, ..case(rows, width) }]
}

impl Case {
    /// y, then stats.
    fn forward(&self) -> Vec<f32> {
        everywhere(|device| {
            let (mut y, mut stats) = (vec![0.0; self.x.len()], vec![0.0; 2 * self.rows]);
            device.layer_norm(&mut y, &mut stats, &self.x, (&self.gamma, self.beta.as_deref()), EPSILON);
            [y, stats].concat()
        })
    }

    /// The shift in f64, zeros if there is none.
    fn shift(&self) -> Vec<f64> {
        self.beta.as_deref().map_or_else(|| vec![0.0; self.gamma.len()], wide)
    }

    /// dx, dgamma, and dbeta if there is a shift, all starting from `before`.
    fn backward(&self, write: Write, before: f32) -> Vec<f32> {
        let stats = self.forward().split_off(self.x.len());
        let width = self.gamma.len();
        everywhere(|device| {
            let mut dx = vec![before; self.x.len()];
            let (mut dgamma, mut dbeta) = (vec![before; width], self.beta.as_ref().map(|_| vec![before; width]));
            let parameters = (&mut dgamma[..], dbeta.as_deref_mut(), write);
            device.layer_norm_backward((&mut dx, write), parameters, &self.dy, (&self.x, &stats), &self.gamma);
            [dx, dgamma, dbeta.unwrap_or_default()].concat()
        })
    }
}

#[test]
fn forward_as_the_reference() {
    for case in [(1, 1), (3, 16), (5, 7), (130, 48), (2, 771)].into_iter().flat_map(|(r, w)| cases(r, w)) {
        let (rows, width) = (case.rows, case.gamma.len());
        let want = reference(&wide(&case.x), &wide(&case.gamma), &case.shift());
        close("y", &case.forward()[..rows * width], &want, 2e-6);
    }
}

#[test]
fn backward_by_finite_differences() {
    for case in [(2, 16), (3, 7), (70, 5)].into_iter().flat_map(|(r, w)| cases(r, w)) {
        let (rows, width) = (case.rows, case.gamma.len());
        let (x, gamma, beta) = (wide(&case.x), wide(&case.gamma), case.shift());
        let got = case.backward(Write::Overwrite, f32::NAN);
        let (dx, rest) = got.split_at(rows * width);
        let (dgamma, dbeta) = rest.split_at(width);
        is_gradient("dx", dx, &x, |x| inner(&reference(x, &gamma, &beta), &case.dy), 1e-5);
        is_gradient("dgamma", dgamma, &gamma, |gamma| inner(&reference(&x, gamma, &beta), &case.dy), 1e-5);
        match &case.beta {
            Some(_) => {
                is_gradient("dbeta", dbeta, &beta, |beta| inner(&reference(&x, &gamma, beta), &case.dy), 1e-5);
            }
            None => assert!(dbeta.is_empty(), "no shift, no gradient of one"),
        }
    }
}

#[test]
fn add_is_one_addition_of_the_whole_result() {
    for case in cases(100, 24) {
        let plain = case.backward(Write::Overwrite, 0.0);
        let added = case.backward(Write::Add, 0.125);
        assert_eq!(added, plain.iter().map(|x| 0.125 + x).collect::<Vec<_>>());
    }
}

/// Wide rows leave room for few blocks, which then get taller: a function of the shape alone.
#[test]
fn wide_rows_fit_the_scratch() {
    let case = case(70, super::super::SHARED_SCRATCH / 4);
    let got = case.backward(Write::Overwrite, f32::NAN);
    let dbeta = &got[got.len() - case.gamma.len()..];
    let want: Vec<f64> = (0..case.gamma.len())
        .map(|c| case.dy[c..].iter().step_by(case.gamma.len()).map(|&x| f64::from(x)).sum())
        .collect();
    close("dbeta", dbeta, &want, 1e-6);
}
