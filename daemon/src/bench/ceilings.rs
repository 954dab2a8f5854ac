//! What this machine gives: the rate of a large matrix product, and of a copy that no cache holds.

use std::time::Instant;

use shoal_kernels::{Arena, ArenaError, Buffer, Device, Tag};

use super::product::{SQUARE, rate};

/// Elements copied: 256 MiB read, as many written.
const COPIED: usize = 64 << 20;

/// Both, at their best so far.
pub(super) struct Ceilings {
    a: Buffer,
    b: Buffer,
    gflops: f64,
    gbytes: f64,
}

impl Ceilings {
    pub(super) fn new(device: &Device, arena: &Arena) -> Result<Self, ArenaError> {
        let (mut a, mut b) = (arena.alloc(Tag::Temporary, COPIED)?, arena.alloc(Tag::Temporary, COPIED)?);
        device.fill(a.view_mut(), 0.37);
        device.fill(b.view_mut(), 0.37);
        Ok(Self { a, b, gflops: 0.0, gbytes: 0.0 })
    }

    /// Measures both once more.
    pub(super) fn measure(&mut self, device: &Device) {
        let Self { a, b, gflops, gbytes } = self;
        let (x, weight) = (b.view(), b.view().range(SQUARE.rows * SQUARE.inputs..b.len()));
        *gflops = gflops.max(rate(device, SQUARE, a.view_mut(), (x, weight)));
        let start = Instant::now();
        device.enter(|| device.copy(a.view_mut(), b.view()));
        *gbytes = gbytes.max(8e-9 * COPIED as f64 / start.elapsed().as_secs_f64());
    }

    pub(super) fn gflops(&self) -> f64 {
        self.gflops
    }

    pub(super) fn gbytes(&self) -> f64 {
        self.gbytes
    }
}
