use super::super::testing::{close, everywhere, values, wide};
use crate::device::{Momentum, Sgd};

const SCALARS: Sgd = Sgd { scale: 0.037, decay: 0.03, rate: 0.002_3 };
const KINDS: [Option<Momentum>; 3] = [None, Some(Momentum::Classic(0.9)), Some(Momentum::Nesterov(0.9))];

/// Weights, and running sums if there are some.
fn run(w: &[f32], b: &[f32], g: &[f32], momentum: Option<Momentum>) -> Vec<f32> {
    everywhere(|device| {
        let (mut w, mut b) = (w.to_vec(), b.to_vec());
        match momentum {
            None => {
                device.sgd(&mut w, None, g, &SCALARS);
                w
            }
            Some(momentum) => {
                device.sgd(&mut w, Some((&mut b, momentum)), g, &SCALARS);
                [w, b].concat()
            }
        }
    })
}

fn reference(w: f64, b: f64, g: f64, momentum: Option<Momentum>) -> [f64; 2] {
    let [scale, decay, rate] = [SCALARS.scale, SCALARS.decay, SCALARS.rate].map(f64::from);
    let g = g * scale + decay * w;
    let (b, d) = match momentum {
        None => (b, g),
        Some(Momentum::Classic(share)) => (f64::from(share) * b + g, f64::from(share) * b + g),
        Some(Momentum::Nesterov(share)) => {
            let (share, sum) = (f64::from(share), f64::from(share) * b + g);
            (sum, g + share * sum)
        }
    };
    [w - rate * d, b]
}

#[test]
fn as_the_reference() {
    for momentum in KINDS {
        for len in [1, 15, 20_003] {
            let (w, b, g) = (values(1, len), values(2, len), values(3, len));
            let got = run(&w, &b, &g, momentum);
            let (w, b, g) = (wide(&w), wide(&b), wide(&g));
            let parts = ["weight", "sum"].into_iter().enumerate().take(1 + usize::from(momentum.is_some()));
            for (part, name) in parts {
                let want: Vec<f64> = (0..len).map(|i| reference(w[i], b[i], g[i], momentum)[part]).collect();
                close(name, &got[part * len..(part + 1) * len], &want, 1e-6);
            }
        }
    }
}

/// Bits made by another implementation (numpy, one f32 operation after the other).
#[test]
fn golden_bits() {
    let w = [1.0, -0.75, 1e-3, -1e-20, 0.0, 3.5, 1e-40, 1234.5];
    let b = [0.1, -0.2, 1e-12, 0.0, 1e-41, -3.0, 0.25, -1e3];
    let g = [0.3, -40.0, 1e-5, 1e-38, -1e-20, 700.0, 1e-42, -1e5];
    for (momentum, golden) in KINDS.into_iter().zip([&PLAIN[..], &CLASSIC, &NESTEROV]) {
        let got: Vec<u32> = run(&w, &b, &g, momentum).iter().map(|x| x.to_bits()).collect();
        assert_eq!(got, golden, "{momentum:?}");
    }
}

const PLAIN: [u32; 8] =
    [0x3f7f_f9ce, 0xbf3f_1d86, 0x3a83_1017, 0x9e3c_e1b2, 0x1783_af95, 0x405c_2c0c, 0x0001_16bd, 0x449b_5d98];

const CLASSIC: [u32; 16] = [
    0x3f7f_ec3d,
    0xbf3f_0264,
    0x3a83_1017,
    0x9e3c_e1b2,
    0x1783_af95,
    0x405c_91cb,
    0xba07_a8d6,
    0x449b_9fd6,
    0x3e06_3f14,
    0xbfd7_5c29,
    0x37fe_c315,
    0x9bb5_56c0,
    0x9bdf_a6ba,
    0x41ba_70a4,
    0x3e66_6666,
    0xc58e_97b8,
];

const NESTEROV: [u32; 16] = [
    0x3f7f_e805,
    0xbf3e_3947,
    0x3a83_0dfb,
    0x9e3c_deb1,
    0x17fa_3403,
    0x4059_15aa,
    0xb9f4_2fe7,
    0x449c_8bd8,
    0x3e06_3f14,
    0xbfd7_5c29,
    0x37fe_c315,
    0x9bb5_56c0,
    0x9bdf_a6ba,
    0x41ba_70a4,
    0x3e66_6666,
    0xc58e_97b8,
];
