//! The second operand of a product, packed: slice by slice of the contraction, and within a slice panel by panel of columns.

use std::ops::Range;

use super::micro::Micro;
use super::pack::panel;
use super::prefetch::{LINE, prefetch};
use super::{SLICE, Size, Strided};
use crate::cpu::class::Class;
use crate::cpu::pool::Parts;

/// A matrix `[depth, columns]` in panels.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct Panels<'a> {
    elements: &'a [f32],
    depth: usize,
    /// With those that fill the last panel.
    columns: usize,
    width: usize,
}

impl<'a> Panels<'a> {
    /// f32 that such a matrix takes.
    pub(super) fn len(micro: &Micro, depth: usize, columns: usize) -> usize {
        depth * columns.next_multiple_of(micro.width())
    }

    /// Packs `b` into the beginning of `to`.
    ///
    /// # Safety
    /// `b` must be valid for `depth` rows and `columns` columns.
    pub(super) unsafe fn pack(
        class: Class,
        to: &'a mut [f32],
        b: Strided<*const f32>,
        depth: usize,
        columns: usize,
    ) -> Self {
        let micro = Micro::of(class);
        let elements = &mut to[..Self::len(micro, depth, columns)];
        // SAFETY: all of the caller's matrix.
        unsafe { pack_columns(class, &Parts::of(elements), b, depth, columns, 0..columns) };
        Self::packed(micro, elements, depth, columns)
    }

    /// What was packed before.
    pub(super) fn packed(micro: &Micro, elements: &'a [f32], depth: usize, columns: usize) -> Self {
        assert!(
            elements.len() == Self::len(micro, depth, columns),
            "KN-7 (panels have their length): {}",
            elements.len()
        );
        Self { elements, depth, columns: columns.next_multiple_of(micro.width()), width: micro.width() }
    }

    /// The columns from `j` on of the slice that begins at `from`: its first row, rows a panel's width apart.
    fn at(&self, from: usize, j: usize) -> *const f32 {
        let slice = SLICE.min(self.depth - from);
        self.elements[from * self.columns + j * slice..].as_ptr()
    }
}

/// Columns `part`, from the beginning of a panel to the end of one, of a matrix that is packed into `to`.
///
/// # Safety
/// `b` must be valid for `depth` rows and `columns` columns, and nobody else pack these.
pub(super) unsafe fn pack_columns(
    class: Class,
    to: &Parts<'_, f32>,
    b: Strided<*const f32>,
    depth: usize,
    columns: usize,
    part: Range<usize>,
) {
    let width = Micro::of(class).width();
    let all = columns.next_multiple_of(width);
    for from in (0..depth).step_by(SLICE) {
        let slice = SLICE.min(depth - from);
        for j in part.clone().step_by(width) {
            let at = from * all + j * slice;
            // SAFETY: one panel of one slice; a part of the caller's matrix.
            unsafe {
                panel(class, to.part(at..at + slice * width), width, b.at(from, j), slice, width.min(columns - j))
            };
        }
    }
}

/// f32 between the packed rows of two tiles beyond what they need, so that they do not meet in the same sets of a cache.
const APART: usize = 16;
/// f32 of panels that the second cache holds while rows pass by.
const CHUNK: usize = 160 << 10;
/// f32 that all threads of a device pack together: a weight of 768 by 3,072.
pub(in crate::cpu) const SHARED: usize = 768 * 3072;
/// Rows of a block, at most.
pub(super) const ROWS: usize = 192;
/// f32 for the rows of a block, of tiles of any height.
pub(super) const TILES: usize = ROWS * SLICE + ROWS * APART;

/// `c = a b` or `c = c + (slice 0) + ..` for one block of rows and the first `k` rows and `n` columns of the panels: every tile,
/// for every slice in ascending order. Rows of `a` that do not lie ready are packed into `room`, of [`TILES`].
///
/// # Safety
/// `c` and `a` must be valid for their sizes, rows of `c` without gaps between elements, `c` to write by this thread alone, and
/// not overlap the others.
pub(super) unsafe fn multiply(
    class: Class,
    room: &mut [f32],
    c: Strided<*mut f32>,
    a: Strided<*const f32>,
    b: &Panels<'_>,
    Size { m, n, k }: Size,
    mut add: bool,
) {
    let micro = Micro::of(class);
    let (width, height) = (micro.width(), micro.rows);
    assert!(m <= ROWS && n <= b.columns && k <= b.depth && width == b.width, "KN-1 (shapes): {m} rows by panels");
    for from in (0..k).step_by(SLICE) {
        let slice = SLICE.min(k - from);
        let apart = slice * height + APART;
        // SAFETY: parts of the caller's matrices and of what was packed.
        unsafe {
            let a = a.at(0, from);
            if a.column != 1 {
                super::pack::tiles(class, room, apart, height, a, slice, m);
            }
            // As many columns as the cache holds, evenly.
            let chunk = n.div_ceil(n.div_ceil((CHUNK / slice).max(width))).next_multiple_of(width);
            for first in (0..n).step_by(chunk) {
                for i in (0..m).step_by(height) {
                    let (a, a_column, a_row) = match a.column {
                        1 => (a.at(i, 0).base, 1, a.row),
                        _ => (room.as_ptr().add(i / height * apart), height, 1),
                    };
                    for j in (first..n.min(first + chunk)).step_by(width) {
                        let (columns, rows) = (width.min(n - j), height.min(m - i));
                        for row in 0..rows {
                            for column in (0..columns).step_by(LINE) {
                                prefetch(c.at(i + row, j + column).base);
                            }
                        }
                        micro.kernel(columns, rows)(
                            columns,
                            rows,
                            slice,
                            c.at(i, j).base,
                            b.at(from, j),
                            a,
                            c.row as isize,
                            1,
                            width as isize,
                            a_column as isize,
                            a_row as isize,
                            1.0,
                            1.0,
                            u8::from(add),
                            false,
                            false,
                            false,
                            std::ptr::null(),
                        );
                    }
                }
            }
        }
        add = true;
    }
}
