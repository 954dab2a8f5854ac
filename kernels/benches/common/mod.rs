//! The two models whose sizes the benches take, and a device with buffers for them.

use shoal_kernels::{Arena, Budget, Buffer, Device, Tag, Tier};

/// Sizes of a model and its micro-batch.
#[derive(Clone, Copy)]
#[allow(dead_code, reason = "no bench asks for all of them")]
pub(crate) struct Sizes {
    pub(crate) heads: usize,
    pub(crate) width: usize,
    pub(crate) vocab: usize,
    pub(crate) positions: usize,
    pub(crate) samples: usize,
}

/// 6 layers, 10.8M parameters, bytes.
pub(crate) const SMALL: Sizes = Sizes { heads: 6, width: 384, vocab: 256, positions: 256, samples: 8 };
/// GPT-2 with 12 layers, 124M parameters.
pub(crate) const MEDIUM: Sizes = Sizes { heads: 12, width: 768, vocab: 50_304, positions: 512, samples: 2 };

/// Names of the sizes, as bench arguments.
pub(crate) const NAMES: [&str; 2] = ["small", "medium"];

impl Sizes {
    pub(crate) fn named(name: &str) -> Self {
        match name {
            "small" => SMALL,
            "medium" => MEDIUM,
            other => panic!("no sizes are called {other}"),
        }
    }

    pub(crate) fn tokens(self) -> usize {
        self.samples * self.positions
    }
}

/// A device and the arena its buffers come from.
pub(crate) struct Bench {
    pub(crate) device: Device,
    arena: Arena,
}

impl Bench {
    /// As many threads as `SHOAL_BENCH_THREADS` says, else one.
    pub(crate) fn new() -> Self {
        let threads = std::env::var("SHOAL_BENCH_THREADS").ok().and_then(|t| t.parse().ok()).unwrap_or(1);
        let cap = 4 << 30;
        let arena = Arena::new(Tier::Device, cap, &Budget::new(cap));
        Self { device: Device::cpu(threads, &arena).expect("room for scratch"), arena }
    }

    /// `len` small values, none of them zero or subnormal.
    pub(crate) fn buffer(&self, len: usize) -> Buffer {
        let mut buffer = self.arena.alloc(Tag::Temporary, len).expect("room for a bench");
        let values = buffer.host_visible_mut().expect("host memory");
        for (i, x) in values.iter_mut().enumerate() {
            *x = ((i * 2_654_435_761) % 1009) as f32 / 1009.0 - 0.498;
        }
        buffer
    }

    /// Tokens below `vocab`.
    #[allow(dead_code, reason = "not every bench reads tokens")]
    pub(crate) fn tokens(sizes: Sizes) -> Vec<u32> {
        (0..sizes.tokens()).map(|i| ((i * 40_503) % sizes.vocab) as u32).collect()
    }
}
