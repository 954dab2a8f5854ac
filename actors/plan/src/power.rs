//! Powers as IEEE operations in a written order, the same on every machine.

/// x^n by squaring.
pub(crate) fn whole(x: f64, n: u64) -> f64 {
    let (mut result, mut base, mut left) = (1.0, x, n);
    while left > 0 {
        if left & 1 == 1 {
            result *= base;
        }
        base *= base;
        left >>= 1;
    }
    result
}

/// x^y for x from 1 and y from -1 to 0: exp(y ln x), to about 13 digits.
pub(crate) fn fraction(x: f64, y: f64) -> f64 {
    exponential(y * logarithm(x))
}

/// ln x for a normal x of at least 1: its exponent, and the series of the inverse hyperbolic tangent for its mantissa, which
/// lies between the roots of 1/2 and 2.
fn logarithm(x: f64) -> f64 {
    const MANTISSA: u64 = (1 << 52) - 1;
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as f64 - 1023.0;
    let mut mantissa = f64::from_bits(bits & MANTISSA | 1023 << 52);
    if mantissa > std::f64::consts::SQRT_2 {
        (mantissa, exponent) = (mantissa / 2.0, exponent + 1.0);
    }
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let mut sum = 0.0;
    for k in (0..=12).rev() {
        sum = sum * square + 1.0 / f64::from(2 * k + 1);
    }
    exponent * std::f64::consts::LN_2 + 2.0 * s * sum
}

/// e^x for x from -700 to 0: a power of two, and the Taylor series for what is left, at most ln 2 / 2 either way.
fn exponential(x: f64) -> f64 {
    let twos = (x / std::f64::consts::LN_2 - 0.5).ceil();
    let rest = x - twos * std::f64::consts::LN_2;
    let mut sum = 1.0;
    for k in (1..=15).rev() {
        sum = 1.0 + sum * rest / f64::from(k);
    }
    sum * f64::from_bits(((1023.0 + twos) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_powers_are_those_of_the_library() {
        for i in 0..=1000 {
            assert!((whole(0.999, i) / 0.999f64.powi(i as i32) - 1.0).abs() < 1e-13, "{i}");
        }
    }

    #[test]
    fn fractional_powers_are_those_of_the_library() {
        for t in (1..2000).chain([1_000_000, 999_999_937]) {
            for y in [-0.8, -1.0, -0.5, -0.001] {
                let (found, want) = (fraction(f64::from(t), y), f64::from(t).powf(y));
                assert!((found / want - 1.0).abs() < 1e-13, "{t}^{y}: {found} {want}");
            }
        }
        assert_eq!(fraction(1.0, -0.8), 1.0);
    }
}
