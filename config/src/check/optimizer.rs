//! Limits of an optimizer's numbers.

use super::{SpecError, below_one, hold, positive};
use crate::limits;
use crate::spec::{AdafactorSpec, AdamSpec, DecayRule, Momentum, OptimizerSpec, RmsPropSpec, SgdSpec};

pub(super) fn optimizer(spec: &OptimizerSpec, rules: &[DecayRule]) -> Result<(), SpecError> {
    match *spec {
        OptimizerSpec::AdamW(AdamSpec { beta1, beta2, epsilon, weight_decay: _ })
        | OptimizerSpec::Adam(AdamSpec { beta1, beta2, epsilon, weight_decay: _ }) => {
            below_one("train.beta1", beta1)?;
            below_one("train.beta2", beta2)?;
            positive("train.epsilon", epsilon)?;
        }
        OptimizerSpec::Sgd(SgdSpec { momentum, weight_decay: _ }) => match momentum {
            Some(Momentum::Classic(share) | Momentum::Nesterov(share)) => kept("train.momentum", share)?,
            None => {}
        },
        OptimizerSpec::RmsProp(RmsPropSpec { alpha, epsilon, momentum, weight_decay: _ }) => {
            below_one("train.alpha", alpha)?;
            positive("train.epsilon", epsilon)?;
            momentum.map_or(Ok(()), |share| kept("train.momentum", share))?;
        }
        OptimizerSpec::Adafactor(AdafactorSpec {
            epsilon1,
            clip_threshold,
            decay_rate,
            beta1,
            parameter_scale,
            weight_decay: _,
        }) => {
            positive("train.epsilon1", epsilon1)?;
            positive("train.clip_threshold", clip_threshold)?;
            let is_rate = limits::is_decay_rate(f64::from(decay_rate));
            hold("train.decay_rate", decay_rate, is_rate, limits::DECAY_RATE)?;
            beta1.map_or(Ok(()), |share| kept("train.beta1", share))?;
            parameter_scale.map_or(Ok(()), |least| positive("train.epsilon2", least))?;
        }
    }
    decay("train.weight_decay", spec.weight_decay())?;
    let words = format!("at most {} rules", limits::DECAY_RULES.end());
    let many = format!("{} rules", rules.len());
    hold("train.decay", many, limits::DECAY_RULES.contains(&(rules.len() as u64)), &words)?;
    rules.iter().try_for_each(|rule| {
        hold("train.decay.parameters", &rule.parameters, limits::is_pattern(&rule.parameters), limits::PATTERN)?;
        decay("train.decay.weight_decay", rule.weight_decay)
    })
}

/// A share that is kept from step to step: none would be no state.
fn kept(key: &'static str, share: f32) -> Result<(), SpecError> {
    hold(key, share, limits::is_kept(f64::from(share)), limits::KEPT)
}

fn decay(key: &'static str, decay: f32) -> Result<(), SpecError> {
    hold(key, decay, limits::is_decay(f64::from(decay)), limits::DECAY)
}
