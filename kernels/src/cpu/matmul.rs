//! Matrix products with bits that do not depend on threads, on how rows and columns are divided, or on storage order.
//!
//! The `gemm` crate keeps one accumulator an element and adds along the contraction in ascending order by fused
//! multiply-add, but only as long as it takes the contraction in one block and the product is not so small that it takes another
//! path. So the contraction is cut here every [`SLICE`] elements (within what it takes as one block on every machine), and
//! products on its other paths are done by `small` in the same order: an element is
//! `((slice 0) + (slice 1)) + ..`, each slice a chain of fused multiply-adds from zero.

#[cfg(test)]
mod tests;

use std::ops::Range;

use super::CpuDevice;
use super::pool::Parts;
use crate::device::Write;

/// Elements of a contraction that are summed in one chain. A constant of the arithmetic: changing it changes bits. A weight
/// gradient over more rows is the same bits when it is made this many rows at a time, each slice added to those before.
pub const SLICE: usize = 512;
/// Up to this many elements of a result, `gemm` may take another path.
const SMALL: usize = 256;
/// Up to this many elements of a contraction, too.
const SHALLOW: usize = 2;
/// Rows of a result that `gemm` gets at once. It packs them into memory of its own, which this bounds (4 MiB a thread); bits do
/// not depend on it.
const ROWS: usize = 2048;
/// Columns are divided in multiples of this: a cache line, and a whole number of `gemm`'s tiles.
const COLUMN_UNIT: usize = 48;

/// Rows `i` and columns `j` of a matrix at `base + i row + j column`.
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

/// Sizes of a product `[m, k] x [k, n]`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
}

/// `c = a b`, or `c = c + a b` for a contraction of one slice, on this thread.
///
/// # Safety
/// The three matrices must be valid for their sizes, `c` to write by this thread alone, and not overlap `a` or `b`.
pub(super) unsafe fn product(
    c: Strided<*mut f32>,
    a: Strided<*const f32>,
    b: Strided<*const f32>,
    Size { m, n, k }: Size,
    write: Write,
) {
    for i in (0..m).step_by(ROWS) {
        // SAFETY: rows `i ..` of the caller's matrices.
        unsafe {
            let (c, a) = (Strided { base: c.base.add(i * c.row), ..c }, Strided { base: a.base.add(i * a.row), ..a });
            product_of_rows(c, a, b, Size { m: ROWS.min(m - i), n, k }, write);
        }
    }
}

/// # Safety
/// As [`product`].
unsafe fn product_of_rows(
    c: Strided<*mut f32>,
    a: Strided<*const f32>,
    b: Strided<*const f32>,
    Size { m, n, k }: Size,
    write: Write,
) {
    assert!(write == Write::Overwrite || k <= SLICE, "KN-4 (add is of the complete product): contraction {k}");
    let mut add = write == Write::Add;
    let mut from = 0;
    while from < k || (k == 0 && !add) {
        let depth = SLICE.min(k - from);
        // SAFETY: `from < k`, or nothing is read.
        let (a, b) = unsafe {
            (Strided { base: a.base.add(from * a.column), ..a }, Strided { base: b.base.add(from * b.row), ..b })
        };
        let size = Size { m, n, k: depth };
        if m == 1 || n == 1 || m * n <= SMALL || depth <= SHALLOW {
            // SAFETY: the caller's contract, for a part of the contraction.
            unsafe { small(c, a, b, size, add) };
        } else {
            let stride = |x: usize| x as isize;
            // SAFETY: as above.
            unsafe {
                gemm::gemm(
                    m,
                    n,
                    depth,
                    c.base,
                    stride(c.column),
                    stride(c.row),
                    add,
                    a.base,
                    stride(a.column),
                    stride(a.row),
                    b.base,
                    stride(b.column),
                    stride(b.row),
                    1.0,
                    1.0,
                    false,
                    false,
                    false,
                    gemm::Parallelism::None,
                );
            }
        }
        add = true;
        from += depth.max(1);
    }
}

/// One slice of a product in the same order as `gemm` takes it, sixteen columns at a time.
///
/// # Safety
/// As [`product`].
unsafe fn small(c: Strided<*mut f32>, a: Strided<*const f32>, b: Strided<*const f32>, size: Size, add: bool) {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("fma") {
            #[target_feature(enable = "fma,avx2")]
            unsafe fn fused(c: Strided<*mut f32>, a: Strided<*const f32>, b: Strided<*const f32>, s: Size, add: bool) {
                // SAFETY: the caller's contract.
                unsafe { chains(c, a, b, s, add, |a, b, c| a.mul_add(b, c)) }
            }
            // SAFETY: the feature is there; the caller's contract.
            unsafe { fused(c, a, b, size, add) }
        } else {
            // Without the instruction `gemm` multiplies, then adds.
            // SAFETY: the caller's contract.
            unsafe { chains(c, a, b, size, add, |a, b, c| a * b + c) }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's contract.
    unsafe {
        chains(c, a, b, size, add, |a, b, c| a.mul_add(b, c));
    }
}

/// # Safety
/// As [`product`].
#[inline(always)]
unsafe fn chains(
    c: Strided<*mut f32>,
    a: Strided<*const f32>,
    b: Strided<*const f32>,
    Size { m, n, k }: Size,
    add: bool,
    step: impl Fn(f32, f32, f32) -> f32,
) {
    const COLUMNS: usize = 16;
    for i in 0..m {
        let mut j = 0;
        while j < n {
            let columns = COLUMNS.min(n - j);
            let mut sums = [0.0_f32; COLUMNS];
            for p in 0..k {
                // SAFETY: element (i, p) of a.
                let x = unsafe { *a.base.add(i * a.row + p * a.column) };
                for (l, sum) in sums[..columns].iter_mut().enumerate() {
                    // SAFETY: element (p, j + l) of b.
                    *sum = step(x, unsafe { *b.base.add(p * b.row + (j + l) * b.column) }, *sum);
                }
            }
            for (l, sum) in sums[..columns].iter().enumerate() {
                // SAFETY: element (i, j + l) of c, which is this thread's.
                let c = unsafe { &mut *c.base.add(i * c.row + (j + l) * c.column) };
                *c = if add { *c + sum } else { *sum };
            }
            j += columns;
        }
    }
}

impl CpuDevice {
    /// `c [m, n]`, dense, from `a [m, k]` and `b [k, n]`, on all threads. `finish` is called for every run of columns of a row
    /// that is complete, by the thread that made it: what follows the product element by element belongs there.
    pub(super) fn matmul(
        &self,
        c: &mut [f32],
        a: Strided<&[f32]>,
        b: Strided<&[f32]>,
        size: Size,
        write: Write,
        finish: impl Fn(&mut [f32], Range<usize>) + Sync,
    ) {
        let Size { m, n, k } = size;
        assert!(c.len() == m * n && a.holds(m, k) && b.holds(k, n), "KN-1 (shapes): product {size:?}");
        let c = Parts::of(c);
        if write == Write::Overwrite && by_columns(b, n) {
            self.pool.divide(n, COLUMN_UNIT, |columns| {
                let b = Strided { base: &b.base[(columns.start * b.column).min(b.base.len())..], ..b };
                let out = Strided { base: c.base().wrapping_add(columns.start), row: n, column: 1 };
                // SAFETY: the sizes were checked; runs of columns of one division are disjoint.
                unsafe { product(out, a.pointer(), b.pointer(), Size { n: columns.len(), ..size }, write) };
                for row in 0..m {
                    // SAFETY: as above.
                    finish(unsafe { c.part(row * n + columns.start..row * n + columns.end) }, columns.clone());
                }
            });
            return;
        }
        self.pool.divide(m, 16, |rows| {
            // SAFETY: runs of rows of one division are disjoint.
            let part = unsafe { c.part(rows.start * n..rows.end * n) };
            let a = Strided { base: &a.base[(rows.start * a.row).min(a.base.len())..], ..a };
            match write {
                Write::Overwrite => rows_of(part, a, b, Size { m: rows.len(), ..size }),
                Write::Add => {
                    let mut scratch = self.thread_scratch();
                    let scratch = scratch.view_mut().into_host();
                    self.add_rows(part, scratch, a, b, Size { m: rows.len(), ..size });
                }
            }
            part.chunks_exact_mut(n.max(1)).for_each(|row| finish(row, 0..n));
        });
    }

    /// The product into scratch, as many rows at a time as fit, and from there added.
    fn add_rows(&self, c: &mut [f32], scratch: &mut [f32], a: Strided<&[f32]>, b: Strided<&[f32]>, size: Size) {
        let Size { m, n, k } = size;
        if k <= SLICE {
            // SAFETY: sizes were checked by the caller, and `c` is its alone.
            unsafe { product(dense(c, n), a.pointer(), b.pointer(), size, Write::Add) };
            return;
        }
        // Columns are cut too where a row is longer than the scratch; that changes no bit.
        let columns = n.min(scratch.len());
        let rows = (scratch.len() / columns.max(1)).min(m);
        for i in (0..m).step_by(rows.max(1)) {
            let rows = rows.min(m - i);
            for j in (0..n).step_by(columns.max(1)) {
                let columns = columns.min(n - j);
                let tile = &mut scratch[..rows * columns];
                let a = Strided { base: &a.base[i * a.row..], ..a };
                let b = Strided { base: &b.base[j * b.column..], ..b };
                rows_of(tile, a, b, Size { m: rows, n: columns, k });
                for (r, line) in tile.chunks_exact(columns).enumerate() {
                    let at = (i + r) * n + j;
                    super::elementwise::add(self.class, &mut c[at..at + columns], line);
                }
            }
        }
    }
}

/// Whether threads share a product out by columns: every one packs all of what it does not divide, and packing a `b` that
/// lies transposed costs a 512-row product 4 % of its time, an `a` next to nothing.
fn by_columns(b: Strided<&[f32]>, n: usize) -> bool {
    b.row == 1 && b.column != 1 && n >= 2 * COLUMN_UNIT
}

fn rows_of(c: &mut [f32], a: Strided<&[f32]>, b: Strided<&[f32]>, size: Size) {
    let n = size.n;
    // SAFETY: the caller checked the sizes; `c` is borrowed mutably, so it is this thread's and overlaps nothing.
    unsafe { product(dense(c, n), a.pointer(), b.pointer(), size, Write::Overwrite) };
}

fn dense(c: &mut [f32], n: usize) -> Strided<*mut f32> {
    Strided { base: c.as_mut_ptr(), row: n, column: 1 }
}
