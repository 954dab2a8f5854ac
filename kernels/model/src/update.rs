//! One update of an interval of a block by the job's optimizer, as a list of strokes: each is done whole or not begun, and
//! between any two of them an update can be put down and taken up again.
//!
//! Most optimizers go element by element. Adafactor takes a parameter at a time: its squares enter the second moments, then it
//! is measured how long its step would be, then the step is made, each some rows or columns a stroke. What was measured is
//! carried from stroke to stroke by whoever calls, because once a weight has changed it cannot be measured again.
//!
//! * MU-1 (state): whatever the optimizer remembers of an interval is given with it.
//! * MU-2 (whole parameters): an interval whose optimizer has factors holds parameters whole.
//! * MU-3 (one optimizer): a record is of the job's optimizer.

mod factored;
mod rule;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use shoal_config::JobSpec;
use shoal_config::spec::OptimizerSpec;
use shoal_kernels::{Device, View, ViewMut};
use shoal_plan::blocks::ModelTable;
use shoal_plan::decay::Decays;
use shoal_plan::ids::BlockId;
use shoal_plan::ledger::{LedgerEntry, Update};
use shoal_plan::space::{Interval, Kind};

pub use factored::Measured;
use factored::{Place, Task};
use rule::{Elementwise, Factored, Rule};

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
    strokes: Vec<Stroke>,
}

/// The elements of one stroke, from the start of the interval, and what is done with them.
#[derive(Clone, Debug, PartialEq)]
struct Stroke {
    elements: Range<usize>,
    work: Work,
}

#[derive(Clone, Debug, PartialEq)]
enum Work {
    /// Update each element.
    Elements(Elementwise),
    /// Go on with the parameter that they are of.
    Parameter(Factored, Task),
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

    /// Adds a kind. A gradient is none of state, and left out.
    #[must_use]
    pub fn with(mut self, kind: Kind, elements: ViewMut<'a>) -> Self {
        match kind {
            Kind::Weight => self.weight = elements,
            Kind::Grad => {}
            Kind::Moment1 => self.moment1 = Some(elements),
            Kind::Moment2 => self.moment2 = Some(elements),
            Kind::Factors => self.factors = Some(elements),
        }
        self
    }
}

const KEPT: &str = "MU-1 (state)";

impl Optimizer {
    /// The optimizer of a job with this table.
    #[must_use]
    pub fn of(spec: &JobSpec, table: Arc<ModelTable>) -> Self {
        Self { spec: spec.train.optimizer, decays: Decays::of(&spec.train, &table), table }
    }

    /// The update of an interval that a record orders, no stroke much longer than `most` elements, unless some columns of a
    /// matrix are; nothing for a skip.
    ///
    /// # Panics
    /// If the optimizer takes whole parameters and the interval has part of one, or the record is of another optimizer.
    #[must_use]
    pub fn update(&self, entry: &LedgerEntry, block: BlockId, interval: Interval, most: usize) -> Option<Strokes> {
        let Update::Apply(scalars) = entry.update else { return None };
        let mut strokes = Vec::new();
        let params = self.table.block(block).params.iter().zip(self.decays.of_block(block));
        for (at, (param, &weight_decay)) in params.enumerate() {
            let Some(part) = param.interval.intersection(interval) else { continue };
            let elements = from(interval, part);
            match Rule::of(&self.spec, &scalars, weight_decay).expect("MU-3 (one optimizer)") {
                Rule::Elements(rule) => {
                    let work = Work::Elements(rule);
                    strokes.extend(cut(elements, most).map(|elements| Stroke { elements, work: work.clone() }));
                }
                Rule::Parameter(rule) => {
                    assert_eq!(part, param.interval, "MU-2 (whole parameters)");
                    let factors = self.table.part(Kind::Factors, block, interval).expect("MU-1 (state)");
                    let place = Place::of(self.table.factor_place(block, at), factors);
                    let tasks = place.tasks(&elements, most).into_iter();
                    strokes
                        .extend(tasks.map(|(elements, task)| Stroke { elements, work: Work::Parameter(rule, task) }));
                }
            }
        }
        Some(Strokes { strokes })
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
        let Stroke { elements, work } = &self.strokes[at];
        let gradient = gradient.range(elements.clone());
        match work {
            Work::Elements(rule) => rule.carry_out(device, elements, state, gradient),
            Work::Parameter(rule, task) => return rule.carry_out(device, (task, elements), state, gradient, measured),
        }
        measured
    }
}

impl Elementwise {
    fn carry_out(&self, device: &Device, elements: &Range<usize>, state: State<'_>, gradient: View<'_>) {
        let weight = state.weight.range(elements.clone());
        match self {
            Self::Adam(scalars) => {
                device.adam(weight, (part(state.moment1, elements), part(state.moment2, elements)), gradient, scalars);
            }
            Self::Sgd(scalars, momentum) => {
                device.sgd(
                    weight,
                    momentum.map(|momentum| (part(state.moment1, elements), momentum)),
                    gradient,
                    scalars,
                );
            }
            Self::RmsProp(scalars, momentum) => {
                let momentum = momentum.map(|share| (part(state.moment1, elements), share));
                device.rmsprop(weight, part(state.moment2, elements), momentum, gradient, scalars);
            }
        }
    }
}

/// Some elements of what an optimizer remembers.
fn part<'a>(kept: Option<ViewMut<'a>>, elements: &Range<usize>) -> ViewMut<'a> {
    kept.expect(KEPT).range(elements.clone())
}

/// `inner` from the start of `outer`.
fn from(outer: Interval, inner: Interval) -> Range<usize> {
    (inner.start - outer.start) as usize..(inner.end - outer.start) as usize
}

/// A range in parts of `most`, the last one shorter.
fn cut(range: Range<usize>, most: usize) -> impl Iterator<Item = Range<usize>> {
    range.clone().step_by(most).map(move |start| start..start.saturating_add(most).min(range.end))
}
