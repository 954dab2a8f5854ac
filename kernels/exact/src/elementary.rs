//! Elementary functions in f64 as IEEE operations in a written order: the same on every machine.

/// e^x, relative error below 1e-15: 0 below -708, where normal numbers end, and infinity above 709. NaN for NaN.
#[must_use]
pub fn exp(x: f64) -> f64 {
    // 33 bits of ln(2), so that products with small integers are exact, and the rest of it.
    const HIGH: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
    const LOW: f64 = f64::from_bits(0x3dea_39ef_3579_3c76);
    if x < -708.0 {
        return 0.0;
    }
    if x > 709.0 {
        return f64::INFINITY;
    }
    let n = (x * std::f64::consts::LOG2_E).round();
    let r = (x - n * HIGH) - n * LOW;
    // Degree 14 of the series: |r| <= ln(2) / 2 leaves 1e-19.
    let mut series = 1.0;
    for divisor in (1..=14).rev() {
        series = 1.0 + series * r / f64::from(divisor);
    }
    series * f64::from_bits(((n as i64 + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
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

    /// Bits, which no library of a platform has a say in.
    #[test]
    fn exp_keeps_its_bits() {
        let found = [-0.1, -1.0, -17.3, -700.0, 2.5].map(|x| exp(x).to_bits());
        assert_eq!(
            found,
            [
                4_606_325_270_462_671_674,
                4_600_298_746_774_613_816,
                4_494_723_459_136_184_759,
                58_915_316_498_509_951,
                4_623_047_752_462_491_835
            ]
        );
    }
}
