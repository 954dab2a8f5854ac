//! Elementary functions in f64 as IEEE operations in a written order: the same on every machine.
//!
//! What draws initial weights, sets the step of an optimizer, turns queries and keys and chooses tokens takes them from here, so
//! no library of a platform has a say in any of it.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2, LN_2, LOG2_E, SQRT_2};

/// e^x, relative error below 1e-15: 0 below -708, where normal numbers end, and infinity above 709. NaN for NaN.
#[must_use]
#[inline]
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
    let n = (x * LOG2_E).round();
    let r = (x - n * HIGH) - n * LOW;
    // Degree 14 of the series: |r| <= ln(2) / 2 leaves 1e-19.
    let mut series = 1.0;
    for divisor in (1..=14).rev() {
        series = 1.0 + series * r / f64::from(divisor);
    }
    series * f64::from_bits(((n as i64 + 1023) as u64) << 52)
}

/// ln(x) for finite x from the smallest normal number on, relative error below 1e-15. NaN for NaN and for anything else.
///
/// `e ln 2 + 2 artanh((m - 1) / (m + 1))` with `m` within a factor of sqrt(2) of one; the series is cut where its terms
/// pass below 2^-56. Without a branch, for whoever takes many at once.
#[must_use]
#[inline(always)]
pub fn ln(x: f64) -> f64 {
    const MANTISSA: u64 = (1 << 52) - 1;
    let bits = x.to_bits();
    let m = f64::from_bits((bits & MANTISSA) | (1023 << 52));
    let above = m > SQRT_2;
    let exponent = (bits >> 52) as i32 - 1023 + i32::from(above);
    let m = if above { m * 0.5 } else { m };
    let z = (m - 1.0) / (m + 1.0);
    let square = z * z;
    let mut series = 0.0;
    for k in (0..12).rev() {
        series = series * square + 1.0 / f64::from(2 * k + 1);
    }
    let result = f64::from(exponent) * LN_2 + 2.0 * z * series;
    if (f64::MIN_POSITIVE..f64::INFINITY).contains(&x) { result } else { f64::NAN }
}

/// `base^exponent` for a positive base, by way of [`exp`] and [`ln`]: about 13 digits.
#[must_use]
pub fn power(base: f64, exponent: f64) -> f64 {
    if exponent == 0.0 { 1.0 } else { exp(exponent * ln(base)) }
}

/// `base^exponent` by squaring.
#[must_use]
pub fn whole_power(base: f64, exponent: u64) -> f64 {
    let (mut result, mut base, mut left) = (1.0, base, exponent);
    while left > 0 {
        if left & 1 == 1 {
            result *= base;
        }
        base *= base;
        left >>= 1;
    }
    result
}

/// Sine and cosine of 0 <= x < 10^6 radians; absolute error below 1e-15.
#[must_use]
pub fn sin_cos(x: f64) -> (f64, f64) {
    // pi / 2 in pieces of 33, 33 and 53 bits: products of the first two with a quarter's number below 2^20 are exact.
    const HIGH: f64 = f64::from_bits(0x3ff9_21fb_5440_0000);
    const MIDDLE: f64 = f64::from_bits(0x3dd0_b461_1a60_0000);
    const LOW: f64 = f64::from_bits(0x3ba3_198a_2e03_7073);
    let quarter = (x * FRAC_2_PI).round();
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

/// cos(pi x) for x in 0..=1, which falls all the way: 1 - 2 sin^2(pi x / 2) with the series of the sine up to the 25th power.
#[must_use]
pub fn cos_half_turns(x: f64) -> f64 {
    let angle = FRAC_PI_2 * x;
    let square = angle * angle;
    let mut sum = 1.0;
    for k in (1..=12).rev() {
        let k = f64::from(k);
        sum = 1.0 - sum * square / ((2.0 * k) * (2.0 * k + 1.0));
    }
    let sine = angle * sum;
    1.0 - 2.0 * sine * sine
}

#[cfg(test)]
mod tests;
