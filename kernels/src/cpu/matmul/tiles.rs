//! The loops around the microkernel: columns in blocks whose panels are packed once for all rows, rows in blocks that the second
//! cache holds, and for each the slices of the contraction in ascending order.

use std::ops::Range;

use super::micro::Micro;
use super::pack::{panel, tiles};
use super::{SLICE, Size, Strided};
use crate::cpu::class::Class;
use crate::cpu::elementwise::add;

/// Rows of a block, at most.
const ROWS: usize = 192;
/// f32 between the packed rows of two tiles beyond what they need, so that they do not meet in the same sets of a cache.
const APART: usize = 16;
/// f32 for the panels of a block of columns.
const PANELS: usize = 1 << 20;
/// Columns that a block has where the contraction is too deep for all of it to be packed at once.
const COLUMNS: usize = 256;
/// f32 for the rows of a block, of tiles of any height.
const TILES: usize = ROWS * SLICE + ROWS * APART;
/// f32 of the panels that the second cache holds while rows pass by.
const CHUNK: usize = 160 << 10;
/// Rows up to which a panel that lies ready is read where it is.
const FEW: usize = 64;

/// f32 that a thread needs to pack operands.
pub(in crate::cpu) const ROOM: usize = PANELS + TILES;

/// Where operands are packed, and by what instructions.
pub(super) struct Packer<'a> {
    class: Class,
    micro: &'static Micro,
    room: &'a mut [f32],
}

/// Some of a result's columns over some of the contraction.
struct Block {
    columns: usize,
    depth: usize,
}

impl Block {
    fn of(Size { n, k, .. }: Size, width: usize) -> Self {
        let whole = |x: usize, unit: usize| x / unit * unit;
        let n = n.next_multiple_of(width);
        if n * k <= PANELS {
            return Self { columns: n, depth: k };
        }
        let columns = whole(PANELS / k, width).max(COLUMNS).min(n);
        let depth = if columns * k <= PANELS { k } else { whole(PANELS / columns, SLICE) };
        Self { columns, depth }
    }
}

/// `0..len` in runs of `most`.
fn runs(len: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    (0..len).step_by(most).map(move |from| from..(from + most).min(len))
}

impl<'a> Packer<'a> {
    /// # Panics
    /// If `room` is not of [`ROOM`].
    pub(super) fn new(class: Class, room: &'a mut [f32]) -> Self {
        assert!(room.len() == ROOM, "KN-1 (shapes): {} elements to pack in", room.len());
        Self { class, micro: Micro::of(class), room }
    }

    /// `c = a b`, or `c = c + a b` for a contraction of one slice. `done` is told each part of the result that is complete, as
    /// rows and columns, while the caches still hold it.
    ///
    /// # Safety
    /// The three matrices must be valid for their sizes, rows of `c` without gaps between its elements and `c` to write by this
    /// thread alone; it must not overlap `a` or `b`.
    pub(super) unsafe fn product(
        &mut self,
        c: Strided<*mut f32>,
        a: Strided<*const f32>,
        b: Strided<*const f32>,
        size: Size,
        add: bool,
        mut done: impl FnMut(Range<usize>, Range<usize>),
    ) {
        let Size { m, n, k } = size;
        assert!(c.column == 1 && k > 0, "KN-1 (shapes): product {size:?}");
        let block = Block::of(size, self.micro.width());
        for columns in runs(n, block.columns) {
            for depth in runs(k, block.depth) {
                // SAFETY: parts of the caller's matrices.
                unsafe {
                    let b = b.at(depth.start, columns.start);
                    let ready =
                        (m <= FEW && b.column == 1 && columns.len().is_multiple_of(self.micro.width())).then_some(b);
                    if ready.is_none() {
                        self.pack(b, depth.len(), columns.len());
                    }
                    for rows in runs(m, ROWS) {
                        let (c, a) = (c.at(rows.start, columns.start), a.at(rows.start, depth.start));
                        let part = Size { m: rows.len(), n: columns.len(), k: depth.len() };
                        self.rows(c, a, ready, part, add || depth.start > 0);
                        if depth.end == k {
                            done(rows, columns.clone());
                        }
                    }
                }
            }
        }
    }

    /// `c = c + a b` for a contraction of any length: complete in `scratch`, then added. `done` as for [`Self::product`].
    ///
    /// # Safety
    /// As [`Self::product`].
    pub(super) unsafe fn add_product(
        &mut self,
        scratch: &mut [f32],
        c: Strided<*mut f32>,
        a: Strided<*const f32>,
        b: Strided<*const f32>,
        size: Size,
        mut done: impl FnMut(Range<usize>, Range<usize>),
    ) {
        let Size { m, n, k } = size;
        assert!(c.column == 1 && k > 0, "KN-1 (shapes): product {size:?}");
        let width = self.micro.width();
        let block = Block::of(size, width);
        let fit = (scratch.len() / ROWS.min(m) / width * width).max(1);
        for columns in runs(n, block.columns.min(fit)) {
            // SAFETY: parts of the caller's matrices.
            unsafe {
                let b = b.at(0, columns.start);
                if block.depth == k {
                    self.pack(b, k, columns.len());
                }
                for rows in runs(m, ROWS) {
                    let tile = &mut scratch[..rows.len() * columns.len()];
                    let into = Strided { base: tile.as_mut_ptr(), row: columns.len(), column: 1 };
                    for depth in runs(k, block.depth) {
                        if block.depth < k {
                            self.pack(b.at(depth.start, 0), depth.len(), columns.len());
                        }
                        let part = Size { m: rows.len(), n: columns.len(), k: depth.len() };
                        self.rows(into, a.at(rows.start, depth.start), None, part, depth.start > 0);
                    }
                    for (i, line) in rows.clone().zip(tile.chunks_exact(columns.len())) {
                        let row = std::slice::from_raw_parts_mut(c.at(i, columns.start).base, columns.len());
                        add(self.class, row, line);
                    }
                    done(rows, columns.clone());
                }
            }
        }
    }

    /// All panels of a block: slice by slice, panel by panel.
    ///
    /// # Safety
    /// `b` must be valid for `depth` rows and `columns` columns.
    unsafe fn pack(&mut self, b: Strided<*const f32>, depth: usize, columns: usize) {
        let width = self.micro.width();
        let mut to = &mut self.room[..PANELS];
        for from in (0..depth).step_by(SLICE) {
            let slice = SLICE.min(depth - from);
            for j in (0..columns).step_by(width) {
                let (here, rest) = to.split_at_mut(slice * width);
                // SAFETY: a part of the caller's matrix.
                unsafe { panel(self.class, here, width, b.at(from, j), slice, width.min(columns - j)) };
                to = rest;
            }
        }
    }

    /// One block of rows: every tile of it, for every slice in ascending order.
    ///
    /// # Safety
    /// As [`Self::product`], for a part whose panels are packed or `ready` where they are.
    unsafe fn rows(
        &mut self,
        c: Strided<*mut f32>,
        a: Strided<*const f32>,
        ready: Option<Strided<*const f32>>,
        Size { m, n, k }: Size,
        mut add: bool,
    ) {
        let (width, height) = (self.micro.width(), self.micro.rows);
        let (panels, packed_rows) = self.room.split_at_mut(PANELS);
        let mut packed = panels.as_ptr();
        for from in (0..k).step_by(SLICE) {
            let slice = SLICE.min(k - from);
            let stride = slice * height + APART;
            // SAFETY: parts of the caller's matrices and of what was packed.
            unsafe {
                let a = a.at(0, from);
                if a.column != 1 {
                    tiles(packed_rows, stride, height, a, slice, m);
                }
                let chunk = (CHUNK / slice / width * width).max(width);
                for columns in runs(n, chunk) {
                    for i in (0..m).step_by(height) {
                        let rows = height.min(m - i);
                        let (a, a_column, a_row) = match a.column {
                            1 => (a.at(i, 0).base, 1, a.row),
                            _ => (packed_rows.as_ptr().add(i / height * stride), height, 1),
                        };
                        for j in columns.clone().step_by(width) {
                            let (b, b_row) = match ready {
                                Some(b) => (b.at(from, j).base, b.row),
                                None => (packed.add(j * slice), width),
                            };
                            let columns = width.min(n - j);
                            self.micro.kernel(columns, rows)(
                                columns,
                                rows,
                                slice,
                                c.at(i, j).base,
                                b,
                                a,
                                c.row as isize,
                                1,
                                b_row as isize,
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
                packed = packed.add(n.next_multiple_of(width) * slice);
            }
            add = true;
        }
    }
}
