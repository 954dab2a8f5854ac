//! Luck, drawn from the history's seed.

use shoal_exact::philox::philox;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub(super) struct Rng {
    key: u64,
    at: u64,
    spare: Option<u64>,
}

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Self { key: seed, at: 0, spare: None }
    }

    fn next(&mut self) -> u64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let [a, b] = philox(self.key, [self.at, 0x51A1]);
        self.at += 1;
        self.spare = Some(b);
        a
    }

    /// Uniform in `from..to`.
    pub(super) fn within(&mut self, from: u64, to: u64) -> u64 {
        from + ((u128::from(self.next()) * u128::from(to - from)) >> 64) as u64
    }

    /// True once in `n`.
    pub(super) fn one_in(&mut self, n: u64) -> bool {
        self.within(0, n) == 0
    }

    /// One of some.
    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        (!of.is_empty()).then(|| of[self.within(0, of.len() as u64) as usize])
    }
}
