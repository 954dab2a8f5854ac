//! The threads of a device.

use std::marker::PhantomData;
use std::ops::Range;

use rayon::prelude::*;

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

    /// Calls `body` for every part, on all threads, and returns when all are done.
    pub(super) fn each(&self, parts: usize, body: impl Fn(usize) + Sync) {
        match &self.pool {
            Some(pool) if parts > 1 => {
                pool.install(|| (0..parts).into_par_iter().with_max_len(1).for_each(&body));
            }
            Some(_) | None => (0..parts).for_each(body),
        }
    }

    /// Divides `0..count` into runs of a multiple of `unit`, as even as that allows and no more than there are threads, and
    /// calls `body` for each.
    pub(super) fn divide(&self, count: usize, unit: usize, body: impl Fn(Range<usize>) + Sync) {
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
