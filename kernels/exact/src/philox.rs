//! Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy
//! as 1, 2, 3" (SC'11): a keyed bijection of a 128-bit counter. No state, so any element can be drawn anywhere.

/// Multipliers of a round.
const MULTIPLIER: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// What a round adds to the key.
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// Four 32-bit words for each of `N` counters under one key, the counters side by side: word `i` of counter `n` is at `[i][n]`.
/// Inlined, so that it becomes the vectors of whoever calls it.
#[inline(always)]
fn philox4x32_each<const N: usize>(key: [u32; 2], counters: [[u32; N]; 4]) -> [[u32; N]; 4] {
    let [mut k0, mut k1] = key;
    let [mut c0, mut c1, mut c2, mut c3] = counters;
    for _ in 0..10 {
        for i in 0..N {
            let p0 = u64::from(MULTIPLIER[0]) * u64::from(c0[i]);
            let p1 = u64::from(MULTIPLIER[1]) * u64::from(c2[i]);
            (c0[i], c1[i], c2[i], c3[i]) =
                ((p1 >> 32) as u32 ^ c1[i] ^ k0, p1 as u32, (p0 >> 32) as u32 ^ c3[i] ^ k1, p0 as u32);
        }
        k0 = k0.wrapping_add(WEYL[0]);
        k1 = k1.wrapping_add(WEYL[1]);
    }
    [c0, c1, c2, c3]
}

/// The words of `N` counters in a row, from `first` on, of one stream: as `philox4x32_each`.
#[must_use]
#[inline(always)]
pub fn philox4x32_run<const N: usize>(key: [u32; 2], first: u64, stream: [u32; 2]) -> [[u32; N]; 4] {
    let [mut low, mut high] = [[0; N]; 2];
    for (i, (low, high)) in low.iter_mut().zip(&mut high).enumerate() {
        let counter = first.wrapping_add(i as u64);
        (*low, *high) = (counter as u32, (counter >> 32) as u32);
    }
    let [third, fourth] = stream.map(|word| [word; N]);
    philox4x32_each(key, [low, high, third, fourth])
}

/// Four 32-bit words for one counter under one key.
#[must_use]
#[inline]
pub fn philox4x32(key: [u32; 2], counter: [u32; 4]) -> [u32; 4] {
    philox4x32_each::<1>(key, counter.map(|word| [word])).map(|[word]| word)
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

    #[test]
    fn a_run_is_its_counters_one_by_one() {
        for first in [0, u64::from(u32::MAX) - 5, u64::MAX - 5] {
            let run = philox4x32_run::<16>([7, 11], first, [3, 5]);
            for i in 0..16 {
                let counter = first.wrapping_add(i as u64);
                let one = philox4x32([7, 11], [counter as u32, (counter >> 32) as u32, 3, 5]);
                assert_eq!(run.map(|words| words[i]), one, "{counter}");
            }
        }
    }
}
