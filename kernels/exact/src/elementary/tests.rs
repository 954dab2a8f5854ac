use super::*;

#[test]
fn exp_is_close_over_its_range() {
    for i in -70_800..=70_900 {
        let x = f64::from(i) / 100.0;
        let want = x.exp();
        assert!((exp(x) - want).abs() <= 1e-15 * want, "{x}: {} {want}", exp(x));
    }
    assert_eq!([0.0, -709.0, f64::NEG_INFINITY, 710.0].map(exp), [1.0, 0.0, 0.0, f64::INFINITY]);
    assert!(exp(f64::NAN).is_nan());
}

#[test]
fn ln_is_close_over_its_range() {
    let near_one = (1..4000).map(|i| f64::from(i) / 2000.0);
    let drawn = (1..2000).flat_map(|i| [f64::from(i) * 1e-12, 1.0 - f64::from(i) / 4_294_967_296.0]);
    let counts = (1..100_000).map(|i| f64::from(i) * 1e-3 * f64::from(i));
    let twos = (-1022..=1023).map(|e| 2_f64.powi(e));
    let edges = [f64::MIN_POSITIVE, f64::MAX, SQRT_2.next_down(), SQRT_2, SQRT_2.next_up()];
    for x in near_one.chain(drawn).chain(counts).chain(twos).chain(edges) {
        let want = x.ln();
        assert!((ln(x) - want).abs() <= 4.0 * f64::EPSILON * want.abs().max(1e-3), "{x}: {} {want}", ln(x));
    }
    assert!([f64::NAN, f64::INFINITY, 0.0, -1.0, f64::MIN_POSITIVE / 2.0].iter().all(|&x| ln(x).is_nan()));
    assert_eq!(ln(1.0), 0.0);
}

#[test]
fn powers_are_close_over_their_range() {
    for base in [10_000.0, 500_000.0, 1.5, 0.01] {
        for i in 0..=1000 {
            let exponent = f64::from(i) / 500.0 - 1.0;
            let want = f64::powf(base, exponent);
            assert!((power(base, exponent) - want).abs() <= 2e-14 * want, "{base}^{exponent}");
        }
        assert_eq!(power(base, 0.0), 1.0);
    }
    for time in (1..2000).chain([1_000_000, 999_999_937]) {
        for exponent in [-0.8, -1.0, -0.5, -0.001] {
            let want = f64::from(time).powf(exponent);
            assert!((power(f64::from(time), exponent) / want - 1.0).abs() < 1e-13, "{time}^{exponent}");
        }
    }
    assert_eq!(power(1.0, -0.8), 1.0);
}

#[test]
fn whole_powers_are_close() {
    for i in 0..=1000 {
        assert!((whole_power(0.999, i) / 0.999f64.powi(i as i32) - 1.0).abs() < 1e-13, "{i}");
    }
}

#[test]
fn turns_are_close_over_their_range() {
    for i in 0..400_000_u32 {
        let x = f64::from(i) * 0.731_234_567;
        let (sin, cos) = sin_cos(x);
        assert!((sin - x.sin()).abs() < 3e-16 && (cos - x.cos()).abs() < 3e-16, "{x}: {sin} {cos}");
    }
    assert_eq!(sin_cos(0.0), (0.0, 1.0));
    for i in 0..=1000 {
        let x = f64::from(i) / 1000.0;
        assert!((cos_half_turns(x) - (std::f64::consts::PI * x).cos()).abs() < 1e-15, "{x}");
    }
}

/// Bits, which no library of a platform has a say in; made by another implementation (Python, one operation after the other).
#[test]
fn they_keep_their_bits() {
    let exps = [-0.1, -1.0, -17.3, -700.0, 2.5].map(|x| exp(x).to_bits());
    assert_eq!(
        exps,
        [
            4_606_325_270_462_671_674,
            4_600_298_746_774_613_816,
            4_494_723_459_136_184_759,
            58_915_316_498_509_951,
            4_623_047_752_462_491_835
        ]
    );
    let logarithms = [0.1, 3.0, 1e-300, 2_f64.powi(-33), 10_000.0].map(|x| ln(x).to_bits());
    assert_eq!(
        logarithms,
        [
            13_835_739_416_338_191_637,
            4_607_626_529_066_517_258,
            13_872_659_378_474_614_709,
            13_850_503_672_891_575_230,
            4_621_374_578_738_156_821
        ]
    );
    let turns = [0.5, 3.0, 12_345.678].map(|x| {
        let (sin, cos) = sin_cos(x);
        [sin.to_bits(), cos.to_bits()]
    });
    assert_eq!(
        turns.as_flattened(),
        [
            4_602_308_182_625_945_072,
            4_606_079_780_542_709_072,
            4_594_252_404_416_238_939,
            13_830_464_316_077_630_930,
            13_827_889_057_084_568_741,
            4_604_571_406_103_880_888
        ]
    );
    let halves = [0.1, 0.5, 0.9].map(|x| cos_half_turns(x).to_bits());
    assert_eq!(halves, [4_606_741_575_090_066_687, 4_372_995_238_176_751_616, 13_830_113_611_944_842_496]);
}
