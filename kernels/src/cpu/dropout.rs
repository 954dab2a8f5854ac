//! Dropout by counter: masks are drawn, not stored.

#[cfg(test)]
mod tests;

use shoal_exact::philox::philox4x32_run;

use super::CpuDevice;
use super::class::by_class;
use super::pool::Parts;
use crate::device::Dropout;

/// Elements whose draws are made together: word w of counter `16 g + i` belongs to element `64 g + 16 w + i`.
pub(super) const GROUP: usize = 64;

/// What a mask needs to know of one sample.
#[derive(Clone, Copy)]
pub(super) struct Stream {
    key: [u32; 2],
    block: u32,
    site: u32,
    threshold: u32,
    factor: f32,
}

impl Stream {
    pub(super) fn of(dropout: &Dropout<'_>, sample: usize) -> Self {
        Self {
            key: dropout.stream(sample),
            block: dropout.key.block,
            site: dropout.key.site as u32,
            threshold: dropout.threshold(),
            factor: dropout.factor(),
        }
    }

    /// What elements `64 group ..` are multiplied by: zero or the factor.
    #[inline(always)]
    pub(super) fn factors(&self, group: u64) -> [f32; GROUP] {
        let mut factors = [0.0; GROUP];
        let words = philox4x32_run::<16>(self.key, group * 16, [self.block, self.site]);
        for (factor, &word) in factors.iter_mut().zip(words.as_flattened()) {
            *factor = if word >= self.threshold { self.factor } else { 0.0 };
        }
        factors
    }

    /// Calls `each(element of the slice, factor)` for `len` elements from element `from` of the sample.
    #[inline(always)]
    pub(super) fn for_each(&self, from: u64, len: usize, mut each: impl FnMut(usize, f32)) {
        let mut done = 0;
        while done < len {
            let at = from + done as u64;
            let (group, skip) = (at / GROUP as u64, (at % GROUP as u64) as usize);
            let count = (GROUP - skip).min(len - done);
            let factors = self.factors(group);
            for (i, &factor) in factors[skip..skip + count].iter().enumerate() {
                each(done + i, factor);
            }
            done += count;
        }
    }
}

by_class! {
    fn residual(branch: &mut [f32], skip: &[f32], stream: Stream, from: u64) {
        stream.for_each(from, branch.len(), |i, factor| branch[i] = skip[i] + branch[i] * factor);
    }
}

by_class! {
    fn masked(dst: &mut [f32], src: &[f32], stream: Stream, from: u64) {
        stream.for_each(from, dst.len(), |i, factor| dst[i] = src[i] * factor);
    }
}

by_class! {
    /// `values` times their factors; elements `from ..` of the sample.
    pub(super) fn mask(values: &mut [f32], stream: Stream, from: u64) {
        stream.for_each(from, values.len(), |i, factor| values[i] *= factor);
    }
}

by_class! {
    fn plain_residual(branch: &mut [f32], skip: &[f32]) {
        for (b, s) in branch.iter_mut().zip(skip) {
            *b += s;
        }
    }
}

impl CpuDevice {
    pub(crate) fn add_residual(&self, branch: &mut [f32], skip: &[f32], dropout: Option<&Dropout<'_>>) {
        assert_eq!(branch.len(), skip.len(), "KN-1 (shapes): residual");
        let out = Parts::of(branch);
        match dropout {
            None => self.pool.divide(skip.len(), super::elementwise::GRAIN, |run| {
                // SAFETY: runs of one division are disjoint.
                plain_residual(self.class, unsafe { out.part(run.clone()) }, &skip[run]);
            }),
            Some(dropout) => self.each_piece(skip.len(), dropout, |run, stream, from| {
                // SAFETY: pieces are disjoint.
                residual(self.class, unsafe { out.part(run.clone()) }, &skip[run], stream, from);
            }),
        }
    }

    pub(crate) fn dropout(&self, dst: &mut [f32], src: &[f32], dropout: &Dropout<'_>) {
        assert_eq!(dst.len(), src.len(), "KN-1 (shapes): dropout");
        let out = Parts::of(dst);
        self.each_piece(src.len(), dropout, |run, stream, from| {
            // SAFETY: pieces are disjoint.
            masked(self.class, unsafe { out.part(run.clone()) }, &src[run], stream, from);
        });
    }

    /// Divides `len` elements into pieces within samples: `body(range of the buffer, stream, first element of the sample)`.
    fn each_piece(&self, len: usize, dropout: &Dropout<'_>, body: impl Fn(std::ops::Range<usize>, Stream, u64) + Sync) {
        const PIECE: usize = 128 * GROUP;
        let samples = dropout.samples.len();
        assert!(samples > 0 && len.is_multiple_of(samples), "KN-1 (shapes): dropout of {len} over {samples} samples");
        let each = len / samples;
        let pieces = each.div_ceil(PIECE);
        self.pool.each(samples * pieces, |part| {
            let (sample, piece) = (part / pieces, part % pieces);
            let (from, to) = (piece * PIECE, ((piece + 1) * PIECE).min(each));
            body(sample * each + from..sample * each + to, Stream::of(dropout, sample), from as u64);
        });
    }
}
