//! Adafactor's update of one parameter, in strokes: its squares enter the second moments, its step is measured, it is made.
//!
//! Every sum is exact or of whole rows and columns, so where the strokes are cut does not show.

use std::ops::Range;

use shoal_kernels::{Adafactor, Device, Factors, SquareSum, View};
use shoal_plan::space::Interval;
use shoal_plan::state::FactorPlace;

use super::rule::Factored;
use super::{KEPT, State, cut, from};

/// Columns that are read together, at least: fewer would use a part of each cache line.
const COLUMNS: usize = 128;

/// What one stroke does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Squares of rows enter these moments.
    Rows(Range<usize>),
    /// Squares of columns, from `first` of `width` on, enter these moments.
    Columns { moments: Range<usize>, first: usize, width: usize },
    /// Squares of a vector's elements enter these moments.
    Elements(Range<usize>),
    /// Nothing is measured yet but the mean of these row moments, if it is a matrix.
    Begin(Option<Range<usize>>),
    /// Measure the step, and if it matters the weights, of some rows or of some elements of a vector.
    Measure(Place),
    /// Make it, in a parameter of so many elements.
    Step(Place, usize),
}

/// Some of a parameter's second moments, from the start of the interval's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Matrix { rows: Range<usize>, columns: Range<usize> },
    Vector(Range<usize>),
}

/// What was measured of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Mean of its row moments.
    mean: f32,
    /// Squares of its step.
    step: SquareSum,
    /// Squares of its weights.
    weights: SquareSum,
}

impl Default for Measured {
    fn default() -> Self {
        Self { mean: 1.0, step: SquareSum::ZERO, weights: SquareSum::ZERO }
    }
}

impl Place {
    pub(super) fn of(place: FactorPlace, factors: Interval) -> Self {
        match place {
            FactorPlace::Matrix { rows, columns } => {
                Self::Matrix { rows: from(factors, rows), columns: from(factors, columns) }
            }
            FactorPlace::Vector(moments) => Self::Vector(from(factors, moments)),
        }
    }

    /// All strokes of the parameter at `elements`, with the elements of the gradient that each takes: of about `most` elements,
    /// if a row is no longer than that and [`COLUMNS`] columns are not.
    pub(super) fn tasks(&self, elements: &Range<usize>, most: usize) -> Vec<(Range<usize>, Task)> {
        let mut tasks = self.enter(elements, most);
        let rows = match self {
            Self::Matrix { rows, .. } => Some(rows.clone()),
            Self::Vector(_) => None,
        };
        tasks.push((elements.start..elements.start, Task::Begin(rows)));
        let parts = self.parts(elements, most);
        tasks.extend(parts.iter().map(|(run, place)| (run.clone(), Task::Measure(place.clone()))));
        tasks.extend(parts.into_iter().map(|(run, place)| (run, Task::Step(place, elements.len()))));
        tasks
    }

    fn enter(&self, elements: &Range<usize>, most: usize) -> Vec<(Range<usize>, Task)> {
        let by_rows = self.parts(elements, most).into_iter();
        match self {
            Self::Matrix { rows, columns } => {
                let (start, width) = (columns.start, columns.len());
                let together = (most / rows.len()).next_multiple_of(COLUMNS).max(COLUMNS);
                let columns = cut(columns.clone(), together).map(|moments| {
                    let first = moments.start - start;
                    (elements.clone(), Task::Columns { moments, first, width })
                });
                by_rows.map(|(run, place)| (run, place.rows())).chain(columns).collect()
            }
            Self::Vector(_) => by_rows.map(|(run, place)| (run, place.rows())).collect(),
        }
    }

    /// The squares of these rows, or elements, enter their moments.
    fn rows(self) -> Task {
        match self {
            Self::Matrix { rows, .. } => Task::Rows(rows),
            Self::Vector(moments) => Task::Elements(moments),
        }
    }

    /// Whole rows, or elements of a vector, about `most` elements at a time, with the elements they are of.
    fn parts(&self, elements: &Range<usize>, most: usize) -> Vec<(Range<usize>, Self)> {
        let start = elements.start;
        match self {
            Self::Matrix { rows, columns } => {
                let (first, width) = (rows.start, columns.len());
                let part = |rows: Range<usize>| {
                    let run = start + (rows.start - first) * width..start + (rows.end - first) * width;
                    (run, Self::Matrix { rows, columns: columns.clone() })
                };
                cut(rows.clone(), (most / width).max(1)).map(part).collect()
            }
            Self::Vector(moments) => {
                let first = moments.start;
                let part = |moments: Range<usize>| {
                    (start + moments.start - first..start + moments.end - first, Self::Vector(moments))
                };
                cut(moments.clone(), most).map(part).collect()
            }
        }
    }

    fn factors<'a>(&self, moments: View<'a>, mean: f32) -> Factors<'a> {
        match self {
            Self::Matrix { rows, columns } => {
                Factors::Matrix { rows: moments.range(rows.clone()), mean, columns: moments.range(columns.clone()) }
            }
            Self::Vector(elements) => Factors::Vector(moments.range(elements.clone())),
        }
    }
}

impl Factored {
    /// Does one stroke on the elements `run`, whose gradient this is.
    pub(super) fn carry_out(
        &self,
        device: &Device,
        (task, run): (&Task, &Range<usize>),
        state: State<'_>,
        gradient: View<'_>,
        measured: Measured,
    ) -> Measured {
        let factors = state.factors.expect(KEPT);
        match task {
            Task::Rows(moments) => device.adafactor_rows(factors.range(moments.clone()), gradient, &self.squares),
            Task::Columns { moments, first, width } => {
                let moments = factors.range(moments.clone());
                device.adafactor_columns(moments, gradient, (*first, *width), &self.squares);
            }
            Task::Elements(moments) => {
                device.adafactor_vector(factors.range(moments.clone()), gradient, &self.squares);
            }
            Task::Begin(rows) => {
                let mean = rows.clone().map_or(1.0, |rows| device.mean(factors.as_view().range(rows)));
                return Measured { mean, ..Measured::default() };
            }
            Task::Measure(place) => {
                let mut measured = measured;
                let factors = place.factors(factors.as_view(), measured.mean);
                measured.step.merge(&device.adafactor_squares(factors, gradient, self.squares.scale));
                if self.spec.parameter_scale.is_some() {
                    let weights = state.weight.as_view().range(run.clone());
                    measured.weights.merge(&device.sum_of_squares(weights));
                }
                return measured;
            }
            Task::Step(place, elements) => {
                let factors = place.factors(factors.as_view(), measured.mean);
                let moment = self.spec.beta1.map(|beta1| (state.moment1.expect(KEPT).range(run.clone()), beta1));
                let scalars = self.scalars(&measured, *elements);
                device.adafactor(state.weight.range(run.clone()), moment, factors, gradient, &scalars);
            }
        }
        measured
    }

    /// The step of a parameter that was measured. A length that is not finite makes it so, and the next loss tells.
    fn scalars(&self, measured: &Measured, elements: usize) -> Adafactor {
        let root_mean = |squares: &SquareSum| {
            if squares.finite { (squares.sum.to_f64() / elements as f64).sqrt() } else { f64::INFINITY }
        };
        let least = self.spec.parameter_scale.map(f64::from);
        let rate = self.rate * least.map_or(1.0, |least| root_mean(&measured.weights).max(least));
        let too_long = (root_mean(&measured.step) / f64::from(self.spec.clip_threshold)).max(1.0);
        Adafactor {
            scale: self.squares.scale,
            kept: (1.0 - rate * f64::from(self.weight_decay)) as f32,
            rate: (rate / too_long) as f32,
        }
    }
}
