use super::super::testing::{close, everywhere, values, wide};
use crate::device::{Adam, Decay};

const SCALARS: Adam = Adam {
    scale: 0.037,
    decay: Decay::Kept(0.999_9),
    step_size: 0.002_3,
    root_correction: 0.31,
    beta1: 0.9,
    beta2: 0.95,
    epsilon: 1e-8,
};

const ADDED: Adam = Adam { decay: Decay::Added(0.03), ..SCALARS };

fn run(w: &[f32], m: &[f32], v: &[f32], g: &[f32], scalars: &Adam) -> Vec<f32> {
    everywhere(|device| {
        let (mut w, mut m, mut v) = (w.to_vec(), m.to_vec(), v.to_vec());
        device.adam(&mut w, (&mut m, &mut v), g, scalars);
        [w, m, v].concat()
    })
}

fn reference(w: f64, m: f64, v: f64, g: f64, s: &Adam) -> [f64; 3] {
    let [scale, step, root, b1, b2, eps] =
        [s.scale, s.step_size, s.root_correction, s.beta1, s.beta2, s.epsilon].map(f64::from);
    let (w, g) = match s.decay {
        Decay::Kept(kept) => (w * f64::from(kept), g * scale),
        Decay::Added(decay) => (w, g * scale + f64::from(decay) * w),
    };
    let m = b1 * m + (1.0 - b1) * g;
    let v = b2 * v + (1.0 - b2) * g * g;
    [w - step * m / (v.sqrt() / root + eps), m, v]
}

#[test]
fn as_the_reference() {
    for (len, scalars) in [(1, SCALARS), (15, ADDED), (40_003, SCALARS), (9000, ADDED)] {
        let (w, m, g) = (values(1, len), values(2, len), values(3, len));
        let v: Vec<f32> = values(4, len).iter().map(|x| x * x).collect();
        let got = run(&w, &m, &v, &g, &scalars);
        let (w, m, v, g) = (wide(&w), wide(&m), wide(&v), wide(&g));
        for (part, name) in ["weight", "moment1", "moment2"].iter().enumerate() {
            let want: Vec<f64> = (0..len).map(|i| reference(w[i], m[i], v[i], g[i], &scalars)[part]).collect();
            close(name, &got[part * len..(part + 1) * len], &want, 1e-6);
        }
    }
}

#[test]
fn what_does_not_decay_stays() {
    let none = Adam { decay: Decay::Kept(1.0), ..SCALARS };
    assert_eq!(run(&[1.0], &[0.0], &[0.0], &[0.0], &none), [1.0, 0.0, 0.0]);
    assert_eq!(run(&[1.0], &[0.0], &[0.0], &[0.0], &SCALARS)[0], 0.999_9);
}

/// Bits made by another implementation (f64 arithmetic rounded to f32 after each operation of the written order); every device kind and class
/// gives them. Large, small, subnormal, zero and negative elements.
#[test]
fn golden_bits() {
    let w = [1.0, -0.75, 1e-3, -1e-20, 0.0, 3.5, 1e-40, 1234.5];
    let m = [0.1, -0.2, 1e-12, 0.0, 1e-41, -3.0, 0.25, -1e3];
    let v = [0.01, 0.5, 1e-30, 0.0, 1e-42, 9.0, 1e-38, 1e6];
    let g = [0.3, -40.0, 1e-5, 1e-38, -1e-20, 700.0, 1e-42, -1e5];
    let got: Vec<u32> = run(&w, &m, &v, &g, &SCALARS).iter().map(|x| x.to_bits()).collect();
    assert_eq!(got, GOLDEN);
    let got: Vec<u32> = run(&w, &m, &v, &g, &ADDED).iter().map(|x| x.to_bits()).collect();
    assert_eq!(got, GOLDEN_ADDED);
}

const GOLDEN: [u32; 24] = [
    0x3f7f_cdc8,
    0xbf3f_e70a,
    0x3a35_8bee,
    0x9e3c_e032,
    0x231c_fb59,
    0x405f_fa77,
    0xc74a_2600,
    0x449a_4c13,
    0x3dba_97e1,
    0xbea7_ef9e,
    0x331e_eaee,
    0x0000_6724,
    0x9a32_ebcb,
    0xbde1_4740,
    0x3e66_6666,
    0xc49e_c001,
    0x3c1b_bfba,
    0x3f15_a31b,
    0x27f6_9e01,
    0x0000_0000,
    0x0000_02ab,
    0x4228_5cae,
    0x0067_7222,
    0x49c7_8622,
];

const GOLDEN_ADDED: [u32; 24] = [
    0x3f7f_d315,
    0xbf3f_ebe0,
    0x3a32_9812,
    0x22fe_3238,
    0x231c_fb59,
    0x4060_002e,
    0xc74a_2600,
    0x449a_5006,
    0x3dc0_bcbe,
    0xbea9_1688,
    0x364b_cf4b,
    0x9a11_1235,
    0x9a32_ebcb,
    0xbdcb_c640,
    0x3e66_6666,
    0xc49e_497e,
    0x3c1d_0824,
    0x3f16_7f00,
    0x2e4a_d2f8,
    0x0000_0003,
    0x0000_02ab,
    0x4229_73b8,
    0x0067_7222,
    0x49c5_dc0e,
];
