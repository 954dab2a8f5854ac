//! Fill, copy and add.

#[cfg(test)]
mod tests;

use std::ops::Range;

use super::CpuDevice;
use super::class::by_class;
use super::pool::Parts;

/// Elements from which on it pays to share an elementwise operation among threads.
pub(super) const GRAIN: usize = 8192;
/// Elements that are made at once, so that whoever makes them in several passes finds them in a cache.
const MADE: usize = 8 * GRAIN;

by_class! {
    pub(super) fn add(dst: &mut [f32], src: &[f32]) {
        for (d, s) in dst.iter_mut().zip(src) {
            *d += s;
        }
    }
}

impl CpuDevice {
    pub(crate) fn fill(&self, dst: &mut [f32], value: f32) {
        let len = dst.len();
        let dst = Parts::of(dst);
        // SAFETY: runs of one division are disjoint.
        self.pool.divide(len, GRAIN, |run| unsafe { dst.part(run) }.fill(value));
    }

    pub(crate) fn copy(&self, dst: &mut [f32], src: &[f32]) {
        assert_eq!(dst.len(), src.len(), "KN-1 (shapes): copy");
        let dst = Parts::of(dst);
        // SAFETY: runs of one division are disjoint.
        self.pool.divide(src.len(), GRAIN, |run| unsafe { dst.part(run.clone()) }.copy_from_slice(&src[run]));
    }

    pub(crate) fn make(&self, dst: &mut [f32], make: impl Fn(Range<usize>, &mut [f32]) + Sync) {
        let len = dst.len();
        let dst = Parts::of(dst);
        self.pool.divide(len, GRAIN, |run| {
            for from in run.clone().step_by(MADE) {
                let piece = from..run.end.min(from + MADE);
                // SAFETY: runs of one division are disjoint, and so are their pieces.
                make(piece.clone(), unsafe { dst.part(piece) });
            }
        });
    }

    pub(crate) fn add_into(&self, dst: &mut [f32], src: &[f32]) {
        assert_eq!(dst.len(), src.len(), "KN-1 (shapes): add");
        let dst = Parts::of(dst);
        // SAFETY: runs of one division are disjoint.
        self.pool.divide(src.len(), GRAIN, |run| add(self.class, unsafe { dst.part(run.clone()) }, &src[run]));
    }
}
