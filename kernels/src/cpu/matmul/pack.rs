//! Operands in the order in which a microkernel reads them.

use super::Strided;
use crate::cpu::class::Class;

/// Columns of one panel: `to[p width + j]` is element (p, j) of `b`, for `depth` rows. Columns from `columns` on are zero.
///
/// # Safety
/// `b` must be valid for `depth` rows and `columns` columns.
pub(super) unsafe fn panel(
    class: Class,
    to: &mut [f32],
    width: usize,
    b: Strided<*const f32>,
    depth: usize,
    columns: usize,
) {
    assert!(columns <= width && to.len() == depth * width, "KN-1 (shapes): {columns} columns of a panel of {width}");
    if b.column == 1 {
        for (p, row) in to.chunks_exact_mut(width).enumerate() {
            // SAFETY: `columns` elements of row p.
            let from = unsafe { std::slice::from_raw_parts(b.base.add(p * b.row), columns) };
            row[..columns].copy_from_slice(from);
            row[columns..].fill(0.0);
        }
        return;
    }
    let whole = if b.row == 1 { (depth / SIDE * SIDE, columns / SIDE * SIDE) } else { (0, 0) };
    for j in (0..whole.1).step_by(SIDE) {
        for p in (0..whole.0).step_by(SIDE) {
            // SAFETY: a square within `b` and within the panel.
            unsafe {
                transpose(class, to.as_mut_ptr().add(p * width + j), width, b.base.add(p + j * b.column), b.column)
            };
        }
    }
    for (p, row) in to.chunks_exact_mut(width).enumerate() {
        let from = if p < whole.0 { whole.1 } else { 0 };
        for (j, to) in row[from..columns].iter_mut().enumerate() {
            // SAFETY: element (p, from + j).
            *to = unsafe { *b.base.add(p * b.row + (from + j) * b.column) };
        }
        row[columns..].fill(0.0);
    }
}

/// Rows in tiles of `height`: `to[t apart + p height + i]` is element (t height + i, p) of `a`, for `depth` columns.
///
/// # Safety
/// `a` must be valid for `rows` rows and `depth` columns.
pub(super) unsafe fn tiles(
    to: &mut [f32],
    apart: usize,
    height: usize,
    a: Strided<*const f32>,
    depth: usize,
    rows: usize,
) {
    let tiles = rows.div_ceil(height);
    assert!(depth * height <= apart && to.len() >= tiles * apart, "KN-1 (shapes): {rows} rows in tiles of {height}");
    let whole = match (a.row, height) {
        // SAFETY: whole tiles of the caller's matrix.
        (1, 6) => unsafe { columns::<6>(to, apart, a, depth, rows / 6) },
        // SAFETY: as above.
        (1, 4) => unsafe { columns::<4>(to, apart, a, depth, rows / 4) },
        _ => 0,
    };
    for (t, to) in to.chunks_mut(apart).enumerate().take(tiles).skip(whole) {
        let from = t * height;
        for (p, column) in to.chunks_exact_mut(height).take(depth).enumerate() {
            for (i, to) in column[..height.min(rows - from)].iter_mut().enumerate() {
                // SAFETY: element (from + i, p).
                *to = unsafe { *a.base.add((from + i) * a.row + p * a.column) };
            }
        }
    }
}

/// Tiles of rows that lie side by side, a column at a time; returns their number.
///
/// # Safety
/// `a` must be valid for that many tiles of `HEIGHT` rows and `depth` columns, its rows one element apart, and `to` hold them.
unsafe fn columns<const HEIGHT: usize>(
    to: &mut [f32],
    apart: usize,
    a: Strided<*const f32>,
    depth: usize,
    tiles: usize,
) -> usize {
    for p in 0..depth {
        for t in 0..tiles {
            // SAFETY: column p of tile t; the caller's contract.
            unsafe {
                let from = a.base.add(p * a.column + t * HEIGHT).cast::<[f32; HEIGHT]>();
                to.as_mut_ptr().add(t * apart + p * HEIGHT).cast::<[f32; HEIGHT]>().write(from.read());
            }
        }
    }
    tiles
}

/// Rows and columns that are transposed at once.
const SIDE: usize = 8;

/// A square of [`SIDE`], transposed.
///
/// # Safety
/// Both squares must be valid, rows `to_row` and `from_row` apart, and not overlap.
pub(super) unsafe fn transpose(class: Class, to: *mut f32, to_row: usize, from: *const f32, from_row: usize) {
    match class {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the class says that the instructions are there; the caller's contract.
        Class::Avx512 | Class::Avx2 => unsafe { transpose_avx2(to, to_row, from, from_row) },
        #[cfg(not(target_arch = "x86_64"))]
        Class::Avx512 | Class::Avx2 => unsafe { transpose_plain(to, to_row, from, from_row) },
        // SAFETY: the caller's contract.
        Class::Portable => unsafe { transpose_plain(to, to_row, from, from_row) },
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

/// # Safety
/// As [`transpose`], and the processor must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn transpose_avx2(to: *mut f32, to_row: usize, from: *const f32, from_row: usize) {
    use std::arch::x86_64::{
        _mm256_loadu_ps, _mm256_permute2f128_ps, _mm256_shuffle_ps, _mm256_storeu_ps, _mm256_unpackhi_ps,
        _mm256_unpacklo_ps,
    };
    // SAFETY: eight rows of eight.
    let r: [_; SIDE] = std::array::from_fn(|i| unsafe { _mm256_loadu_ps(from.add(i * from_row)) });
    // Pairs of rows, then fours, each within halves of a register; then the halves change places.
    let pairs: [_; SIDE] = std::array::from_fn(|i| {
        let (a, b) = (r[i & !1], r[i | 1]);
        if i % 2 == 0 { _mm256_unpacklo_ps(a, b) } else { _mm256_unpackhi_ps(a, b) }
    });
    let fours: [_; SIDE] = std::array::from_fn(|i| {
        let (quad, at) = (i & !3, i & 3);
        let (a, b) = (pairs[quad + at / 2], pairs[quad + at / 2 + 2]);
        if at % 2 == 0 { _mm256_shuffle_ps::<0b01_00_01_00>(a, b) } else { _mm256_shuffle_ps::<0b11_10_11_10>(a, b) }
    });
    for i in 0..4 {
        let (low, high) = (fours[i], fours[i + 4]);
        // SAFETY: rows i and i + 4 of the square.
        unsafe {
            _mm256_storeu_ps(to.add(i * to_row), _mm256_permute2f128_ps::<0x20>(low, high));
            _mm256_storeu_ps(to.add((i + 4) * to_row), _mm256_permute2f128_ps::<0x31>(low, high));
        }
    }
}
