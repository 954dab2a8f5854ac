//! One update of an interval of a block by the job's optimizer, as a list of strokes: each is done whole or not begun, and
//! between any two of them an update can be put down and taken up again.
//!
//! Most optimizers go element by element. Adafactor takes a parameter at a time: its squares enter the second moments, then it
//! is measured how long its step would be, then the step is made, some rows a stroke. What was measured is carried from stroke
//! to stroke by whoever calls, because once a weight has changed it cannot be measured again.

use std::ops::Range;
use std::sync::Arc;

use shoal_config::JobSpec;
use shoal_config::spec::{AdafactorSpec, Momentum, OptimizerSpec};
use shoal_kernels::{self as kernels, Adam, Decay, Device, Factors, RmsProp, Sgd, Squares, View, ViewMut};
use shoal_plan::blocks::ModelTable;
use shoal_plan::decay::Decays;
use shoal_plan::ids::BlockId;
use shoal_plan::ledger::{Corrections, LedgerEntry, Update, UpdateScalars};
use shoal_plan::space::{Interval, Kind};
use shoal_plan::state::FactorPlace;

#[cfg(test)]
mod tests;

/// A job's optimizer.
#[derive(Clone, Debug)]
pub struct Optimizer {
    spec: OptimizerSpec,
    decays: Decays,
    table: Arc<ModelTable>,
}

/// One update of an interval.
#[derive(Clone, Debug)]
pub struct Strokes {
    spec: OptimizerSpec,
    scalars: UpdateScalars,
    strokes: Vec<Stroke>,
}

/// The elements of one stroke, from the start of the interval, and the decay of their parameter.
#[derive(Clone, Debug, PartialEq)]
struct Stroke {
    weight_decay: f32,
    elements: Range<usize>,
    work: Work,
}

/// What a stroke does.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Work {
    /// Update each element.
    Elements,
    /// Enter a parameter's squares into its second moments.
    Squares(Place),
    /// Measure a parameter's step.
    Measure(Place),
    /// Step some rows of a parameter, or some elements of a vector: those of the place.
    Step(Place),
}

/// Some of a parameter's second moments, from the start of the interval's.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Matrix { rows: Range<usize>, columns: Range<usize> },
    Vector(Range<usize>),
}

/// What was measured of a parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// Mean of its row moments.
    mean: f32,
    /// Learning rate, over the factor by which the step is too long.
    rate: f32,
    /// What decay leaves of a weight.
    kept: f32,
}

/// An interval's state to be updated, as far as the optimizer has it.
pub struct State<'a> {
    weight: ViewMut<'a>,
    moment1: Option<ViewMut<'a>>,
    moment2: Option<ViewMut<'a>>,
    factors: Option<ViewMut<'a>>,
}

impl<'a> State<'a> {
    /// Weights, to which the other kinds are added.
    #[must_use]
    pub fn new(weight: ViewMut<'a>) -> Self {
        Self { weight, moment1: None, moment2: None, factors: None }
    }

    /// Adds a kind.
    #[must_use]
    pub fn with(mut self, kind: Kind, elements: ViewMut<'a>) -> Self {
        match kind {
            Kind::Weight => self.weight = elements,
            Kind::Grad => unreachable!("MU-1 (state is weights and what an optimizer remembers)"),
            Kind::Moment1 => self.moment1 = Some(elements),
            Kind::Moment2 => self.moment2 = Some(elements),
            Kind::Factors => self.factors = Some(elements),
        }
        self
    }
}

const KEPT: &str = "MU-2 (an optimizer's state is there)";

impl Optimizer {
    /// The optimizer of a job with this table.
    #[must_use]
    pub fn of(spec: &JobSpec, table: Arc<ModelTable>) -> Self {
        Self { spec: spec.train.optimizer, decays: Decays::of(&spec.train, &table), table }
    }

    /// The update of an interval that a record orders, no stroke much longer than `most` elements; nothing for a skip.
    ///
    /// # Panics
    /// If the optimizer takes whole parameters and the interval has part of one.
    #[must_use]
    pub fn update(&self, entry: &LedgerEntry, block: BlockId, interval: Interval, most: usize) -> Option<Strokes> {
        let Update::Apply(scalars) = entry.update else { return None };
        let mut strokes = Vec::new();
        let params = self.table.block(block).params.iter().zip(self.decays.of_block(block));
        for (at, (param, &weight_decay)) in params.enumerate() {
            let Some(part) = param.interval.intersection(interval) else { continue };
            let elements = from(interval, part);
            match self.spec {
                OptimizerSpec::AdamW(_)
                | OptimizerSpec::Adam(_)
                | OptimizerSpec::Sgd(_)
                | OptimizerSpec::RmsProp(_) => {
                    let runs = cut(elements, most);
                    strokes.extend(runs.map(|elements| Stroke { weight_decay, elements, work: Work::Elements }));
                }
                OptimizerSpec::Adafactor(_) => {
                    assert_eq!(part, param.interval, "MU-3 (factors are updated by the whole parameter)");
                    let factors = self.table.part(Kind::Factors, block, interval).expect(KEPT);
                    let place = Place::of(self.table.factor_place(block, at), factors);
                    let stroke = |work| Stroke { weight_decay, elements: elements.clone(), work };
                    strokes.extend([stroke(Work::Squares(place.clone())), stroke(Work::Measure(place.clone()))]);
                    strokes.extend(place.steps(&elements, most).map(|(elements, place)| Stroke {
                        weight_decay,
                        elements,
                        work: Work::Step(place),
                    }));
                }
            }
        }
        Some(Strokes { spec: self.spec, scalars, strokes })
    }
}

impl Place {
    fn of(place: FactorPlace, factors: Interval) -> Self {
        match place {
            FactorPlace::Matrix { rows, columns } => {
                Self::Matrix { rows: from(factors, rows), columns: from(factors, columns) }
            }
            FactorPlace::Vector(moments) => Self::Vector(from(factors, moments)),
        }
    }

    /// Whole rows, or elements of a vector, `most` elements at a time if a row is no longer than that.
    fn steps(&self, elements: &Range<usize>, most: usize) -> Box<dyn Iterator<Item = (Range<usize>, Self)>> {
        let start = elements.start;
        match self.clone() {
            Self::Matrix { rows, columns } => {
                let (first, width) = (rows.start, columns.len());
                Box::new(cut(rows, (most / width).max(1)).map(move |rows| {
                    let elements = start + (rows.start - first) * width..start + (rows.end - first) * width;
                    (elements, Self::Matrix { rows, columns: columns.clone() })
                }))
            }
            Self::Vector(moments) => {
                let first = moments.start;
                Box::new(cut(moments, most).map(move |moments| {
                    (start + moments.start - first..start + moments.end - first, Self::Vector(moments))
                }))
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

impl Strokes {
    /// Strokes in all.
    #[must_use]
    pub fn count(&self) -> usize {
        self.strokes.len()
    }

    /// Does stroke `at`, the ones before it done, with what they have measured; gives what is to be carried on to the next.
    ///
    /// # Panics
    /// If the state or the gradient is not that of the interval, or there is no such stroke.
    pub fn carry_out(
        &self,
        device: &Device,
        at: usize,
        state: State<'_>,
        gradient: View<'_>,
        measured: Measured,
    ) -> Measured {
        let stroke = &self.strokes[at];
        let gradient = gradient.range(stroke.elements.clone());
        match &stroke.work {
            Work::Elements => self.elements(device, stroke, state, gradient),
            Work::Squares(place) => self.enter(device, place, state, gradient),
            Work::Measure(place) => return self.measure(device, (stroke, place), &state, gradient),
            Work::Step(place) => {
                let factors = state.factors.expect(KEPT);
                let factors = place.factors(factors.as_view(), measured.mean);
                let (run, beta1) = (stroke.elements.clone(), self.adafactor().beta1);
                let moment = beta1.map(|beta1| (state.moment1.expect(KEPT).range(run.clone()), beta1));
                let scalars = kernels::Adafactor { scale: self.scale(), kept: measured.kept, rate: measured.rate };
                device.adafactor(state.weight.range(run), moment, factors, gradient, &scalars);
            }
        }
        measured
    }

    fn adafactor(&self) -> &AdafactorSpec {
        match &self.spec {
            OptimizerSpec::Adafactor(spec) => spec,
            other @ (OptimizerSpec::AdamW(_)
            | OptimizerSpec::Adam(_)
            | OptimizerSpec::Sgd(_)
            | OptimizerSpec::RmsProp(_)) => unreachable!("MU-4 (only Adafactor has such a stroke): {other:?}"),
        }
    }

    fn scale(&self) -> f32 {
        f32::from_bits(self.scalars.scale)
    }

    fn elements(&self, device: &Device, stroke: &Stroke, state: State<'_>, gradient: View<'_>) {
        let run = || stroke.elements.clone();
        let weight = state.weight.range(run());
        let (scale, decay, rate) = (self.scale(), stroke.weight_decay, self.scalars.rate() as f32);
        match &self.spec {
            OptimizerSpec::AdamW(spec) | OptimizerSpec::Adam(spec) => {
                let Corrections::Adam { step_size, root_correction } = self.scalars.corrections else {
                    unreachable!("MU-5 (a record is of the job's optimizer): {:?}", self.scalars)
                };
                let scalars = Adam {
                    scale,
                    decay: match self.spec {
                        OptimizerSpec::AdamW(_) => Decay::Kept(self.scalars.kept(decay)),
                        OptimizerSpec::Adam(_)
                        | OptimizerSpec::Sgd(_)
                        | OptimizerSpec::RmsProp(_)
                        | OptimizerSpec::Adafactor(_) => Decay::Added(decay),
                    },
                    step_size: f32::from_bits(step_size),
                    root_correction: f32::from_bits(root_correction),
                    beta1: spec.beta1,
                    beta2: spec.beta2,
                    epsilon: spec.epsilon,
                };
                device.adam(weight, (part(state.moment1, run()), part(state.moment2, run())), gradient, &scalars);
            }
            OptimizerSpec::Sgd(spec) => {
                let momentum = spec.momentum.map(|momentum| {
                    let momentum = match momentum {
                        Momentum::Classic(share) => kernels::Momentum::Classic(share),
                        Momentum::Nesterov(share) => kernels::Momentum::Nesterov(share),
                    };
                    (part(state.moment1, run()), momentum)
                });
                device.sgd(weight, momentum, gradient, &Sgd { scale, decay, rate });
            }
            OptimizerSpec::RmsProp(spec) => {
                let momentum = spec.momentum.map(|share| (part(state.moment1, run()), share));
                let scalars = RmsProp { scale, decay, rate, alpha: spec.alpha, epsilon: spec.epsilon };
                device.rmsprop(weight, part(state.moment2, run()), momentum, gradient, &scalars);
            }
            OptimizerSpec::Adafactor(_) => unreachable!("MU-6 (Adafactor takes whole parameters)"),
        }
    }

    fn enter(&self, device: &Device, place: &Place, state: State<'_>, gradient: View<'_>) {
        let Corrections::Adafactor { share } = self.scalars.corrections else {
            unreachable!("MU-5 (a record is of the job's optimizer): {:?}", self.scalars)
        };
        let squares = Squares {
            scale: self.scale(),
            epsilon: f64::from(self.adafactor().epsilon1),
            share: f32::from_bits(share),
        };
        let moments = state.factors.expect(KEPT);
        match place {
            Place::Matrix { rows, columns } => {
                let (head, tail) = moments.split_at(columns.start);
                device.adafactor_matrix(head.range(rows.clone()), tail.range(0..columns.len()), gradient, &squares);
            }
            Place::Vector(elements) => device.adafactor_vector(moments.range(elements.clone()), gradient, &squares),
        }
    }

    fn measure(
        &self,
        device: &Device,
        (stroke, place): (&Stroke, &Place),
        state: &State<'_>,
        gradient: View<'_>,
    ) -> Measured {
        let (spec, moments) = (self.adafactor(), state.factors.as_ref().expect(KEPT).as_view());
        let mean = match place {
            Place::Matrix { rows, .. } => device.mean(moments.range(rows.clone())),
            Place::Vector(_) => 1.0,
        };
        let root_mean = |squares: &kernels::SquareSum| (squares.sum.to_f64() / gradient.len() as f64).sqrt();
        let step = root_mean(&device.adafactor_squares(place.factors(moments, mean), gradient, self.scale()));
        let relative = spec.parameter_scale.map_or(1.0, |least| {
            let weight = state.weight.as_view().range(stroke.elements.clone());
            root_mean(&device.sum_of_squares(weight)).max(f64::from(least))
        });
        let rate = self.scalars.rate() * relative;
        let too_long = (step / f64::from(spec.clip_threshold)).max(1.0);
        Measured { mean, rate: (rate / too_long) as f32, kept: (1.0 - rate * f64::from(stroke.weight_decay)) as f32 }
    }
}

/// Some elements of what an optimizer remembers.
fn part(kept: Option<ViewMut<'_>>, run: Range<usize>) -> ViewMut<'_> {
    kept.expect(KEPT).range(run)
}

/// `inner` from the start of `outer`.
fn from(outer: Interval, inner: Interval) -> Range<usize> {
    (inner.start - outer.start) as usize..(inner.end - outer.start) as usize
}

/// A range in parts of `most`, the last one shorter.
fn cut(range: Range<usize>, most: usize) -> impl Iterator<Item = Range<usize>> {
    range.clone().step_by(most).map(move |start| start..start.saturating_add(most).min(range.end))
}
