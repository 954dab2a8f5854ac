use super::super::testing::{close, everywhere, values, wide};
use super::*;
use crate::arena::View;

const SQUARES: Squares = Squares { scale: 0.37, epsilon: 1e-30_f32 as f64, share: 0.3 };
const STEP: Adafactor = Adafactor { scale: 0.37, kept: 0.999, rate: 0.02 };
const BETA1: f32 = 0.9;

/// A parameter with its state: all rows of a matrix, or a vector (no rows).
#[derive(Clone)]
struct State {
    weight: Vec<f32>,
    moment: Vec<f32>,
    rows: Vec<f32>,
    columns: Vec<f32>,
    gradient: Vec<f32>,
}

impl State {
    fn of(height: usize, width: usize) -> Self {
        let len = height.max(1) * width;
        let positive = |seed, len| values(seed, len).iter().map(|x| x.abs() + 0.01).collect();
        Self {
            weight: values(1, len),
            moment: values(2, len),
            rows: positive(3, height),
            columns: positive(4, width),
            gradient: values(5, len),
        }
    }

    fn factors(&self, mean: f32) -> Factors<'_> {
        if self.rows.is_empty() {
            return Factors::Vector(View::host_slice(&self.columns));
        }
        Factors::Matrix { rows: View::host_slice(&self.rows), mean, columns: View::host_slice(&self.columns) }
    }

    /// Rows, columns, sum of squares, weights and (with it) moments after one update.
    fn updated(&self, with_moment: bool) -> Vec<f32> {
        everywhere(|device| {
            let mut state = self.clone();
            let (rows, columns) = (&mut state.rows, &mut state.columns);
            if rows.is_empty() {
                device.adafactor_vector(columns, &state.gradient, &SQUARES);
            } else {
                device.adafactor_rows(rows, &state.gradient, &SQUARES);
                let width = columns.len();
                // In two strokes, the edge of which is no edge of anything else.
                let (left, right) = columns.split_at_mut(width / 3);
                device.adafactor_columns(left, &state.gradient, (0, width), &SQUARES);
                device.adafactor_columns(right, &state.gradient, (width / 3, width), &SQUARES);
            }
            let mean = device.mean(&state.rows);
            let sum = device.adafactor_squares(state.factors(mean), &state.gradient, SQUARES.scale);
            assert!(sum.finite);
            let (mut weight, mut moment) = (std::mem::take(&mut state.weight), std::mem::take(&mut state.moment));
            let with = with_moment.then_some((&mut moment[..], BETA1));
            device.adafactor(&mut weight, with, state.factors(mean), &state.gradient, &STEP);
            let kept = if with_moment { moment } else { Vec::new() };
            [state.rows, state.columns, vec![sum.sum.to_f64() as f32], weight, kept].concat()
        })
    }

    fn reference(&self, with_moment: bool) -> Vec<f64> {
        let [scale, share, kept, rate, beta1] =
            [SQUARES.scale, SQUARES.share, STEP.kept, STEP.rate, BETA1].map(f64::from);
        let (height, width) = (self.rows.len(), self.columns.len());
        let g: Vec<f64> = wide(&self.gradient).iter().map(|g| g * scale).collect();
        let enter = |moment: f32, mean: f64| f64::from(moment) * (1.0 - share) + share * (mean + SQUARES.epsilon);
        let row = |i: usize| g[i * width..(i + 1) * width].iter().map(|g| g * g).sum::<f64>() / width as f64;
        let column = |j: usize| g.iter().skip(j).step_by(width).map(|g| g * g).sum::<f64>() / height.max(1) as f64;
        let rows: Vec<f64> = (0..height).map(|i| enter(self.rows[i], row(i))).collect();
        let columns: Vec<f64> = (0..width).map(|j| enter(self.columns[j], column(j))).collect();
        let mean = rows.iter().sum::<f64>() / height as f64;
        let u: Vec<f64> = (0..g.len())
            .map(|at| {
                let row = rows.get(at / width).map_or(1.0, |row| 1.0 / (row / mean).sqrt());
                g[at] * row / columns[at % width].sqrt()
            })
            .collect();
        let moment = |at: usize| beta1 * f64::from(self.moment[at]) + (1.0 - beta1) * rate * u[at];
        let step = |at: usize| if with_moment { moment(at) } else { rate * u[at] };
        let weights: Vec<f64> = (0..g.len()).map(|at| f64::from(self.weight[at]) * kept - step(at)).collect();
        let moments = if with_moment { (0..g.len()).map(moment).collect() } else { Vec::new() };
        [rows, columns, vec![u.iter().map(|u| u * u).sum()], weights, moments].concat()
    }
}

#[test]
fn as_the_reference() {
    for (height, width) in [(1, 1), (3, 20), (7, 16), (300, 133), (2, 5000), (0, 17), (0, 20_003)] {
        for with_moment in [false, true] {
            let state = State::of(height, width);
            let want = state.reference(with_moment);
            close(&format!("{height} x {width}"), &state.updated(with_moment), &want, 2e-6);
        }
    }
}

/// Rows and columns that never had a gradient, beside one whose squares no f32 can hold, and back to an ordinary one.
#[test]
fn nothing_becomes_infinite() {
    let (height, width) = (4, 40);
    let gradient = |size: f32| -> Vec<f32> {
        let dead = |at: usize| at / width == 1 || at % width == 7;
        values(5, height * width).iter().enumerate().map(|(at, x)| if dead(at) { 0.0 } else { x * size }).collect()
    };
    for epsilon in [f32::MIN_POSITIVE, 1e-30, f32::MAX] {
        let squares = |share| Squares { scale: 1.0, epsilon: f64::from(epsilon), share };
        let all = everywhere(|device| {
            let mut state = State::of(height, width);
            (state.rows, state.columns) = (vec![0.0; height], vec![0.0; width]);
            for (time, size) in [0.0, 1e-20, 1e38, 1.0, f32::MAX / 2.0, 1e-30].into_iter().enumerate() {
                let (g, squares) = (gradient(size), squares(1.0 / (time + 1) as f32));
                device.adafactor_rows(&mut state.rows, &g, &squares);
                device.adafactor_columns(&mut state.columns, &g, (0, width), &squares);
                let mean = device.mean(&state.rows);
                let step = device.adafactor_squares(state.factors(mean), &g, 1.0);
                assert!(step.finite, "{epsilon} {size}");
                let long = (step.sum.to_f64() / g.len() as f64).sqrt();
                let scalars = Adafactor { scale: 1.0, kept: 0.99, rate: (0.01 / long.max(1.0)) as f32 };
                let (mut weight, mut moment) = (std::mem::take(&mut state.weight), std::mem::take(&mut state.moment));
                device.adafactor(&mut weight, Some((&mut moment, BETA1)), state.factors(mean), &g, &scalars);
                (state.weight, state.moment) = (weight, moment);
            }
            [state.rows, state.columns, state.weight, state.moment].concat()
        });
        assert!(all.iter().all(|x| x.is_finite() && x.abs() < 2.0_f32.powi(127)), "{epsilon}: {all:?}");
    }
}

/// A step in several parts, as an update in strokes makes it.
#[test]
fn rows_one_by_one_are_the_whole() {
    let state = State::of(5, 37);
    let whole = everywhere(|device| {
        let mut weight = state.weight.clone();
        device.adafactor(&mut weight, None, state.factors(0.7), &state.gradient, &STEP);
        weight
    });
    let parts = everywhere(|device| {
        let mut weight = state.weight.clone();
        for row in 0..5 {
            let (elements, columns) = (row * 37..(row + 1) * 37, View::host_slice(&state.columns));
            let factors = Factors::Matrix { rows: View::host_slice(&state.rows[row..=row]), mean: 0.7, columns };
            device.adafactor(&mut weight[elements.clone()], None, factors, &state.gradient[elements], &STEP);
        }
        weight
    });
    assert_eq!(whole, parts);
}

/// Bits made by another implementation (numpy, one operation of the written order after the other).
#[test]
fn golden_bits() {
    let values = |len: usize, k: usize| -> Vec<f32> {
        (0..len).map(|i| ((i * 37 + k * 11) % 101) as f32 / 64.0 - 50.0 / 64.0).collect()
    };
    let positive = |len, k| values(len, k).iter().map(|x| x.abs() + 0.01).collect();
    let state = State {
        weight: values(60, 2),
        moment: values(60, 3),
        rows: positive(3, 4),
        columns: positive(20, 5),
        gradient: values(60, 1),
    };
    let got: Vec<u32> = state.updated(false).iter().map(|x| x.to_bits()).collect();
    assert_eq!(got, PLAIN);
    let got: Vec<u32> = state.updated(true).iter().skip(24).map(|x| x.to_bits()).collect();
    assert_eq!(got, MOMENT);
}

const PLAIN: [u32; 84] = [
    0x3da6_f1c3,
    0x3eb5_64d8,
    0x3ec0_b32f,
    0x3d8d_fbd2,
    0x3ef2_c72f,
    0x3e82_be6c,
    0x3e36_c957,
    0x3f0d_1bdb,
    0x3e16_a6bd,
    0x3e94_513c,
    0x3ee3_4fa5,
    0x3d1b_0797,
    0x3ecc_0572,
    0x3eaa_25c0,
    0x3dd0_a116,
    0x3f01_c564,
    0x3e64_0569,
    0x3e58_b9ad,
    0x3f04_d848,
    0x3deb_9a08,
    0x3ea5_9841,
    0x3ed2_0de1,
    0x3cd6_caa9,
    0x41e1_d186,
    0xbecf_cbcf,
    0x3e10_7b92,
    0x3f34_1471,
    0xbe88_7365,
    0x3e96_af7d,
    0xbf3a_260c,
    0xbdf0_828c,
    0x3ee4_da81,
    0xbefe_3604,
    0x3d0c_2d65,
    0x3f19_3954,
    0xbebb_a19f,
    0x3e3f_8144,
    0x3f3f_75ca,
    0xbe63_90ca,
    0x3eae_2d35,
    0xbf2f_7749,
    0xbd93_b2f1,
    0x3efc_34f5,
    0xbee3_182e,
    0x3da4_8e96,
    0x3f26_aaca,
    0xbeac_71ce,
    0x3e6e_c7b6,
    0xbf45_3ba0,
    0xbe39_9a0c,
    0x3ec6_7434,
    0xbf19_e701,
    0xbcc8_6a8b,
    0x3f0a_e052,
    0xbee4_2d5e,
    0x3e00_d847,
    0x3f32_959a,
    0xbe94_8edc,
    0x3e8f_118f,
    0xbf39_657e,
    0xbe09_c0c5,
    0x3ede_3aa5,
    0xbf0d_f515,
    0x3cb3_01a8,
    0x3f15_4612,
    0xbecd_181e,
    0x3e2f_d2f2,
    0x3f3d_9c08,
    0xbe7c_1796,
    0x3ea6_85e3,
    0xbf2e_052e,
    0xbdba_af19,
    0x3ef2_9727,
    0xbf02_1e40,
    0x3d82_4f8a,
    0x3f21_79f2,
    0xbeb5_6b19,
    0x3e5f_233a,
    0xbf49_fb96,
    0xbe4c_724b,
    0x3ebd_e233,
    0xbf22_0c11,
    0xbd37_0751,
    0x3f04_4c54,
];

const MOMENT: [u32; 120] = [
    0xbe47_8e58,
    0xbe10_14d1,
    0x3faa_ebd4,
    0xbe39_6e54,
    0xbe00_8958,
    0xbe68_3626,
    0xbe2a_4f70,
    0xbde2_1800,
    0xbe50_bcfc,
    0xbe1a_eca3,
    0xbdc3_5810,
    0xbe43_90f8,
    0xbe0b_6c1b,
    0x3fab_7c1c,
    0xbe34_f0c9,
    0xbdf7_c350,
    0xbe63_fb4a,
    0xbe25_b684,
    0xbdd8_d6bc,
    0xbe4b_5bac,
    0xbe16_3e80,
    0x3faa_41fc,
    0xbe40_9277,
    0xbe06_bcec,
    0xbe6c_9668,
    0xbe30_c991,
    0xbdee_236c,
    0xbe5b_663e,
    0xbe20_e05b,
    0xbdce_b4f8,
    0xbe4b_9e2c,
    0xbe11_a176,
    0x3faa_d925,
    0xbe3b_d689,
    0xbe02_0ba2,
    0xbe67_e56e,
    0xbe2c_0bb3,
    0xbde4_b6f8,
    0xbe56_aa20,
    0xbe1c_2d44,
    0xbdc6_79b0,
    0xbe47_0b61,
    0xbe0c_f9da,
    0x3fab_64e2,
    0xbe37_60fa,
    0xbdfa_cbac,
    0xbe63_6390,
    0xbe27_a5d6,
    0xbddc_a814,
    0xbe51_f8da,
    0xbe17_f12b,
    0x3faa_0001,
    0xbe42_5a3d,
    0xbe08_49b0,
    0xbe6e_7920,
    0xbe32_a84f,
    0xbdf1_89ac,
    0xbe5e_a492,
    0xbe22_eeb9,
    0xbdd3_f0d0,
    0xbe77_fef8,
    0x3e8f_f7fa,
    0xbf1e_06c1,
    0xbdcc_8fe5,
    0x3ed8_1dc3,
    0xbef3_88c5,
    0x3d29_c0d0,
    0x3f10_254e,
    0xbeaf_59d4,
    0x3e3a_e472,
    0x3f34_4313,
    0xbe4c_08a2,
    0x3ea5_9d7a,
    0xbf13_2a65,
    0xbd6b_471c,
    0x3eed_c3c6,
    0xbedd_ac57,
    0x3dab_95fd,
    0x3f1a_fa13,
    0xbe9a_10a1,
    0x3e66_2a05,
    0xbf2c_aefa,
    0xbe1f_136d,
    0x3ebb_3fbe,
    0xbf08_a839,
    0xbc70_547a,
    0x3f01_aad4,
    0xbec9_fd03,
    0x3e00_e88c,
    0x3f25_b2c8,
    0xbe81_f586,
    0x3e88_c059,
    0xbf21_e05e,
    0xbde7_b74a,
    0x3ed0_e0f4,
    0xbefb_af15,
    0x3ce1_8481,
    0x3f0c_7a33,
    0xbeb4_6136,
    0x3e2c_292b,
    0x3f30_a84d,
    0xbe58_8a21,
    0x3e9e_6666,
    0xbf16_faeb,
    0xbd90_bafa,
    0x3ee6_87e9,
    0xbee5_f628,
    0x3d8f_7cd3,
    0x3f17_7544,
    0xbe9e_bffd,
    0x3e57_e0c9,
    0xbf30_29fe,
    0xbe2d_478f,
    0x3eb4_082c,
    0xbf0c_2e85,
    0xbce9_1391,
    0x3efc_3144,
    0xbed0_5bcb,
    0x3de5_f606,
    0x3f22_5b49,
];
