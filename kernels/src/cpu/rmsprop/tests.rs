use super::super::testing::{close, everywhere, values, wide};
use crate::device::RmsProp;

const SCALARS: RmsProp = RmsProp { scale: 0.037, decay: 0.03, rate: 0.002_3, alpha: 0.95, epsilon: 1e-8 };

/// Weights, mean squares, and running sums if a share of them is kept.
fn run(w: &[f32], v: &[f32], b: &[f32], g: &[f32], share: Option<f32>) -> Vec<f32> {
    everywhere(|device| {
        let (mut w, mut v, mut b) = (w.to_vec(), v.to_vec(), b.to_vec());
        match share {
            None => {
                device.rmsprop(&mut w, &mut v, None, g, &SCALARS);
                [w, v].concat()
            }
            Some(share) => {
                device.rmsprop(&mut w, &mut v, Some((&mut b, share)), g, &SCALARS);
                [w, v, b].concat()
            }
        }
    })
}

fn reference(w: f64, v: f64, b: f64, g: f64, share: Option<f32>) -> [f64; 3] {
    let [scale, decay, rate, alpha, epsilon] =
        [SCALARS.scale, SCALARS.decay, SCALARS.rate, SCALARS.alpha, SCALARS.epsilon].map(f64::from);
    let g = g * scale + decay * w;
    let v = alpha * v + (1.0 - alpha) * g * g;
    let d = g / (v.sqrt() + epsilon);
    let d = share.map_or(d, |share| f64::from(share) * b + d);
    [w - rate * d, v, d]
}

#[test]
fn as_the_reference() {
    for share in [None, Some(0.9)] {
        for len in [1, 15, 20_003] {
            let (w, b, g) = (values(1, len), values(2, len), values(3, len));
            let v: Vec<f32> = values(4, len).iter().map(|x| x * x).collect();
            let got = run(&w, &v, &b, &g, share);
            let (w, v, b, g) = (wide(&w), wide(&v), wide(&b), wide(&g));
            for (part, name) in ["weight", "squares", "sum"].into_iter().enumerate().take(got.len() / len) {
                let want: Vec<f64> = (0..len).map(|i| reference(w[i], v[i], b[i], g[i], share)[part]).collect();
                close(name, &got[part * len..(part + 1) * len], &want, 1e-6);
            }
        }
    }
}

/// Bits made by another implementation (numpy, one f32 operation after the other).
#[test]
fn golden_bits() {
    let w = [1.0, -0.75, 1e-3, -1e-20, 0.0, 3.5, 1e-40, 1234.5];
    let v = [0.01, 0.5, 1e-30, 0.0, 1e-42, 9.0, 1e-38, 1e6];
    let b = [0.1, -0.2, 1e-12, 0.0, 1e-41, -3.0, 0.25, -1e3];
    let g = [0.3, -40.0, 1e-5, 1e-38, -1e-20, 700.0, 1e-42, -1e5];
    for (share, golden) in [(None, &PLAIN[..]), (Some(0.9), &MOMENTUM)] {
        let got: Vec<u32> = run(&w, &v, &b, &g, share).iter().map(|x| x.to_bits()).collect();
        assert_eq!(got, golden, "{share:?}");
    }
}

const PLAIN: [u32; 16] = [
    0x3f7f_c0b8,
    0xbf3e_d89f,
    0xbc17_e481,
    0x249f_1482,
    0x24c4_3a2d,
    0x405f_6970,
    0x836d_a05a,
    0x449a_5036,
    0x3c1d_0824,
    0x3f16_7f00,
    0x2e4a_d2f8,
    0x0000_0003,
    0x0000_02ab,
    0x4229_73b8,
    0x0067_7222,
    0x49c5_dc0e,
];

const MOMENTUM: [u32; 24] = [
    0x3f7f_b327,
    0xbf3e_bd7d,
    0xbc17_e481,
    0x249f_1482,
    0x24c4_3a2d,
    0x405f_cf2f,
    0xba07_a8d6,
    0x449a_9274,
    0x3c1d_0824,
    0x3f16_7f00,
    0x2e4a_d2f8,
    0x0000_0003,
    0x0000_02ab,
    0x4229_73b8,
    0x0067_7222,
    0x49c5_dc0e,
    0x3f02_833c,
    0xc008_ef89,
    0x408e_e5de,
    0xa907_1ba5,
    0xa926_a219,
    0x3fa5_d0a2,
    0x3e66_6666,
    0xc461_b823,
];
