//! The loops around the microkernel: columns in blocks whose panels are packed once for all rows, and rows in blocks that the
//! second cache holds.

use std::ops::Range;

use super::micro::Micro;
use super::panels::{Panels, ROWS, TILES, multiply};
use super::{SLICE, Size, Strided};
use crate::cpu::class::Class;
use crate::cpu::elementwise::add;

/// f32 for the panels of a block of columns.
pub(super) const PANELS: usize = 1 << 20;
/// Columns that a block has where the contraction is too deep for all of it to be packed at once.
pub(super) const COLUMNS: usize = 256;

/// f32 that a thread needs to pack operands.
pub(in crate::cpu) const ROOM: usize = PANELS + TILES;

/// Where operands are packed, and by what instructions.
pub(in crate::cpu) struct Packer<'a> {
    class: Class,
    panels: &'a mut [f32],
    tiles: &'a mut [f32],
}

/// A second operand that many products have.
pub(in crate::cpu) enum Operand<'a> {
    /// Packed once for all.
    Packed(Panels<'a>),
    /// Packed by each, for it is too large.
    Loose(Strided<*const f32>),
}

/// Some of a result's columns over some of the contraction.
struct Block {
    columns: usize,
    depth: usize,
}

impl Block {
    fn of(Size { n, k, .. }: Size, width: usize, room: usize) -> Self {
        let whole = |x: usize, unit: usize| x / unit * unit;
        let n = n.next_multiple_of(width);
        if n * k <= room {
            return Self { columns: n, depth: k };
        }
        let columns = whole(room / k, width).max(COLUMNS).min(n);
        let depth = if columns * k <= room { k } else { whole(room / columns, SLICE) };
        Self { columns, depth }
    }
}

/// `0..len` in runs of `most`.
fn runs(len: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    (0..len).step_by(most).map(move |from| from..(from + most).min(len))
}

impl<'a> Packer<'a> {
    /// With room for rows, and the rest for panels: [`ROOM`], or at least for one block of columns over one slice.
    ///
    /// # Panics
    /// If `room` is less than that.
    pub(super) fn new(class: Class, room: &'a mut [f32]) -> Self {
        assert!(room.len() >= TILES + COLUMNS * SLICE, "KN-1 (shapes): {} elements to pack in", room.len());
        let (tiles, panels) = room.split_at_mut(TILES);
        Self { class, panels, tiles }
    }

    /// Packs operands of `(matrix, depth, columns)` that many products have, if there is room for all; and what packs the rest.
    ///
    /// # Safety
    /// The matrices must be valid for their sizes, and as long as the result is used.
    pub(in crate::cpu) unsafe fn operands<const N: usize>(
        &mut self,
        wanted: [(Strided<*const f32>, usize, usize); N],
    ) -> ([Operand<'_>; N], Packer<'_>) {
        let Self { class, panels, tiles } = self;
        let (class, micro) = (*class, Micro::of(*class));
        let mut panels = &mut **panels;
        let total: usize = wanted.iter().map(|&(_, depth, columns)| Panels::len(micro, depth, columns)).sum();
        let all = total + COLUMNS * SLICE <= panels.len();
        let operands = wanted.map(|(b, depth, columns)| {
            if !all {
                return Operand::Loose(b);
            }
            let len = Panels::len(micro, depth, columns);
            let here = panels.split_off_mut(..len).expect("KN-7 (panels have their length)");
            // SAFETY: the caller's contract.
            Operand::Packed(unsafe { Panels::pack(class, here, b, depth, columns) })
        });
        (operands, Packer { class, panels, tiles })
    }

    /// `c = a b` with the first `k` rows and `n` columns of the operand.
    ///
    /// # Safety
    /// As [`Self::product`].
    pub(in crate::cpu) unsafe fn by(
        &mut self,
        c: Strided<*mut f32>,
        a: Strided<*const f32>,
        b: &Operand<'_>,
        size: Size,
    ) {
        match b {
            // SAFETY: the caller's contract.
            Operand::Packed(panels) => unsafe { self.by_panels(c, a, panels, size, |_, _| ()) },
            // SAFETY: the caller's contract.
            Operand::Loose(b) => unsafe { self.product(c, a, *b, size, false, |_, _| ()) },
        }
    }

    /// `c = a b` with the first `k` rows and `n` columns of what is packed. `done` as for [`Self::product`].
    ///
    /// # Safety
    /// As [`Self::product`].
    pub(super) unsafe fn by_panels(
        &mut self,
        c: Strided<*mut f32>,
        a: Strided<*const f32>,
        panels: &Panels<'_>,
        size: Size,
        mut done: impl FnMut(Range<usize>, Range<usize>),
    ) {
        for rows in runs(size.m, ROWS) {
            let part = Size { m: rows.len(), ..size };
            // SAFETY: parts of the caller's matrices.
            unsafe {
                let (c, a) = (c.at(rows.start, 0), a.at(rows.start, 0));
                multiply(self.class, self.tiles, c, a, panels, part, false);
            }
            done(rows, 0..size.n);
        }
    }

    /// `c = a b`, or `c = c + a b` for a contraction of one slice. `done` is told each part of the result that is complete, as
    /// rows and columns, while the caches still hold it.
    ///
    /// # Safety
    /// The three matrices must be valid for their sizes, rows of `c` without gaps between its elements and `c` to write by this
    /// thread alone; it must not overlap `a` or `b`.
    pub(in crate::cpu) unsafe fn product(
        &mut self,
        c: Strided<*mut f32>,
        a: Strided<*const f32>,
        b: Strided<*const f32>,
        size: Size,
        add: bool,
        mut done: impl FnMut(Range<usize>, Range<usize>),
    ) {
        let Size { m, n, k } = size;
        assert!(c.column == 1 && k > 0 && (!add || k <= SLICE), "KN-4 (add is of the complete product): {size:?}");
        let micro = Micro::of(self.class);
        let block = Block::of(size, micro.width(), self.panels.len());
        for columns in runs(n, block.columns) {
            for depth in runs(k, block.depth) {
                // SAFETY: parts of the caller's matrices.
                unsafe {
                    let b = b.at(depth.start, columns.start);
                    let panels = Panels::pack(self.class, self.panels, b, depth.len(), columns.len());
                    for rows in runs(m, ROWS) {
                        let (c, a) = (c.at(rows.start, columns.start), a.at(rows.start, depth.start));
                        let part = Size { m: rows.len(), n: columns.len(), k: depth.len() };
                        multiply(self.class, self.tiles, c, a, &panels, part, add || depth.start > 0);
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
        let micro = Micro::of(self.class);
        let block = Block::of(size, micro.width(), self.panels.len());
        let fit = (scratch.len() / ROWS.min(m) / micro.width() * micro.width()).max(1);
        for columns in runs(n, block.columns.min(fit)) {
            let mut packed: Option<Range<usize>> = None;
            for rows in runs(m, ROWS) {
                let tile = &mut scratch[..rows.len() * columns.len()];
                let into = Strided { base: tile.as_mut_ptr(), row: columns.len(), column: 1 };
                for depth in runs(k, block.depth) {
                    // SAFETY: parts of the caller's matrices.
                    unsafe {
                        let (len, ready) =
                            (Panels::len(micro, depth.len(), columns.len()), packed.as_ref() == Some(&depth));
                        let panels = if ready {
                            Panels::packed(micro, &self.panels[..len], depth.len(), columns.len())
                        } else {
                            let b = b.at(depth.start, columns.start);
                            Panels::pack(self.class, self.panels, b, depth.len(), columns.len())
                        };
                        let part = Size { m: rows.len(), n: columns.len(), k: depth.len() };
                        let a = a.at(rows.start, depth.start);
                        multiply(self.class, self.tiles, into, a, &panels, part, depth.start > 0);
                    }
                    packed = Some(depth);
                }
                for (i, line) in rows.clone().zip(tile.chunks_exact(columns.len())) {
                    // SAFETY: a run of columns of row i.
                    let row = unsafe { std::slice::from_raw_parts_mut(c.at(i, columns.start).base, columns.len()) };
                    add(self.class, row, line);
                }
                done(rows, columns.clone());
            }
        }
    }
}
