//! Matrix products with bits that do not depend on threads, on how rows and columns are divided, or on storage order.
//!
//! A microkernel keeps one accumulator an element and adds along the contraction in ascending order by fused multiply-add, from
//! zero. The contraction is cut here every [`SLICE`] elements, and products that are too small for tiles are done by `small` in the same
//! order: an element is `((slice 0) + (slice 1)) + ..`, each slice one chain.

mod micro;
mod pack;
mod panels;
mod prefetch;
mod small;
#[cfg(test)]
mod tests;
mod tiles;
mod transpose;

use std::ops::Range;

use micro::Micro;
use panels::{Panels, pack_columns};
use small::small;

use super::CpuDevice;
use super::pool::Parts;
use crate::device::Write;

pub(super) use panels::SHARED;
pub(super) use tiles::{Operand, Packer, ROOM};

/// Elements of a contraction that are summed in one chain. A constant of the arithmetic: changing it changes bits. A weight
/// gradient over more rows is the same bits when it is made this many rows at a time, each slice added to those before.
pub const SLICE: usize = 512;
/// Up to this many elements of a result, packing costs more than it gains.
const SMALL: usize = 256;
/// Rows are divided in multiples of this, or of half where there are few: every tile's height divides it.
const ROW_UNIT: usize = 96;
/// Columns are divided in multiples of this: every panel's width divides it.
const COLUMN_UNIT: usize = 64;

/// Rows `i` and columns `j` of a matrix at `base + i row + j column`.
///
/// An operand that is read is *valid* if it may be read from its first element to its last, what lies between its rows too, and
/// nobody writes there meanwhile: rows are packed from one slice.
#[derive(Clone, Copy)]
pub(super) struct Strided<P> {
    pub(super) base: P,
    pub(super) row: usize,
    pub(super) column: usize,
}

impl<P> Strided<P> {
    pub(super) fn transposed(self) -> Self {
        Self { base: self.base, row: self.column, column: self.row }
    }
}

impl<'a> Strided<&'a [f32]> {
    /// A dense row-major matrix with rows of `width`.
    pub(super) fn rows(base: &'a [f32], width: usize) -> Self {
        Self { base, row: width, column: 1 }
    }

    fn holds(&self, rows: usize, columns: usize) -> bool {
        rows == 0 || columns == 0 || (rows - 1) * self.row + (columns - 1) * self.column < self.base.len()
    }

    pub(super) fn pointer(self) -> Strided<*const f32> {
        Strided { base: self.base.as_ptr(), row: self.row, column: self.column }
    }
}

impl Strided<*const f32> {
    /// The matrix from row `i` and column `j` on.
    ///
    /// # Safety
    /// That element must be within it, or one past its end.
    unsafe fn at(self, i: usize, j: usize) -> Self {
        // SAFETY: the caller's contract.
        Self { base: unsafe { self.base.add(i * self.row + j * self.column) }, ..self }
    }
}

impl Strided<*mut f32> {
    /// As above.
    ///
    /// # Safety
    /// As above.
    unsafe fn at(self, i: usize, j: usize) -> Self {
        // SAFETY: the caller's contract.
        Self { base: unsafe { self.base.add(i * self.row + j * self.column) }, ..self }
    }
}

/// Sizes of a product `[m, k] x [k, n]`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
}

impl CpuDevice {
    /// `c = a b`, or `c = c + a b` for a contraction of one slice, on this thread.
    ///
    /// # Safety
    /// The three matrices must be valid for their sizes, rows of `c` without gaps between elements, `c` to write by this thread
    /// alone, and not overlap `a` or `b`.
    pub(super) unsafe fn product(
        &self,
        c: Strided<*mut f32>,
        a: Strided<*const f32>,
        b: Strided<*const f32>,
        size: Size,
        write: Write,
    ) {
        assert!(write == Write::Overwrite || size.k <= SLICE, "KN-4 (add is of the complete product): {size:?}");
        // SAFETY: the caller's contract.
        unsafe { self.product_done(c, a, b, size, write, |_, _| ()) };
    }

    /// Calls `work` with what packs operands on this thread. Whoever needs the thread's scratch too takes that first.
    pub(super) fn packing<T>(&self, work: impl FnOnce(&mut Packer<'_>) -> T) -> T {
        let mut room = self.pack_room();
        work(&mut Packer::new(self.products, room.view_mut().into_host()))
    }

    /// As [`Self::product`], for a contraction of any length; `done` is told each part that is complete, as rows and columns.
    /// Takes this thread's scratch if there are several slices to add.
    ///
    /// # Safety
    /// As [`Self::product`].
    unsafe fn product_done(
        &self,
        c: Strided<*mut f32>,
        a: Strided<*const f32>,
        b: Strided<*const f32>,
        size: Size,
        write: Write,
        mut done: impl FnMut(Range<usize>, Range<usize>),
    ) {
        let Size { m, n, k } = size;
        let add = write == Write::Add;
        if is_small(size) {
            // SAFETY: the caller's contract.
            unsafe { small(self.products, c, a, b, size, add) };
            done(0..m, 0..n);
            return;
        }
        if add && k > SLICE {
            // Scratch before packing, as everywhere.
            let mut scratch = self.thread_scratch();
            let scratch = scratch.view_mut().into_host();
            // SAFETY: the caller's contract.
            self.packing(|packer| unsafe { packer.add_product(scratch, c, a, b, size, done) });
        } else {
            // SAFETY: the caller's contract.
            self.packing(|packer| unsafe { packer.product(c, a, b, size, add, done) });
        }
    }

    /// `c [m, n]`, dense, from `a [m, k]` and `b [k, n]`, on all threads. `finish` is called once for every run of columns of a row
    /// that is complete, by the thread that made it and while its cache holds it: what follows the product element by element
    /// belongs there.
    pub(super) fn matmul(
        &self,
        c: &mut [f32],
        a: Strided<&[f32]>,
        b: Strided<&[f32]>,
        size: Size,
        write: Write,
        finish: impl Fn(&mut [f32], usize, Range<usize>) + Sync,
    ) {
        let Size { m, n, k } = size;
        assert!(c.len() == m * n && a.holds(m, k) && b.holds(k, n), "KN-1 (shapes): product {size:?}");
        let c = Parts::of(c);
        // One rectangle of the result, which no other thread touches.
        let rectangle = |rows: Range<usize>, columns: Range<usize>, panels: Option<&Panels<'_>>| {
            let a = Strided { base: &a.base[(rows.start * a.row).min(a.base.len())..], ..a };
            let b = Strided { base: &b.base[(columns.start * b.column).min(b.base.len())..], ..b };
            let at = |i: usize, j: usize| (rows.start + i) * n + columns.start + j;
            let out = Strided { base: c.base().wrapping_add(at(0, 0)), row: n, column: 1 };
            let size = Size { m: rows.len(), n: columns.len(), k };
            let done = |i: Range<usize>, j: Range<usize>| {
                for i in i {
                    // SAFETY: within the rectangle.
                    let row = unsafe { c.part(at(i, j.start)..at(i, j.end)) };
                    finish(row, rows.start + i, columns.start + j.start..columns.start + j.end);
                }
            };
            // SAFETY: the sizes were checked; rectangles of one division are disjoint.
            unsafe {
                match panels {
                    Some(panels) => self.packing(|packer| packer.by_panels(out, a.pointer(), panels, size, done)),
                    None => self.product_done(out, a.pointer(), b.pointer(), size, write, done),
                }
            }
        };
        if by_columns(size, self.threads()) {
            self.pool.divide(n, COLUMN_UNIT, |columns| rectangle(0..m, columns, None));
            return;
        }
        let unit = if m >= 8 * ROW_UNIT { ROW_UNIT } else { ROW_UNIT / 2 };
        let micro = Micro::of(self.products);
        let len = Panels::len(micro, k, n);
        let shared = (write == Write::Overwrite && !is_small(size) && len <= SHARED).then(|| self.shared_panels());
        let Some(mut room) = shared.flatten() else {
            self.pool.divide_evenly(m, unit, |rows| rectangle(rows, 0..n, None));
            return;
        };
        let room = &mut room.view_mut().into_host()[..len];
        let parts = Parts::of(room);
        self.pool.divide(n, COLUMN_UNIT, |columns| {
            // SAFETY: the sizes were checked; runs of panels of one division are disjoint.
            unsafe { pack_columns(self.products, &parts, b.pointer(), k, n, columns) };
        });
        let panels = Panels::packed(micro, room, k, n);
        self.pool.divide(m, unit, |rows| rectangle(rows, 0..n, Some(&panels)));
    }
}

/// Whether packing would cost more than it gains.
fn is_small(Size { m, n, k }: Size) -> bool {
    m == 1 || n == 1 || m * n <= SMALL || k == 0
}

/// Whether threads share a product out by columns: what is not divided is packed or read by every one of them, so the larger side
/// is, provided that there are columns for all.
fn by_columns(Size { m, n, k: _ }: Size, threads: usize) -> bool {
    let panels = n / COLUMN_UNIT;
    n > m && (panels >= 4 * threads || (panels >= threads && panels.is_multiple_of(threads)))
}
