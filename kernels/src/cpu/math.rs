//! The exponential in f32 of this crate's own, for elements: no platform's library enters bits. What is not done element by
//! element takes `shoal_exact::elementary`, in f64.

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
}
