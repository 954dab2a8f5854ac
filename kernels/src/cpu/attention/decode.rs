//! One query a sequence against keys and values that are kept: generation, token by token.

use super::{Head, matrix, softmax};
use crate::cpu::matmul::{Size, Strided};
use crate::cpu::pool::Parts;
use crate::cpu::{CpuDevice, THREAD_SCRATCH};
use crate::device::{Attention, Write};

impl CpuDevice {
    pub(crate) fn attention_decode(
        &self,
        y: &mut [f32],
        qkv: &[f32],
        cache: &[f32],
        lengths: &[usize],
        shape: Attention,
    ) {
        let Attention { samples, positions, heads, size, .. } = shape;
        let (width, packed, cached, group) = (shape.width(), shape.packed(), shape.cached(), shape.group());
        assert!(
            y.len() == samples * width
                && qkv.len() == samples * packed
                && cache.len() == samples * positions * cached
                && lengths.len() == samples
                && lengths.iter().all(|&length| (1..=positions.min(THREAD_SCRATCH)).contains(&length)),
            "KN-1 (shapes): attention decode {shape:?} of lengths {lengths:?}"
        );
        let y = Parts::of(y);
        self.pool.each(samples * heads, |item| {
            let (sample, head) = (item / heads, item % heads);
            let length = lengths[sample];
            let key = sample * positions * cached + 2 * (head / group) * size;
            let mut scratch = self.thread_scratch();
            let scores = &mut scratch.view_mut().into_host()[..length];
            let query = matrix(qkv, sample * packed + head * size, packed);
            // SAFETY: rows of one head within checked buffers; scratch is this thread's, and only this item writes these columns.
            unsafe {
                let at = Strided { base: scores.as_mut_ptr(), row: length, column: 1 };
                let keys = matrix(cache, key, cached).transposed();
                self.product(at, query, keys, Size { m: 1, n: length, k: size }, Write::Overwrite);
                softmax(self.class, scores, Head::of(shape, item).scale());
                let scores = Strided { base: scores.as_ptr(), row: length, column: 1 };
                let out = y.part(item * size..(item + 1) * size);
                let out = Strided { base: out.as_mut_ptr(), row: size, column: 1 };
                self.product(
                    out,
                    scores,
                    matrix(cache, key + size, cached),
                    Size { m: 1, n: size, k: length },
                    Write::Overwrite,
                );
            }
        });
    }
}
