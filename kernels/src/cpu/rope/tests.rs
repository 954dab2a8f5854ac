use super::super::testing::{close, everywhere, inner, is_gradient, values, wide};
use crate::device::{Attention, Rotary, RotaryScaling};

const PLAIN: Rotary = Rotary { theta: 10_000.0, scaling: RotaryScaling::None };
const LLAMA3: Rotary = Rotary {
    theta: 500_000.0,
    scaling: RotaryScaling::Llama3 {
        factor: 32.0,
        low_freq_factor: 1.0,
        high_freq_factor: 4.0,
        original_positions: 8192,
    },
};

/// `rotate_half` as its authors write it: `x cos + concat(-second half, first half) sin`.
fn reference(qkv: &[f64], table: &[f32], shape: Attention) -> Vec<f64> {
    let Attention { positions, heads, size, .. } = shape;
    let mut out = qkv.to_vec();
    for (token, (row, out)) in qkv.chunks(shape.packed()).zip(out.chunks_mut(shape.packed())).enumerate() {
        let turn = &table[token % positions * size..][..size];
        for (head, (x, out)) in row.chunks(size).zip(out.chunks_mut(size)).enumerate() {
            if head >= heads && (head - heads) % 2 == 1 {
                continue;
            }
            for i in 0..size {
                let (cos, sin) = (f64::from(turn[2 * (i % (size / 2))]), f64::from(turn[2 * (i % (size / 2)) + 1]));
                let half = if i < size / 2 { -x[i + size / 2] } else { x[i - size / 2] };
                out[i] = x[i] * cos + half * sin;
            }
        }
    }
    out
}

fn rope_table(positions: usize, size: usize, rotary: &Rotary) -> Vec<f32> {
    everywhere(|device| {
        let mut table = vec![f32::NAN; positions * size];
        device.rope_table(&mut table, size, rotary);
        table
    })
}

fn turned(qkv: &[f32], table: &[f32], shape: Attention, back: bool) -> Vec<f32> {
    everywhere(|device| {
        let mut x = qkv.to_vec();
        device.rope(&mut x, table, shape, back);
        x
    })
}

const SHAPES: [Attention; 3] = [
    Attention { samples: 1, positions: 3, heads: 1, kv_heads: 1, size: 2 },
    Attention { samples: 2, positions: 5, heads: 4, kv_heads: 2, size: 12 },
    Attention { samples: 3, positions: 7, heads: 3, kv_heads: 1, size: 36 },
];

#[test]
fn forward_as_the_reference_and_back_again() {
    for shape in SHAPES {
        let table = rope_table(shape.positions + 1, shape.size, &PLAIN);
        let qkv = values(1, shape.samples * shape.positions * shape.packed());
        let got = turned(&qkv, &table, shape, false);
        close("turned", &got, &reference(&wide(&qkv), &table, shape), 1e-6);
        close("turned back", &turned(&got, &table, shape, true), &wide(&qkv), 1e-6);
    }
}

#[test]
fn backward_by_finite_differences() {
    for shape in &SHAPES[..2] {
        let table = rope_table(shape.positions, shape.size, &PLAIN);
        let qkv = values(1, shape.samples * shape.positions * shape.packed());
        let dy = values(2, qkv.len());
        let got = turned(&dy, &table, *shape, true);
        is_gradient("dqkv", &got, &wide(&qkv), |x| inner(&reference(x, &table, *shape), &dy), 1e-6);
    }
}

/// A part of the table from a position on turns as that position does: generation, token by token.
#[test]
fn a_later_part_of_the_table_is_a_later_position() {
    let shape = SHAPES[1];
    let one = Attention { samples: 1, positions: 1, ..shape };
    let table = rope_table(shape.positions, shape.size, &PLAIN);
    let qkv = values(1, shape.samples * shape.positions * shape.packed());
    let whole = turned(&qkv, &table, shape, false);
    for (position, (row, want)) in qkv.chunks(shape.packed()).zip(whole.chunks(shape.packed())).enumerate() {
        let from = position % shape.positions * shape.size;
        assert_eq!(turned(row, &table[from..], one, false), want);
    }
}

/// Every value is that of the standard library in f64, rounded, or beside it, at the longest contexts there are.
#[test]
fn the_table_is_the_true_value_rounded() {
    let (positions, size) = (131_073, 64);
    let table = rope_table(positions, size, &PLAIN);
    for position in (0..positions).step_by(509).chain([positions - 1]) {
        for pair in 0..size / 2 {
            let angle = position as f64 * 10_000_f64.powf(-2.0 * pair as f64 / size as f64);
            let at = position * size + 2 * pair;
            for (got, want) in [(table[at], angle.cos()), (table[at + 1], angle.sin())] {
                let (got, ulp) = (f64::from(got), want.abs().max(1e-3) * f64::from(f32::EPSILON));
                assert!((got - want).abs() <= 0.51 * ulp, "{position} {pair}: {got} is not {want}");
            }
        }
    }
}

/// Turns a position as `transformers` 5.24 has them (`ROPE_INIT_FUNCTIONS`, f32) for heads of 64: each within the rounding of
/// its few f32 steps.
#[test]
fn turns_as_transformers_has_them() {
    let linear = Rotary { scaling: RotaryScaling::Linear { factor: 4.0 }, ..PLAIN };
    let cases: [(Rotary, [(usize, f64); 8]); 3] = [
        (
            PLAIN,
            [
                (0, 1.0),
                (1, 0.749_894_201_755_523_7),
                (7, 0.133_352_145_552_635_2),
                (15, 0.013_335_214_927_792_55),
                (16, 0.009_999_999_776_482_582),
                (20, 0.003_162_277_862_429_619),
                (24, 0.001_000_000_047_497_451_3),
                (31, 0.000_133_352_150_442_078_7),
            ],
        ),
        (
            linear,
            [
                (0, 0.25),
                (1, 0.187_473_550_438_880_92),
                (7, 0.033_338_036_388_158_8),
                (15, 0.003_333_803_731_948_137_3),
                (16, 0.002_499_999_944_120_645_5),
                (20, 0.000_790_569_465_607_404_7),
                (24, 0.000_250_000_011_874_362_8),
                (31, 3.333_803_761_051_968e-5),
            ],
        ),
        (
            // Fast, mixed (15 to 17) and slow turns.
            LLAMA3,
            [
                (0, 1.0),
                (1, 0.663_601_279_258_728),
                (13, 0.004_839_421_249_926_09),
                (15, 0.001_290_548_010_729_253_3),
                (16, 0.000_429_556_705_057_621),
                (17, 9.708_286_233_944_818e-5),
                (19, 1.291_476_746_700_937e-5),
                (31, 9.418_306_490_260_875e-8),
            ],
        ),
    ];
    for (rotary, wanted) in cases {
        // At position 1 the sine of a small turn is the turn; the angle itself comes back by the arc's tangent.
        let table = rope_table(2, 64, &rotary);
        for (pair, want) in wanted {
            let (cos, sin) = (f64::from(table[64 + 2 * pair]), f64::from(table[64 + 2 * pair + 1]));
            let got = sin.atan2(cos);
            assert!((got - want).abs() <= 4e-7 * want.max(1e-7), "{rotary:?} pair {pair}: {got} is not {want}");
        }
    }
}

/// `torch.cos` and `torch.sin` of f32 angles, as `LlamaRotaryEmbedding` makes them: within the rounding of the angle.
#[test]
fn values_as_torch_has_them() {
    let wanted = [
        (7, 1, -0.067_129_626_870_155_33, -0.997_744_262_218_475_3),
        (7, 15, 0.999_959_170_818_328_9, 0.009_033_713_489_770_89),
        (100, 1, -0.926_164_448_261_261, -0.377_119_868_993_759_16),
        (100, 15, 0.991_683_959_960_937_5, 0.128_696_858_882_904_05),
        (2047, 1, 0.340_056_508_779_525_76, 0.940_405_011_177_063),
        (2047, 15, -0.877_658_843_994_140_6, 0.479_285_895_824_432_4),
        (2047, 31, 1.0, 0.000_192_792_736_925_184_73),
    ];
    let table = rope_table(2048, 64, &LLAMA3);
    for (position, pair, cos, sin) in wanted {
        let at = position * 64 + 2 * pair;
        // An angle in f32 is off by half a unit in its turn and half a unit of its own.
        let off = 1e-7 + position as f64 * 1.2e-7;
        assert!(
            (f64::from(table[at]) - cos).abs() < off && (f64::from(table[at + 1]) - sin).abs() < off,
            "{position} {pair}"
        );
    }
}
