//! What a record has the job's optimizer do to a parameter: the one place where the two meet.

use shoal_config::spec::{self, AdafactorSpec, AdamSpec, OptimizerSpec};
use shoal_kernels::{Adam, Decay, Momentum, RmsProp, Sgd, Squares};
use shoal_plan::ledger::{Corrections, UpdateScalars};

/// An update of one parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rule {
    /// Of any of its elements by themselves.
    Elements(Elementwise),
    /// Of the parameter as a whole.
    Parameter(Factored),
}

/// An update of elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Elementwise {
    /// With both moments.
    Adam(Adam),
    /// With a first moment, if there is momentum.
    Sgd(Sgd, Option<Momentum>),
    /// With a second moment, and a first one of which this share is kept.
    RmsProp(RmsProp, Option<f32>),
}

/// Adafactor's update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Factored {
    /// How squares enter the second moments.
    pub(super) squares: Squares,
    /// Learning rate, before it is set against the parameter's size.
    pub(super) rate: f64,
    /// Of this parameter.
    pub(super) weight_decay: f32,
    /// Its numbers.
    pub(super) spec: AdafactorSpec,
}

impl Rule {
    /// Nothing if the record is of another optimizer.
    pub(super) fn of(spec: &OptimizerSpec, scalars: &UpdateScalars, weight_decay: f32) -> Option<Self> {
        let (scale, rate) = (f32::from_bits(scalars.scale), scalars.rate() as f32);
        match spec {
            OptimizerSpec::AdamW(spec) => adam(spec, scalars, Decay::Kept(scalars.kept(weight_decay))),
            OptimizerSpec::Adam(spec) => adam(spec, scalars, Decay::Added(weight_decay)),
            OptimizerSpec::Sgd(spec) => {
                let momentum = spec.momentum.map(|momentum| match momentum {
                    spec::Momentum::Classic(share) => Momentum::Classic(share),
                    spec::Momentum::Nesterov(share) => Momentum::Nesterov(share),
                });
                Some(Self::Elements(Elementwise::Sgd(Sgd { scale, decay: weight_decay, rate }, momentum)))
            }
            OptimizerSpec::RmsProp(spec) => {
                let (alpha, epsilon) = (spec.alpha, spec.epsilon);
                let scalars = RmsProp { scale, decay: weight_decay, rate, alpha, epsilon };
                Some(Self::Elements(Elementwise::RmsProp(scalars, spec.momentum)))
            }
            OptimizerSpec::Adafactor(spec) => match scalars.corrections {
                Corrections::Adafactor { share } => {
                    let squares = Squares { scale, epsilon: f64::from(spec.epsilon1), share: f32::from_bits(share) };
                    Some(Self::Parameter(Factored { squares, rate: scalars.rate(), weight_decay, spec: *spec }))
                }
                Corrections::None | Corrections::Adam { .. } => None,
            },
        }
    }
}

fn adam(spec: &AdamSpec, scalars: &UpdateScalars, decay: Decay) -> Option<Rule> {
    match scalars.corrections {
        Corrections::Adam { step_size, root_correction } => Some(Rule::Elements(Elementwise::Adam(Adam {
            scale: f32::from_bits(scalars.scale),
            decay,
            step_size: f32::from_bits(step_size),
            root_correction: f32::from_bits(root_correction),
            beta1: spec.beta1,
            beta2: spec.beta2,
            epsilon: spec.epsilon,
        }))),
        Corrections::None | Corrections::Adafactor { .. } => None,
    }
}
