//! Squares of a matrix, transposed in registers.

use crate::cpu::class::Class;

/// Rows and columns that are transposed at once.
pub(super) const SIDE: usize = 8;

/// A square of [`SIDE`], transposed.
///
/// # Safety
/// Both squares must be valid, rows `to_row` and `from_row` apart, and not overlap.
#[inline(always)]
pub(super) unsafe fn transpose(class: Class, to: *mut f32, to_row: usize, from: *const f32, from_row: usize) {
    match class {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the class says that the instructions are there; the caller's contract.
        Class::Avx512 | Class::Avx2 => unsafe { transpose_avx2(to, to_row, from, from_row) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the caller's contract.
        Class::Portable => unsafe { transpose_plain(to, to_row, from, from_row) },
        #[cfg(not(target_arch = "x86_64"))]
        // SAFETY: the caller's contract.
        Class::Avx512 | Class::Avx2 | Class::Portable => unsafe { transpose_plain(to, to_row, from, from_row) },
    }
}

/// # Safety
/// As [`transpose`].
unsafe fn transpose_plain(to: *mut f32, to_row: usize, from: *const f32, from_row: usize) {
    for i in 0..SIDE {
        for j in 0..SIDE {
            // SAFETY: within both squares.
            unsafe { *to.add(i * to_row + j) = *from.add(j * from_row + i) };
        }
    }
}

/// Written out, for a closure in here would be a call of its own in every step.
///
/// # Safety
/// As [`transpose`], and the processor must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn transpose_avx2(to: *mut f32, to_row: usize, from: *const f32, from_row: usize) {
    use std::arch::x86_64::{
        _mm256_loadu_ps, _mm256_permute2f128_ps, _mm256_setzero_ps, _mm256_shuffle_ps, _mm256_storeu_ps,
        _mm256_unpackhi_ps, _mm256_unpacklo_ps,
    };
    let (mut rows, mut pairs) = ([_mm256_setzero_ps(); SIDE], [_mm256_setzero_ps(); SIDE]);
    for (i, row) in rows.iter_mut().enumerate() {
        // SAFETY: row i of the square.
        *row = unsafe { _mm256_loadu_ps(from.add(i * from_row)) };
    }
    // Pairs of rows, then fours, each within halves of a register; then the halves change places.
    for i in 0..4 {
        pairs[2 * i] = _mm256_unpacklo_ps(rows[2 * i], rows[2 * i + 1]);
        pairs[2 * i + 1] = _mm256_unpackhi_ps(rows[2 * i], rows[2 * i + 1]);
    }
    for i in 0..2 {
        for j in 0..2 {
            let (a, b) = (pairs[4 * i + j], pairs[4 * i + 2 + j]);
            rows[4 * i + 2 * j] = _mm256_shuffle_ps::<0b01_00_01_00>(a, b);
            rows[4 * i + 2 * j + 1] = _mm256_shuffle_ps::<0b11_10_11_10>(a, b);
        }
    }
    for i in 0..4 {
        let (low, high) = (rows[i], rows[i + 4]);
        // SAFETY: rows i and i + 4 of the square.
        unsafe {
            _mm256_storeu_ps(to.add(i * to_row), _mm256_permute2f128_ps::<0x20>(low, high));
            _mm256_storeu_ps(to.add((i + 4) * to_row), _mm256_permute2f128_ps::<0x31>(low, high));
        }
    }
}
