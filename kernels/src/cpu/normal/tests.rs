use proptest::prelude::*;
use shoal_exact::philox::philox4x32;

use super::*;

fn quantile(p: f64) -> f64 {
    if is_central(p) { central_quantile(p) } else { outer_quantile(p) }
}

/// AS 241 as its author wrote it: a ratio of polynomials for each of three ranges.
fn reference(p: f64) -> f64 {
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180_625 - q * q;
        return q * polynomial(&CENTRE_ABOVE, r) / polynomial(&CENTRE_BELOW, r);
    }
    let r = (-ln(if q < 0.0 { p } else { 1.0 - p })).sqrt();
    let magnitude = if r <= 5.0 {
        polynomial(&MIDDLE_ABOVE, r - 1.6) / polynomial(&MIDDLE_BELOW, r - 1.6)
    } else {
        polynomial(&FAR_ABOVE, r - 5.0) / polynomial(&FAR_BELOW, r - 5.0)
    };
    if q < 0.0 { -magnitude } else { magnitude }
}

fn plain(seed: u64, [a, b]: [u32; 2], at: u64, deviation: f64) -> f32 {
    let words = philox4x32([seed as u32, (seed >> 32) as u32], [(at / 4) as u32, ((at / 4) >> 32) as u32, a, b]);
    let uniform = (f64::from(words[(at % 4) as usize]) + 0.5) / 4_294_967_296.0;
    (reference(uniform) * deviation) as f32
}

proptest! {
    /// Any run of a stream, on every class this machine has, is the plain draw of each of its elements.
    #[test]
    fn runs_are_the_plain_draws(
        seed in any::<u64>(), stream in any::<[u32; 2]>(), start in 0..1u64 << 40, len in 0usize..300,
    ) {
        let mut out = vec![f32::NAN; len];
        normals(seed, stream, start, 0.02, &mut out);
        for (at, x) in (start..).zip(&out) {
            prop_assert_eq!(x.to_bits(), plain(seed, stream, at, 0.02).to_bits(), "element {}", at);
        }
        for class in Class::here() {
            let mut drawn = [f32::NAN; BATCH];
            batch(class, &mut drawn, seed, stream, start, 0.02);
            for (i, x) in drawn.iter().enumerate() {
                prop_assert_eq!(x.to_bits(), plain(seed, stream, 4 * start + i as u64, 0.02).to_bits());
            }
        }
    }
}

/// The ends of what 32 bits can draw, and the edges between the ratios.
#[test]
fn the_choice_is_the_reference_over_its_whole_range() {
    let last = 1.0 - 2f64.powi(-33);
    let edges = [0.075, 0.925, 0.5].into_iter().flat_map(|p: f64| [p.next_down(), p, p.next_up()]);
    for p in edges.chain([2f64.powi(-33), last]).chain((1..4096).map(|i| f64::from(i) / 4096.0)) {
        assert_eq!(quantile(p).to_bits(), reference(p).to_bits(), "{p}");
    }
}

/// Values of the quantile to 16 digits: tables of the normal distribution, and the two check values in Wichura's paper
/// (p = 0.25, 0.001, 1e-20).
#[test]
fn known_values() {
    for (p, want) in [
        (0.5, 0.0),
        (0.25, -0.674_489_750_196_081_7),
        (0.001, -3.090_232_306_167_813_5),
        (1e-20, -9.262_340_089_798_408),
        (0.975, 1.959_963_984_540_054),
        (1e-10, -6.361_340_902_404_056),
    ] {
        let got = reference(p);
        assert!((got - want).abs() <= 1e-15 * f64::abs(want).max(1.0) * 4.0, "{p}: {got} {want}");
    }
}

#[test]
fn it_is_odd_and_rises() {
    let mut before = f64::NEG_INFINITY;
    for i in 1..4096 {
        let p = f64::from(i) / 4096.0;
        let z = quantile(p);
        assert!(z > before);
        assert_eq!(z, -quantile(1.0 - p));
        before = z;
    }
}

const FAR_ABOVE: [f64; 8] = [
    6.657_904_643_501_103,
    5.463_784_911_164_114,
    1.784_826_539_917_291_3,
    2.965_605_718_285_048_7e-1,
    2.653_218_952_657_612_4e-2,
    1.242_660_947_388_078_4e-3,
    2.711_555_568_743_487_6e-5,
    2.010_334_399_292_288_1e-7,
];
const FAR_BELOW: [f64; 8] = [
    1.0,
    5.998_322_065_558_88e-1,
    1.369_298_809_227_358e-1,
    1.487_536_129_085_061_5e-2,
    7.868_691_311_456_133e-4,
    1.846_318_317_510_054_7e-5,
    1.421_511_758_316_446e-7,
    2.044_263_103_389_939_8e-15,
];
