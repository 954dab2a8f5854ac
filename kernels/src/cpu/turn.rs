//! Powers and turns in f64, of this crate's own: for tables that are made once, not for elements.

use shoal_exact::elementary::exp;

use super::math::ln;

/// `base^exponent` for a positive base.
pub(crate) fn power(base: f64, exponent: f64) -> f64 {
    if exponent == 0.0 { 1.0 } else { exp(exponent * ln(base)) }
}

/// Sine and cosine of 0 <= x < 10^6 radians; absolute error below 1e-15.
pub(crate) fn sin_cos(x: f64) -> (f64, f64) {
    // pi / 2 in pieces of 33, 33 and 53 bits: products of the first two with a quarter's number below 2^20 are exact.
    const HIGH: f64 = f64::from_bits(0x3ff9_21fb_5440_0000);
    const MIDDLE: f64 = f64::from_bits(0x3dd0_b461_1a60_0000);
    const LOW: f64 = f64::from_bits(0x3ba3_198a_2e03_7073);
    let quarter = (x * std::f64::consts::FRAC_2_PI).round();
    let r = ((x - quarter * HIGH) - quarter * MIDDLE) - quarter * LOW;
    let square = r * r;
    // The series up to degree 19 and 18: |r| <= pi / 4 leaves 1e-20.
    let (mut sin, mut cos) = (1.0, 1.0);
    for k in (1..=9).rev() {
        let k = f64::from(2 * k);
        sin = 1.0 - sin * square / (k * (k + 1.0));
        cos = 1.0 - cos * square / (k * (k - 1.0));
    }
    let sin = sin * r;
    match quarter as u64 % 4 {
        0 => (sin, cos),
        1 => (cos, -sin),
        2 => (-sin, -cos),
        _ => (-cos, sin),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_close_over_their_range() {
        for i in 0..400_000_u32 {
            let x = f64::from(i) * 0.731_234_567;
            let (sin, cos) = sin_cos(x);
            assert!((sin - x.sin()).abs() < 3e-16 && (cos - x.cos()).abs() < 3e-16, "{x}: {sin} {cos}");
        }
        assert_eq!(sin_cos(0.0), (0.0, 1.0));
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
    }
}
