//! Half types: what a value of 16 bits means, and the nearest one to an f32. Integer steps and one f32 addition, so that every
//! machine rounds alike.

/// A type of 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Half {
    /// 8 bits of exponent, 7 of fraction: the upper half of an f32.
    Bf16,
    /// 5 bits of exponent, 10 of fraction (IEEE binary16); the largest value is 65504.
    F16,
}

impl Half {
    /// The nearest value's bits: a tie goes to the even one, subnormals are kept, what is too large becomes infinite, NaN
    /// stays NaN and keeps what of its fraction there is room for.
    #[inline(always)]
    #[must_use]
    pub fn bits(self, x: f32) -> u16 {
        match self {
            Self::Bf16 => bf16_bits(x),
            Self::F16 => f16_bits(x),
        }
    }

    /// What `bits` mean, exactly.
    #[inline(always)]
    #[must_use]
    pub fn value(self, bits: u16) -> f32 {
        match self {
            Self::Bf16 => f32::from_bits(u32::from(bits) << 16),
            Self::F16 => f16_value(bits),
        }
    }

    /// The nearest value, as [`Self::bits`] has it.
    #[inline(always)]
    #[must_use]
    pub fn nearest(self, x: f32) -> f32 {
        self.value(self.bits(x))
    }

    /// f32 slots that hold `elements` packed values, two a slot.
    #[must_use]
    pub fn slots(elements: usize) -> usize {
        elements.div_ceil(2)
    }
}

#[inline(always)]
fn bf16_bits(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1));
    // A NaN keeps what of its fraction there is room for; nothing at all would be infinity.
    let nan = bits | u32::from(bits & 0x007f_0000 == 0) << 22;
    ((if x.is_nan() { nan } else { rounded }) >> 16) as u16
}

#[inline(always)]
fn f16_bits(x: f32) -> u16 {
    let bits = x.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    // From 2^16 on nothing is finite.
    let fraction = (magnitude >> 13) & 0x3ff;
    let nan = 0x7c00 | fraction | u32::from(fraction == 0) << 9;
    let beyond = if magnitude > 0x7f80_0000 { nan } else { 0x7c00 };
    // Below 2^-14 the unit is 2^-24, which is that of 0.5 in f32.
    let small = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
    // Between them: another bias, and 13 bits of fraction less.
    let odd = (magnitude >> 13) & 1;
    let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(0x0fff + odd) >> 13;
    let half = if magnitude >= 0x4780_0000 {
        beyond
    } else if magnitude < 0x3880_0000 {
        small
    } else {
        normal
    };
    (half | (bits >> 16) & 0x8000) as u16
}

#[inline(always)]
fn f16_value(bits: u16) -> f32 {
    let bits = u32::from(bits);
    let (sign, magnitude) = ((bits & 0x8000) << 16, (bits & 0x7fff) << 13);
    let exponent = magnitude & (0x1f << 23);
    let normal = magnitude + (112 << 23);
    // Infinite and NaN have the largest exponent in both types; a subnormal is what is above 2^-14.
    let beyond = normal + (112 << 23);
    let small = (f32::from_bits(normal + (1 << 23)) - f32::from_bits(113 << 23)).to_bits();
    let value = if exponent == 0x1f << 23 {
        beyond
    } else if exponent == 0 {
        small
    } else {
        normal
    };
    f32::from_bits(value | sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [Half; 2] = [Half::Bf16, Half::F16];

    #[test]
    fn every_value_is_its_own_nearest() {
        for half in BOTH {
            for bits in 0..=u16::MAX {
                // Those that are not numbers too.
                assert_eq!(half.bits(half.value(bits)), bits, "{half:?} {bits:04x}");
            }
        }
    }

    /// Fields of a value, taken apart in f64.
    fn meaning(half: Half, bits: u16) -> f64 {
        let (fraction_bits, bias) = match half {
            Half::Bf16 => (7, 127),
            Half::F16 => (10, 15),
        };
        let (sign, magnitude) = (if bits >> 15 == 1 { -1.0 } else { 1.0 }, bits & 0x7fff);
        let (exponent, fraction) = (i32::from(magnitude >> fraction_bits), magnitude & ((1 << fraction_bits) - 1));
        let unit = 2_f64.powi(exponent.max(1) - bias - fraction_bits);
        let whole = if exponent > 0 { 1 << fraction_bits } else { 0 };
        sign * unit * f64::from(whole + i32::from(fraction))
    }

    #[test]
    fn values_are_what_their_fields_say() {
        for half in BOTH {
            for bits in 0..=u16::MAX {
                let value = half.value(bits);
                if value.is_finite() {
                    assert_eq!(f64::from(value), meaning(half, bits), "{half:?} {bits:04x}");
                }
            }
        }
        assert_eq!((Half::F16.value(0x7bff), Half::F16.value(0x0001)), (65_504.0, 2_f32.powi(-24)));
        assert_eq!((Half::F16.value(0xfc00), Half::Bf16.value(0x7f80)), (f32::NEG_INFINITY, f32::INFINITY));
    }

    /// Between any two neighbours, the last one infinite: a tie goes to the even one, and its neighbours in f32 to their sides.
    #[test]
    fn every_boundary_is_nearest_even() {
        for half in BOTH {
            for low in (0..0x7fff).take_while(|&low| half.value(low).is_finite()) {
                let tie = ((meaning(half, low) + meaning(half, low + 1)) / 2.0) as f32;
                let even = low + (low & 1);
                for (sign, bit) in [(1.0, 0), (-1.0, 0x8000)] {
                    let bits = |x: f32| half.bits(sign * x);
                    assert_eq!(bits(tie), even | bit, "{half:?} {tie}");
                    assert_eq!(bits(tie.next_down()), low | bit, "{half:?} below {tie}");
                    assert_eq!(bits(tie.next_up()), (low + 1) | bit, "{half:?} above {tie}");
                }
            }
        }
    }

    #[test]
    fn ends() {
        for half in BOTH {
            assert_eq!(half.nearest(f32::INFINITY), f32::INFINITY);
            assert_eq!(half.nearest(f32::NEG_INFINITY), f32::NEG_INFINITY);
            assert_eq!(half.nearest(f32::MAX), f32::INFINITY);
            assert_eq!(half.nearest(-0.0).to_bits(), (-0.0_f32).to_bits());
            for nan in [0x7f80_0001, 0x7fff_ffff, 0xff80_0001, 0xffc0_0000] {
                assert!(half.nearest(f32::from_bits(nan)).is_nan(), "{half:?} {nan:x}");
            }
        }
        assert_eq!(Half::F16.nearest(1e-9), 0.0);
        assert_eq!(Half::F16.nearest(65_519.996), 65_504.0);
        assert_eq!(Half::F16.nearest(65_520.0), f32::INFINITY);
    }
}
