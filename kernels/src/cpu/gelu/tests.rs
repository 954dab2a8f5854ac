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
        let (mut dy, mut y, mut slope) = (seed.clone(), vec![0.0; x.len()], x.clone());
        device.gelu_with_slope(&mut y, &mut slope);
        device.multiply_into(&mut dy, &slope);
        let mut again = vec![0.0; x.len()];
        device.gelu(&mut again, &x);
        assert!(y.iter().zip(&again).all(|(a, b)| a.to_bits() == b.to_bits()), "the same bits again");
        dy
    });
    for ((got, x), seed) in got.iter().zip(wide(&x)).zip(&seed) {
        is_gradient("gelu", &[*got], &[x], |x| reference(x[0]) * f64::from(*seed), 2e-6);
    }
    // Far out the function is the identity or zero.
    let (mut ends, mut y) = ([1e4, -1e4], [0.0; 2]);
    super::super::testing::device(1, crate::cpu::Class::Portable).gelu_with_slope(&mut y, &mut ends);
    close("ends", &ends, &[1.0, 0.0], 1e-12);
}
