//! Asking for memory before it is needed: operands are read in short runs far apart, which processors do not foresee.

/// f32 of a cache line.
pub(super) const LINE: usize = 16;

/// Asks for the line at `at`, which need not be valid.
#[inline(always)]
pub(super) fn prefetch(at: *const f32) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint; it reads nothing and faults nowhere.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
