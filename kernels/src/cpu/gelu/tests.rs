use super::super::testing::{close, everywhere, is_gradient, values, wide};

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

#[test]
fn backward_by_finite_differences() {
    let x: Vec<f32> = inputs().into_iter().filter(|x| x.abs() < 50.0).collect();
    let seed = values(2, x.len());
    let got = everywhere(|device| {
        let mut dy = seed.clone();
        device.gelu_backward(&mut dy, &x);
        dy
    });
    for ((got, x), seed) in got.iter().zip(wide(&x)).zip(&seed) {
        is_gradient("gelu", &[*got], &[x], |x| reference(x[0]) * f64::from(*seed), 2e-6);
    }
    // Far out the function is the identity or zero.
    let mut ends = [1.0, 1.0];
    super::super::testing::device(1, crate::cpu::Class::Portable).gelu_backward(&mut ends, &[1e4, -1e4]);
    close("ends", &ends, &[1.0, 0.0], 1e-12);
}
