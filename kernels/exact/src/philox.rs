//! Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy
//! as 1, 2, 3" (SC'11): a keyed bijection of a 128-bit counter. No state, so any element can be drawn anywhere.

/// Multipliers of a round.
pub const MULTIPLIER: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// What a round adds to the key.
pub const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// Four 32-bit words for one counter under one key.
#[must_use]
#[inline]
pub fn philox4x32(key: [u32; 2], counter: [u32; 4]) -> [u32; 4] {
    let [mut k0, mut k1] = key;
    let [mut c0, mut c1, mut c2, mut c3] = counter;
    for _ in 0..10 {
        let p0 = u64::from(MULTIPLIER[0]) * u64::from(c0);
        let p1 = u64::from(MULTIPLIER[1]) * u64::from(c2);
        (c0, c1, c2, c3) = ((p1 >> 32) as u32 ^ c1 ^ k0, p1 as u32, (p0 >> 32) as u32 ^ c3 ^ k1, p0 as u32);
        k0 = k0.wrapping_add(WEYL[0]);
        k1 = k1.wrapping_add(WEYL[1]);
    }
    [c0, c1, c2, c3]
}

/// Two 64-bit words for one 128-bit counter under one 64-bit key.
#[must_use]
#[inline]
pub fn philox(key: u64, counter: [u64; 2]) -> [u64; 2] {
    let split = |x: u64| [x as u32, (x >> 32) as u32];
    let ([a, b], [c, d]) = (split(counter[0]), split(counter[1]));
    let [w, x, y, z] = philox4x32(split(key), [a, b, c, d]);
    [u64::from(w) | u64::from(x) << 32, u64::from(y) | u64::from(z) << 32]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers published with the authors' Random123 library.
    #[test]
    fn known_answers() {
        assert_eq!(philox4x32([0; 2], [0; 4]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox4x32([u32::MAX; 2], [u32::MAX; 4]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        assert_eq!(
            philox4x32([0xa409_3822, 0x299f_31d0], [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }
}
