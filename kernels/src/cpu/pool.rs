//! The threads of a device.

#[cfg(test)]
mod tests;

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

/// Parts of one division, at most.
const MOST: usize = 64;

/// No threads of its own, or a rayon pool.
pub(super) struct Pool {
    pool: Option<rayon::ThreadPool>,
}

impl Pool {
    /// # Panics
    /// If the system gives no threads.
    pub(super) fn new(threads: usize) -> Self {
        let build = || {
            rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .thread_name(|i| format!("shoal-compute-{i}"))
                .build()
                .expect("a device cannot be made without its threads")
        };
        Self { pool: (threads > 1).then(build) }
    }

    pub(super) fn threads(&self) -> usize {
        self.pool.as_ref().map_or(1, rayon::ThreadPool::current_num_threads)
    }

    /// Index of the current thread in the pool.
    pub(super) fn thread(&self) -> usize {
        self.pool.as_ref().and_then(rayon::ThreadPool::current_thread_index).unwrap_or(0)
    }

    pub(super) fn enter<T: Send>(&self, body: impl FnOnce() -> T + Send) -> T {
        match &self.pool {
            Some(pool) => pool.install(body),
            None => body(),
        }
    }

    /// Calls `body` for every part, on all threads, and returns when all are done. A thread that is done with a part takes the
    /// next one.
    pub(super) fn each(&self, parts: usize, body: impl Fn(usize) + Sync) {
        match &self.pool {
            Some(pool) if parts > 1 => {
                let (next, workers) = (AtomicUsize::new(0), parts.min(pool.current_num_threads()));
                let work = |_| {
                    while let Some(part) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|part| *part < parts) {
                        body(part);
                    }
                };
                pool.install(|| (0..workers).into_par_iter().with_max_len(1).for_each(work));
            }
            Some(_) | None => (0..parts).for_each(body),
        }
    }

    /// Divides `0..count` into runs of a multiple of `unit`, ever smaller ones, so that a core that is disturbed keeps nobody
    /// waiting for long, and calls `body` for each.
    pub(super) fn divide(&self, count: usize, unit: usize, body: impl Fn(Range<usize>) + Sync) {
        let (units, threads) = (count.div_ceil(unit), self.threads());
        let (mut edges, mut parts) = ([0; MOST + 1], 0);
        while edges[parts] < units {
            let left = units - edges[parts];
            // With one thread all at once; the last part that there is room for gets the rest.
            let share = if threads == 1 || parts + 1 == MOST { 1 } else { threads + 1 };
            edges[parts + 1] = edges[parts] + left.div_ceil(share);
            parts += 1;
        }
        let edge = |part: usize| (edges[part] * unit).min(count);
        self.each(parts, |part| body(edge(part)..edge(part + 1)));
    }

    /// As [`Self::divide`], but as evenly as units allow and into no more runs than there are threads: for work of which every run
    /// repeats some.
    pub(super) fn divide_evenly(&self, count: usize, unit: usize, body: impl Fn(Range<usize>) + Sync) {
        let units = count.div_ceil(unit);
        let parts = self.threads().min(units).max(1);
        let edge = |part: usize| (units * part / parts * unit).min(count);
        self.each(parts, |part| body(edge(part)..edge(part + 1)));
    }
}

/// A mutable slice that the parts of one operation share.
pub(super) struct Parts<'a, T> {
    at: *mut T,
    len: usize,
    slice: PhantomData<&'a mut [T]>,
}

// SAFETY: it is a mutable slice; handing out disjoint parts is the contract of `part`.
unsafe impl<T: Send> Sync for Parts<'_, T> {}

impl<'a, T> Parts<'a, T> {
    pub(super) fn of(slice: &'a mut [T]) -> Self {
        Self { at: slice.as_mut_ptr(), len: slice.len(), slice: PhantomData }
    }

    /// Elements `range`.
    ///
    /// # Safety
    /// While the result lives, nobody else may hold a part that overlaps it.
    #[allow(clippy::mut_from_ref, reason = "the contract of this function")]
    pub(super) unsafe fn part(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.len, "KN-1 (shapes): {range:?} of {}", self.len);
        // SAFETY: within the slice, and disjoint from other parts by contract.
        unsafe { std::slice::from_raw_parts_mut(self.at.add(range.start), range.len()) }
    }

    /// Where the slice begins, for strided access to elements nobody else touches.
    pub(super) fn base(&self) -> *mut T {
        self.at
    }
}
