//! Products of few elements, in the order of the tiles: packing would cost more than it gains.

use super::{SLICE, Size, Strided};
use crate::cpu::class::Class;

/// Columns that are summed side by side.
const COLUMNS: usize = 16;

/// `c = a b`, or `c = c + a b`; a contraction of nothing is zero.
///
/// # Safety
/// The three matrices must be valid for their sizes, `c` to write by this thread alone, and not overlap `a` or `b`.
pub(super) unsafe fn small(
    class: Class,
    c: Strided<*mut f32>,
    a: Strided<*const f32>,
    b: Strided<*const f32>,
    size: Size,
    add: bool,
) {
    match class {
        #[cfg(target_arch = "x86_64")]
        Class::Avx512 | Class::Avx2 => {
            #[target_feature(enable = "fma,avx2")]
            unsafe fn fused(c: Strided<*mut f32>, a: Strided<*const f32>, b: Strided<*const f32>, s: Size, add: bool) {
                // SAFETY: the caller's contract.
                unsafe { chains(c, a, b, s, add, |a, b, c| a.mul_add(b, c)) }
            }
            // SAFETY: the class says that the features are there; the caller's contract.
            unsafe { fused(c, a, b, size, add) }
        }
        // Without the instruction the microkernel multiplies, then adds.
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the caller's contract.
        Class::Portable => unsafe { chains(c, a, b, size, add, |a, b, c| a * b + c) },
        #[cfg(not(target_arch = "x86_64"))]
        // SAFETY: the caller's contract.
        Class::Avx512 | Class::Avx2 | Class::Portable => unsafe {
            chains(
                c,
                a,
                b,
                size,
                add,
                |a, b, c| if cfg!(target_arch = "aarch64") { a.mul_add(b, c) } else { a * b + c },
            );
        },
    }
}

/// # Safety
/// As [`small`].
#[inline(always)]
unsafe fn chains(
    c: Strided<*mut f32>,
    a: Strided<*const f32>,
    b: Strided<*const f32>,
    Size { m, n, k }: Size,
    add: bool,
    step: impl Fn(f32, f32, f32) -> f32,
) {
    for i in 0..m {
        for j in (0..n).step_by(COLUMNS) {
            let columns = COLUMNS.min(n - j);
            let mut total = [0.0_f32; COLUMNS];
            for from in (0..k).step_by(SLICE) {
                let mut sums = [0.0_f32; COLUMNS];
                for p in from..(from + SLICE).min(k) {
                    // SAFETY: element (i, p) of a.
                    let x = unsafe { *a.base.add(i * a.row + p * a.column) };
                    for (l, sum) in sums[..columns].iter_mut().enumerate() {
                        // SAFETY: element (p, j + l) of b.
                        *sum = step(x, unsafe { *b.base.add(p * b.row + (j + l) * b.column) }, *sum);
                    }
                }
                // The first slice is not added to zero: that would make a negative zero positive.
                total = if from == 0 { sums } else { std::array::from_fn(|l| total[l] + sums[l]) };
            }
            for (l, total) in total[..columns].iter().enumerate() {
                // SAFETY: element (i, j + l) of c, which is this thread's.
                let c = unsafe { &mut *c.base.add(i * c.row + (j + l) * c.column) };
                *c = if add { *c + total } else { *total };
            }
        }
    }
}
