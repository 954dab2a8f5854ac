//! `train.optimizer` and the keys of each.

use super::{real, refuse};
use crate::error::ConfigError;
use crate::limits::{self, BELOW_ONE, DECAY, DECAY_RATE, KEPT, POSITIVE, is_below_one, is_decay, is_kept, is_positive};
use crate::raw::{RawDecay, RawTrain};
use crate::spec::{AdafactorSpec, AdamSpec, DecayRule, Momentum, OptimizerSpec, RmsPropSpec, SgdSpec};

const NAMES: &str = "\"adamw\", \"adam\", \"sgd\", \"rmsprop\" or \"adafactor\"";

/// What the rest of `[train]` has to know of an optimizer before its numbers are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    AdamW,
    Adam,
    Sgd,
    RmsProp,
    Adafactor,
}

impl Name {
    pub(super) fn of(raw: &RawTrain<'_>) -> Result<Self, ConfigError> {
        match raw.optimizer.as_ref().map(|found| (found, found.value.as_str())) {
            None | Some((_, "adamw")) => Ok(Self::AdamW),
            Some((_, "adam")) => Ok(Self::Adam),
            Some((_, "sgd")) => Ok(Self::Sgd),
            Some((_, "rmsprop")) => Ok(Self::RmsProp),
            Some((_, "adafactor")) => Ok(Self::Adafactor),
            Some((found, _)) => Err(found.refuse(NAMES)),
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::AdamW => "adamw",
            Self::Adam => "adam",
            Self::Sgd => "sgd",
            Self::RmsProp => "rmsprop",
            Self::Adafactor => "adafactor",
        }
    }

    /// The learning rate that its authors, or PyTorch, start from.
    pub(super) fn learning_rate(self) -> f64 {
        match self {
            Self::AdamW => 6e-4,
            Self::Adam | Self::Sgd | Self::Adafactor => 1e-3,
            Self::RmsProp => 1e-2,
        }
    }

    /// Keys that only some optimizers have, of which this one has these.
    fn keys(self) -> &'static [&'static str] {
        match self {
            Self::AdamW | Self::Adam => &["beta1", "beta2", "epsilon"],
            Self::Sgd => &["momentum", "nesterov"],
            Self::RmsProp => &["alpha", "epsilon", "momentum"],
            Self::Adafactor => {
                &["beta1", "epsilon1", "epsilon2", "clip_threshold", "decay_rate", "relative_step", "scale_parameter"]
            }
        }
    }
}

/// Refuses keys of other optimizers, naming those whose they are.
fn refuse_foreign(name: Name, raw: &RawTrain<'_>) -> Result<(), ConfigError> {
    const ALL: [Name; 5] = [Name::AdamW, Name::Adam, Name::Sgd, Name::RmsProp, Name::Adafactor];
    macro_rules! foreign {
        ($($key:ident),*) => {
            $(if let (Some(found), false) = (&raw.$key, name.keys().contains(&stringify!($key))) {
                let whose = ALL.iter().filter(|other| other.keys().contains(&stringify!($key))).map(|other| other.word());
                let whose = whose.collect::<Vec<_>>().join(", ");
                let said = format!("left out, because train.optimizer = \"{}\": it is a key of {whose}", name.word());
                return Err(found.refuse(said));
            })*
        };
    }
    foreign!(
        beta1,
        beta2,
        epsilon,
        momentum,
        nesterov,
        alpha,
        epsilon1,
        epsilon2,
        clip_threshold,
        decay_rate,
        relative_step,
        scale_parameter
    );
    Ok(())
}

pub(super) fn optimizer(name: Name, raw: &RawTrain<'_>) -> Result<OptimizerSpec, ConfigError> {
    refuse_foreign(name, raw)?;
    let weight_decay = |default| real(&raw.weight_decay, default, is_decay, DECAY).map(|decay| decay as f32);
    let adam = |beta2, decay| {
        Ok::<_, ConfigError>(AdamSpec {
            beta1: real(&raw.beta1, 0.9, is_below_one, BELOW_ONE)? as f32,
            beta2: real(&raw.beta2, beta2, is_below_one, BELOW_ONE)? as f32,
            epsilon: real(&raw.epsilon, 1e-8, is_positive, POSITIVE)? as f32,
            weight_decay: weight_decay(decay)?,
        })
    };
    let momentum = || {
        let share = real(&raw.momentum, 0.0, |share| share == 0.0 || is_kept(share), BELOW_ONE)? as f32;
        Ok::<_, ConfigError>((share > 0.0).then_some(share))
    };
    match name {
        Name::AdamW => Ok(OptimizerSpec::AdamW(adam(0.95, 0.1)?)),
        Name::Adam => Ok(OptimizerSpec::Adam(adam(0.999, 0.0)?)),
        Name::Sgd => {
            let momentum = match (momentum()?, raw.nesterov.as_ref().is_some_and(|found| found.value)) {
                (None, false) => None,
                (None, true) => return Err(refuse(&raw.nesterov, "false, unless train.momentum is above 0")),
                (Some(share), false) => Some(Momentum::Classic(share)),
                (Some(share), true) => Some(Momentum::Nesterov(share)),
            };
            Ok(OptimizerSpec::Sgd(SgdSpec { momentum, weight_decay: weight_decay(0.0)? }))
        }
        Name::RmsProp => Ok(OptimizerSpec::RmsProp(RmsPropSpec {
            alpha: real(&raw.alpha, 0.99, is_below_one, BELOW_ONE)? as f32,
            epsilon: real(&raw.epsilon, 1e-8, is_positive, POSITIVE)? as f32,
            momentum: momentum()?,
            weight_decay: weight_decay(0.0)?,
        })),
        Name::Adafactor => Ok(OptimizerSpec::Adafactor(AdafactorSpec {
            epsilon1: real(&raw.epsilon1, 1e-30, is_positive, POSITIVE)? as f32,
            clip_threshold: real(&raw.clip_threshold, 1.0, is_positive, POSITIVE)? as f32,
            decay_rate: real(&raw.decay_rate, -0.8, limits::is_decay_rate, DECAY_RATE)? as f32,
            beta1: match &raw.beta1 {
                None => None,
                found @ Some(_) => Some(real(found, 0.0, is_kept, KEPT)? as f32),
            },
            parameter_scale: parameter_scale(raw)?,
            weight_decay: weight_decay(0.0)?,
        })),
    }
}

fn parameter_scale(raw: &RawTrain<'_>) -> Result<Option<f32>, ConfigError> {
    let scales = raw.scale_parameter.as_ref().map_or_else(|| has_relative_steps(raw), |found| found.value);
    if !scales && raw.epsilon2.is_some() {
        return Err(refuse(&raw.epsilon2, "left out, unless train.scale_parameter = true"));
    }
    Ok(if scales { Some(real(&raw.epsilon2, 1e-3, is_positive, POSITIVE)? as f32) } else { None })
}

/// Whether the learning rate is Adafactor's own.
pub(super) fn has_relative_steps(raw: &RawTrain<'_>) -> bool {
    raw.relative_step.as_ref().is_some_and(|found| found.value)
}

pub(super) fn decay(rules: &[RawDecay<'_>]) -> Result<Vec<DecayRule>, ConfigError> {
    let rule = |raw: &RawDecay<'_>| {
        let pattern =
            super::required(&raw.section, "parameters", &raw.parameters, "a name in quotes, with * or ? in it")?;
        if !limits::is_pattern(&pattern.value) {
            return Err(pattern.refuse(limits::PATTERN));
        }
        let decay = super::required(&raw.section, "weight_decay", &raw.weight_decay, DECAY)?;
        if !is_decay(decay.value) {
            return Err(decay.refuse(DECAY));
        }
        Ok(DecayRule { parameters: pattern.value.clone(), weight_decay: decay.value as f32 })
    };
    rules.iter().map(rule).collect()
}
