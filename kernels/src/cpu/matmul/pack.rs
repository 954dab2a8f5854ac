//! Operands in the order in which a microkernel reads them.

use super::Strided;
use super::prefetch::{LINE, prefetch};
use super::transpose::{SIDE, transpose};
use crate::cpu::class::{Class, by_class};

/// Rows that are asked for before they are read.
const AHEAD: usize = 8;

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
        // SAFETY: an operand is valid from its first element to its last.
        let from = unsafe { rows_of(b.base, b.row, depth, columns) };
        copy_rows(class, to, width, from, b.row, columns);
        return;
    }
    let whole = if b.row == 1 { (depth / SIDE * SIDE, columns / SIDE * SIDE) } else { (0, 0) };
    // Two squares of the same columns at a time are whole lines of `b`; what they become lies side by side.
    for p in (0..whole.0).step_by(2 * SIDE) {
        for j in (0..whole.1).step_by(SIDE) {
            for row in 0..SIDE {
                prefetch(b.base.wrapping_add(p + 2 * SIDE + (j + row) * b.column));
            }
            for p in (p..whole.0.min(p + 2 * SIDE)).step_by(SIDE) {
                // SAFETY: a square within `b` and within the panel.
                unsafe {
                    transpose(class, to.as_mut_ptr().add(p * width + j), width, b.base.add(p + j * b.column), b.column)
                };
            }
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

/// `rows` rows of `columns` elements, `apart` from each other, and what lies between them.
///
/// # Safety
/// They must be valid, as an operand is, for as long as the result lives.
unsafe fn rows_of<'a>(base: *const f32, apart: usize, rows: usize, columns: usize) -> &'a [f32] {
    let len = if rows == 0 { 0 } else { (rows - 1) * apart + columns };
    // SAFETY: the caller's contract.
    unsafe { std::slice::from_raw_parts(base, len) }
}

by_class! {
    /// Rows of `columns` elements, `apart` from each other, into a panel of `width`.
    fn copy_rows(to: &mut [f32], width: usize, from: &[f32], apart: usize, columns: usize) {
        for (p, row) in to.chunks_exact_mut(width).enumerate() {
            let from = &from[p * apart..][..columns];
            for at in (0..columns).step_by(LINE) {
                prefetch(from.as_ptr().wrapping_add(AHEAD * apart + at));
            }
            let (lines, rest) = from.as_chunks::<LINE>();
            for (to, line) in row.as_chunks_mut::<LINE>().0.iter_mut().zip(lines) {
                *to = *line;
            }
            let behind = &mut row[lines.len() * LINE..];
            behind[..rest.len()].copy_from_slice(rest);
            behind[rest.len()..].fill(0.0);
        }
    }
}

/// Rows in tiles of `height`: `to[t apart + p height + i]` is element (t height + i, p) of `a`, for `depth` columns.
///
/// # Safety
/// `a` must be valid for `rows` rows and `depth` columns.
pub(super) unsafe fn tiles(
    class: Class,
    to: &mut [f32],
    apart: usize,
    height: usize,
    a: Strided<*const f32>,
    depth: usize,
    rows: usize,
) {
    let tiles = rows.div_ceil(height);
    assert!(depth * height <= apart && to.len() >= tiles * apart, "KN-1 (shapes): {rows} rows in tiles of {height}");
    let whole = if a.row == 1 && matches!(height, 4 | 6) { rows / height } else { 0 };
    if whole > 0 {
        // SAFETY: an operand is valid from its first element to its last; these are whole tiles of it.
        let from = unsafe { rows_of(a.base, a.column, depth, whole * height) };
        match height {
            6 => six_side_by_side(class, to, apart, from, a.column, depth, whole),
            _ => four_side_by_side(class, to, apart, from, a.column, depth, whole),
        }
    }
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

/// Tiles of rows that lie side by side, a column of all tiles at a time, columns `step` apart. `SPAN` elements are moved for each
/// `HEIGHT`: the tile's next column overwrites what was too many.
#[inline(always)]
fn side_by_side<const HEIGHT: usize, const SPAN: usize>(
    to: &mut [f32],
    apart: usize,
    from: &[f32],
    step: usize,
    depth: usize,
    tiles: usize,
) {
    assert!(
        apart >= depth * HEIGHT + SPAN - HEIGHT
            && to.len() >= tiles * apart
            && (depth == 0 || from.len() >= (depth - 1) * step + tiles * HEIGHT),
        "KN-1 (shapes): {tiles} tiles of {depth} columns, {apart} apart"
    );
    let (to, from) = (to.as_mut_ptr(), from.as_ptr());
    for p in 0..depth {
        for t in 0..tiles {
            prefetch(from.wrapping_add((p + AHEAD) * step + t * HEIGHT));
            // SAFETY: column p of tile t, which is within both by the assertion; so are the elements of the next tile, if there is
            // one, and what lies between tiles.
            unsafe {
                let (from, to) = (from.add(p * step + t * HEIGHT), to.add(t * apart + p * HEIGHT));
                if t + 1 < tiles {
                    to.cast::<[f32; SPAN]>().write(from.cast::<[f32; SPAN]>().read());
                } else {
                    to.cast::<[f32; HEIGHT]>().write(from.cast::<[f32; HEIGHT]>().read());
                }
            }
        }
    }
}

by_class! {
    /// [`side_by_side`] for tiles of six: eight elements are one vector.
    fn six_side_by_side(to: &mut [f32], apart: usize, from: &[f32], step: usize, depth: usize, tiles: usize) {
        side_by_side::<6, 8>(to, apart, from, step, depth, tiles);
    }
}

by_class! {
    /// [`side_by_side`] for tiles of four.
    fn four_side_by_side(to: &mut [f32], apart: usize, from: &[f32], step: usize, depth: usize, tiles: usize) {
        side_by_side::<4, 4>(to, apart, from, step, depth, tiles);
    }
}
