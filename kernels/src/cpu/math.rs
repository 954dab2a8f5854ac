//! Elementary functions of this crate's own, so that no platform's library enters bits.

/// e^x for x in [-87, 88]; clamped outside, NaN for NaN. Relative error below 2e-7.
///
/// Cody and Waite's reduction to |r| <= ln(2) / 2, then a polynomial of degree 6 (Cephes `expf` coefficients).
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    const SHIFT: f32 = 12_582_912.0; // 1.5 x 2^23: adding it rounds to an integer in the low bits
    // Comparisons, not min and max, which would lose a NaN.
    let x = if x > 88.0 { 88.0 } else { x };
    let x = if x < -87.0 { -87.0 } else { x };
    let shifted = x.mul_add(std::f32::consts::LOG2_E, SHIFT);
    let n = shifted - SHIFT;
    let r = n.mul_add(-0.693_359_4, x);
    let r = n.mul_add(2.121_944_4e-4, r);
    let p = 1.987_569_2e-4_f32;
    let p = p.mul_add(r, 1.398_199_9e-3);
    let p = p.mul_add(r, 8.333_452e-3);
    let p = p.mul_add(r, 4.166_579_6e-2);
    let p = p.mul_add(r, 1.666_666_6e-1);
    let p = p.mul_add(r, 0.5);
    let p = p.mul_add(r * r, r + 1.0);
    let scale = f32::from_bits((shifted.to_bits() << 23).wrapping_add(0x3f80_0000));
    p * scale
}

/// ln(x) for finite x > 0, in f64: relative error below 1e-15. NaN for NaN and for what has no logarithm.
#[inline(always)]
pub(super) fn ln(x: f64) -> f64 {
    if !(x >= f64::MIN_POSITIVE && x.is_finite()) {
        return f64::NAN;
    }
    // x = 2^e m with m in [sqrt(1/2), sqrt(2)); ln(m) = 2 atanh((m - 1) / (m + 1)).
    let bits = x.to_bits();
    let offset = bits.wrapping_sub(0x3fe6_a09e_667f_3bcd);
    let exponent = (offset as i64) >> 52;
    let m = f64::from_bits(bits.wrapping_sub((exponent as u64) << 52));
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let mut series = 1.0 / 23.0;
    for denominator in [21.0, 19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        series = series * z + 1.0 / denominator;
    }
    2.0 * s * series + exponent as f64 * std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_close_over_its_range() {
        let mut worst = 0.0_f64;
        for i in 0..400_000 {
            let x = -87.0 + i as f32 * (175.0 / 400_000.0);
            let want = f64::from(x).exp();
            worst = worst.max((f64::from(exp(x)) - want).abs() / want);
        }
        assert!(worst < 2e-7, "{worst:e}");
        assert!(exp(f32::NAN).is_nan());
        assert_eq!((exp(0.0), exp(f32::NEG_INFINITY) < 2e-38), (1.0, true));
    }

    #[test]
    fn ln_is_close_over_its_range() {
        for i in 1..100_000 {
            let x = f64::from(i) * 1e-3 * f64::from(i);
            let want = x.ln();
            assert!((ln(x) - want).abs() <= 1e-15 * want.abs().max(1.0), "{x}: {} {want}", ln(x));
        }
        assert!(ln(f64::NAN).is_nan() && ln(f64::INFINITY).is_nan() && ln(0.0).is_nan());
        assert_eq!(ln(1.0), 0.0);
    }
}
