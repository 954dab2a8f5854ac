//! The order in which an epoch visits the windows: a keyed permutation, so no list of indices is ever stored.
//!
//! A balanced Feistel network over the smallest even number of bits that covers the windows, with Philox as round
//! function, and cycle-walking back into range (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002).

use shoal_exact::philox::philox;

/// Enough for statistical quality; nobody attacks a sample order.
const ROUNDS: u64 = 6;
/// Sets these draws apart from other uses of the job's seed.
const PURPOSE: u64 = 0x7361_6d70_6c65_7321;

/// A permutation of `0..windows` for one epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EpochOrder {
    key: u64,
    epoch: u64,
    windows: u64,
    half_bits: u32,
}

impl EpochOrder {
    /// The permutation of `windows > 0` windows in one epoch of a seed.
    pub(super) fn new(seed: u64, epoch: u64, windows: u64) -> Self {
        let bits = u64::BITS - (windows - 1).leading_zeros();
        Self { key: seed ^ PURPOSE, epoch, windows, half_bits: bits.div_ceil(2).max(1) }
    }

    /// The window at a position of the epoch.
    pub(super) fn at(self, position: u64) -> u64 {
        assert!(position < self.windows, "BA-1 (a position lies inside its epoch)");
        // The network permutes a domain less than four times as large, so the walk is short and always comes back.
        let mut x = position;
        loop {
            x = self.network(x);
            if x < self.windows {
                return x;
            }
        }
    }

    fn network(self, x: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (x >> self.half_bits, x & mask);
        for round in 0..ROUNDS {
            // Halves have at most 32 bits, so round and half share a counter word.
            let [word, _] = philox(self.key, [right | round << 32, self.epoch]);
            (left, right) = (right, left ^ (word & mask));
        }
        left << self.half_bits | right
    }
}
