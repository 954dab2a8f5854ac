//! Adafactor (Shazeer and Stern, "Adafactor: adaptive learning rates with sublinear memory cost") as `transformers` orders it:
//! second moments of a matrix are means of its rows and of its columns.
//!
//! Squares of f32 are exact in f64. A row's are added in 16 lanes (lane i takes columns i, i + 16, ..), then lanes pairwise, i
//! with i + 8, then + 4, + 2, + 1; a column's one after the other. The squares of the scaled gradient, by which a step that is
//! too long is found, enter an exact sum in chunks of 16 columns of one row, or of 16 elements of a vector. So nothing depends
//! on how rows and columns are divided among threads, or taken one after the other.
//!
//! Why KN-6 (finite) holds: finite scaled gradients give finite moments and steps. What enters a moment is at most 2^126; a row is
//! at least the smallest normal number as a share of their mean, so its factor is at most 2^63, and so is a column's, since
//! epsilon is a normal number. A row or column whose gradients were always zero then has a large factor times zero, not
//! infinity times zero; and the scaled gradient of one that was not is at most sqrt(rows / share) once its column has divided
//! it, because its own square has entered there.

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use shoal_exact::Bins;

use super::CpuDevice;
use super::class::by_class;
use super::elementwise::GRAIN;
use super::norm::{CHUNK, chunk_sum};
use super::pool::Parts;
use crate::device::{Adafactor, Factors, SquareSum, Squares};

/// Columns whose sums one thread has at hand.
const COLUMNS: usize = 128;
/// The largest square that enters a moment: 2^126.
const MOST: f32 = f32::from_bits((127 + 126) << 23);

by_class! {
    /// The rows of `g`, of `width` columns each, enter their moments.
    fn rows_enter(moments: &mut [f32], g: &[f32], width: usize, s: &Squares) {
        for (moment, row) in moments.iter_mut().zip(g.chunks_exact(width)) {
            let mut lanes = [0.0_f64; CHUNK];
            let (whole, tail) = row.as_chunks::<CHUNK>();
            for chunk in whole {
                for (lane, &g) in lanes.iter_mut().zip(chunk) {
                    *lane += square(g, s);
                }
            }
            for (lane, &g) in lanes.iter_mut().zip(tail) {
                *lane += square(g, s);
            }
            let mut half = CHUNK / 2;
            while half > 0 {
                for i in 0..half {
                    lanes[i] += lanes[i + half];
                }
                half /= 2;
            }
            enter(moment, lanes[0] / width as f64, s);
        }
    }
}

by_class! {
    /// Columns `at..at + moments.len()` of `g`, at most [`COLUMNS`], enter their moments.
    fn columns_enter(moments: &mut [f32], g: &[f32], at: usize, width: usize, s: &Squares) {
        let mut sums = [0.0_f64; COLUMNS];
        let sums = &mut sums[..moments.len()];
        for row in g.chunks_exact(width) {
            for (sum, &g) in sums.iter_mut().zip(&row[at..at + moments.len()]) {
                *sum += square(g, s);
            }
        }
        let rows = (g.len() / width) as f64;
        for (moment, sum) in moments.iter_mut().zip(sums) {
            enter(moment, *sum / rows, s);
        }
    }
}

by_class! {
    fn elements_enter(moments: &mut [f32], g: &[f32], s: &Squares) {
        for (moment, &g) in moments.iter_mut().zip(g) {
            enter(moment, square(g, s), s);
        }
    }
}

#[inline(always)]
fn square(g: f32, s: &Squares) -> f64 {
    let g = f64::from(g * s.scale);
    g * g
}

#[inline(always)]
fn enter(moment: &mut f32, mean: f64, s: &Squares) {
    *moment = (1.0 - s.share) * *moment + s.share * ((mean + s.epsilon) as f32).min(MOST);
}

/// What multiplies an element of the gradient in this row, but for its column's part.
#[inline(always)]
fn row_factor(row: f32, mean: f32) -> f32 {
    1.0 / (row / mean).max(f32::MIN_POSITIVE).sqrt()
}

#[inline(always)]
fn root(moment: f32) -> f32 {
    1.0 / moment.sqrt()
}

by_class! {
    fn row_squares(g: &[f32], rows: &[f32], mean: f32, columns: &[f32], scale: f32) -> SquareSum {
        let mut sum = Sum::new();
        for (row, &moment) in g.chunks_exact(columns.len()).zip(rows) {
            let factor = row_factor(moment, mean);
            for (g, columns) in row.chunks(CHUNK).zip(columns.chunks(CHUNK)) {
                let mut u = [0.0; CHUNK];
                for ((u, &g), &column) in u.iter_mut().zip(g).zip(columns) {
                    *u = (g * scale) * (factor * root(column));
                }
                sum.enter(&u);
            }
        }
        sum.finish()
    }
}

by_class! {
    fn element_squares(g: &[f32], moments: &[f32], scale: f32) -> SquareSum {
        let mut sum = Sum::new();
        for (g, moments) in g.chunks(CHUNK).zip(moments.chunks(CHUNK)) {
            let mut u = [0.0; CHUNK];
            for ((u, &g), &moment) in u.iter_mut().zip(g).zip(moments) {
                *u = (g * scale) * root(moment);
            }
            sum.enter(&u);
        }
        sum.finish()
    }
}

/// An exact sum of squares, chunk by chunk.
struct Sum {
    bins: Bins,
    finite: bool,
}

impl Sum {
    fn new() -> Self {
        Self { bins: Bins::new(), finite: true }
    }

    #[inline(always)]
    fn enter(&mut self, u: &[f32; CHUNK]) {
        let sum = chunk_sum(u);
        if sum.is_finite() {
            self.bins.add(sum);
        } else {
            self.finite = false;
        }
    }

    fn finish(self) -> SquareSum {
        SquareSum { sum: self.bins.finish(), finite: self.finite }
    }
}

by_class! {
    fn row_step(w: &mut [f32], g: &[f32], columns: &[f32], factor: f32, s: &Adafactor) {
        for ((w, &g), &column) in w.iter_mut().zip(g).zip(columns) {
            *w = *w * s.kept - s.rate * ((g * s.scale) * (factor * root(column)));
        }
    }
}

by_class! {
    fn row_step_with_moment(w: &mut [f32], m: &mut [f32], g: &[f32], columns: &[f32], factor: f32, s: &Adafactor, beta1: f32) {
        for (((w, m), &g), &column) in w.iter_mut().zip(m.iter_mut()).zip(g).zip(columns) {
            let step = s.rate * ((g * s.scale) * (factor * root(column)));
            *m = beta1 * *m + (1.0 - beta1) * step;
            *w = *w * s.kept - *m;
        }
    }
}

by_class! {
    fn element_step(w: &mut [f32], g: &[f32], moments: &[f32], s: &Adafactor) {
        for ((w, &g), &moment) in w.iter_mut().zip(g).zip(moments) {
            *w = *w * s.kept - s.rate * ((g * s.scale) * root(moment));
        }
    }
}

by_class! {
    fn element_step_with_moment(w: &mut [f32], m: &mut [f32], g: &[f32], moments: &[f32], s: &Adafactor, beta1: f32) {
        for (((w, m), &g), &moment) in w.iter_mut().zip(m.iter_mut()).zip(g).zip(moments) {
            let step = s.rate * ((g * s.scale) * root(moment));
            *m = beta1 * *m + (1.0 - beta1) * step;
            *w = *w * s.kept - *m;
        }
    }
}

impl CpuDevice {
    pub(crate) fn adafactor_rows(&self, moments: &mut [f32], gradient: &[f32], squares: &Squares) {
        let height = moments.len();
        assert!(height > 0 && gradient.len().is_multiple_of(height), "KN-1 (shapes): adafactor, {height} rows");
        let width = gradient.len() / height;
        let m = Parts::of(moments);
        self.pool.divide(height, 1, |run| {
            // SAFETY: runs of one division are disjoint.
            let moments = unsafe { m.part(run.clone()) };
            rows_enter(self.class, moments, &gradient[run.start * width..run.end * width], width, squares);
        });
    }

    pub(crate) fn adafactor_columns(
        &self,
        moments: &mut [f32],
        gradient: &[f32],
        (first, width): (usize, usize),
        squares: &Squares,
    ) {
        let count = moments.len();
        let fits = first + count <= width && gradient.len().is_multiple_of(width);
        assert!(fits, "KN-1 (shapes): adafactor, {count} columns from {first} of {width}");
        let m = Parts::of(moments);
        self.pool.each(count.div_ceil(COLUMNS), |part| {
            let run = part * COLUMNS..((part + 1) * COLUMNS).min(count);
            // SAFETY: as above.
            let moments = unsafe { m.part(run.clone()) };
            columns_enter(self.class, moments, gradient, first + run.start, width, squares);
        });
    }

    pub(crate) fn adafactor_vector(&self, moments: &mut [f32], gradient: &[f32], squares: &Squares) {
        assert_eq!(moments.len(), gradient.len(), "KN-1 (shapes): adafactor");
        let v = Parts::of(moments);
        self.pool.divide(gradient.len(), GRAIN, |run| {
            // SAFETY: runs of one division are disjoint.
            elements_enter(self.class, unsafe { v.part(run.clone()) }, &gradient[run], squares);
        });
    }

    #[allow(clippy::unused_self, reason = "another device's moments are not in host memory")]
    pub(crate) fn mean(&self, moments: &[f32]) -> f32 {
        (moments.iter().fold(0.0, |sum, &moment| sum + f64::from(moment)) / moments.len() as f64) as f32
    }

    pub(crate) fn adafactor_squares(&self, factors: Factors<'_>, gradient: &[f32], scale: f32) -> SquareSum {
        let total = Mutex::new(SquareSum::ZERO);
        let add = |part: &SquareSum| total.lock().unwrap_or_else(PoisonError::into_inner).merge(part);
        match factors {
            Factors::Matrix { rows, mean, columns } => {
                let (rows, columns) = (rows.host(), columns.host());
                let width = columns.len();
                assert_eq!(gradient.len(), rows.len() * width, "KN-1 (shapes): adafactor {} {width}", rows.len());
                self.pool.divide(rows.len(), 1, |run| {
                    let g = &gradient[run.start * width..run.end * width];
                    add(&row_squares(self.class, g, &rows[run], mean, columns, scale));
                });
            }
            Factors::Vector(moments) => {
                assert_eq!(gradient.len(), moments.len(), "KN-1 (shapes): adafactor");
                self.pool.divide(gradient.len(), GRAIN, |run| {
                    add(&element_squares(self.class, &gradient[run.clone()], &moments.host()[run], scale));
                });
            }
        }
        total.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn adafactor(
        &self,
        weight: &mut [f32],
        moment: Option<(&mut [f32], f32)>,
        factors: Factors<'_>,
        gradient: &[f32],
        scalars: &Adafactor,
    ) {
        let len = gradient.len();
        let kept = moment.as_ref().map_or(len, |(moment, _)| moment.len());
        assert!(weight.len() == len && kept == len, "KN-1 (shapes): adafactor {} {kept} {len}", weight.len());
        let w = Parts::of(weight);
        let moment = moment.map(|(moment, beta1)| (Parts::of(moment), beta1));
        // SAFETY: whoever asks has elements that nobody else asks for.
        let part = |run: &Range<usize>| unsafe {
            (w.part(run.clone()), moment.as_ref().map(|(m, beta1)| (m.part(run.clone()), *beta1)))
        };
        match factors {
            Factors::Matrix { rows, mean, columns } => {
                let (rows, columns) = (rows.host(), columns.host());
                let width = columns.len();
                assert_eq!(len, rows.len() * width, "KN-1 (shapes): adafactor {} {width}", rows.len());
                self.pool.divide(rows.len(), 1, |run| {
                    for row in run {
                        let elements = row * width..(row + 1) * width;
                        let (factor, g) = (row_factor(rows[row], mean), &gradient[elements.clone()]);
                        match part(&elements) {
                            (w, None) => row_step(self.class, w, g, columns, factor, scalars),
                            (w, Some((m, beta1))) => {
                                row_step_with_moment(self.class, w, m, g, columns, factor, scalars, beta1);
                            }
                        }
                    }
                });
            }
            Factors::Vector(moments) => {
                let moments = moments.host();
                assert_eq!(len, moments.len(), "KN-1 (shapes): adafactor");
                self.pool.divide(len, GRAIN, |run| match part(&run) {
                    (w, None) => element_step(self.class, w, &gradient[run.clone()], &moments[run], scalars),
                    (w, Some((m, beta1))) => {
                        element_step_with_moment(
                            self.class,
                            w,
                            m,
                            &gradient[run.clone()],
                            &moments[run],
                            scalars,
                            beta1,
                        );
                    }
                });
            }
        }
    }
}
