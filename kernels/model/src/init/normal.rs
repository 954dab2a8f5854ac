//! The normal quantile in a written order of IEEE f64 operations, so that its bits do not depend on a platform's libm.

/// The inverse of the standard normal distribution function for `0 < p < 1`, relative error about 1e-16.
///
/// Algorithm AS 241, PPND16 (M. J. Wichura, "The percentage points of the normal distribution", Applied Statistics 37,
/// 1988): three ratios of polynomials of degree 7.
#[must_use]
pub fn quantile(p: f64) -> f64 {
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

/// Natural logarithm of a normal positive number: `e ln 2 + 2 artanh((m - 1) / (m + 1))` with `m` within a factor of
/// sqrt(2) of one; the series is cut where its terms pass below 2^-56.
fn ln(x: f64) -> f64 {
    const MANTISSA: u64 = (1 << 52) - 1;
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut m = f64::from_bits((bits & MANTISSA) | (1023 << 52));
    if m > std::f64::consts::SQRT_2 {
        m *= 0.5;
        exponent += 1;
    }
    let z = (m - 1.0) / (m + 1.0);
    let square = z * z;
    let mut series = 0.0;
    for k in (0..12).rev() {
        series = series * square + 1.0 / f64::from(2 * k + 1);
    }
    exponent as f64 * std::f64::consts::LN_2 + 2.0 * z * series
}

/// Horner, constant term first in the table.
fn polynomial(coefficients: &[f64; 8], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c)
}

const CENTRE_ABOVE: [f64; 8] = [
    3.387_132_872_796_366_5,
    1.331_416_678_917_843_8e2,
    1.971_590_950_306_551_3e3,
    1.373_169_376_550_946e4,
    4.592_195_393_154_987e4,
    6.726_577_092_700_87e4,
    3.343_057_558_358_813e4,
    2.509_080_928_730_122_7e3,
];
const CENTRE_BELOW: [f64; 8] = [
    1.0,
    4.231_333_070_160_091e1,
    6.871_870_074_920_579e2,
    5.394_196_021_424_751e3,
    2.121_379_430_158_659_7e4,
    3.930_789_580_009_271e4,
    2.872_908_573_572_194_3e4,
    5.226_495_278_852_545e3,
];
const MIDDLE_ABOVE: [f64; 8] = [
    1.423_437_110_749_683_5,
    4.630_337_846_156_546,
    5.769_497_221_460_691,
    3.647_848_324_763_204_5,
    1.270_458_252_452_368_4,
    2.417_807_251_774_506e-1,
    2.272_384_498_926_918_4e-2,
    7.745_450_142_783_414e-4,
];
const MIDDLE_BELOW: [f64; 8] = [
    1.0,
    2.053_191_626_637_759,
    1.676_384_830_183_803_8,
    6.897_673_349_851e-1,
    1.481_039_764_274_800_8e-1,
    1.519_866_656_361_645_7e-2,
    5.475_938_084_995_345e-4,
    1.050_750_071_644_416_9e-9,
];
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

#[cfg(test)]
mod tests {
    use super::*;

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
            let got = quantile(p);
            assert!((got - want).abs() <= 1e-15 * f64::abs(want).max(1.0) * 4.0, "{p}: {got} {want}");
        }
    }

    #[test]
    fn logarithm_agrees_with_the_standard_library() {
        for i in 1..2000u32 {
            for x in [f64::from(i) / 2000.0, f64::from(i) * 1e-12, 2f64.powi(-(i as i32 % 900))] {
                let (got, want) = (ln(x), x.ln());
                assert!((got - want).abs() <= 4.0 * f64::EPSILON * want.abs().max(1e-3), "{x}: {got} {want}");
            }
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
}
