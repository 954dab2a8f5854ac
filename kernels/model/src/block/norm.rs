//! The norms: LayerNorm of GPT-2, RMSNorm of Llama.

use std::ops::Range;

use shoal_config::spec::ModelSpec;
use shoal_kernels::{ArenaError, Buffer, NormParams, Tag, Write};
use shoal_plan::blocks::BlockTable;
use shoal_plan::ids::BlockId;

use super::{Scope, range};
use crate::sums::Accumulator;
use crate::weights::Opened;

/// Where a norm's parameters lie in its block's space.
#[derive(Clone, Debug)]
pub(crate) enum Norm {
    /// Takes the mean off, divides by the deviation, scales and shifts.
    Layer {
        /// `[width]`
        gamma: Range<usize>,
        /// `[width]`, if anything is added.
        beta: Option<Range<usize>>,
    },
    /// Divides by the root of the mean square and scales.
    Rms {
        /// `[width]`
        gamma: Range<usize>,
    },
}

impl Norm {
    /// The norm of this name, of the model's kind.
    pub(super) fn of(table: &BlockTable, model: &ModelSpec, name: &str) -> Self {
        let gamma = range(table, &format!("{name}.weight"));
        match model {
            ModelSpec::Gpt2(_) => {
                let beta = table.param(&format!("{name}.bias")).map(|param| param.interval.range());
                Self::Layer { gamma, beta }
            }
            ModelSpec::Llama(_) => Self::Rms { gamma },
        }
    }

    /// Elements a row that the backward pass needs besides the input.
    pub(super) fn statistics(&self) -> usize {
        match self {
            Self::Layer { .. } => 2,
            Self::Rms { .. } => 1,
        }
    }

    /// The normalised rows (temporary), and `stats [rows, statistics]` for the backward pass.
    pub(super) fn forward(
        &self,
        scope: &Scope<'_>,
        block: BlockId,
        x: &Buffer,
        stats: &mut Buffer,
    ) -> Result<Buffer, ArenaError> {
        let mut y = scope.per_row(Tag::Temporary, scope.sizes.width)?;
        let (weight, epsilon) = (|place: &Range<usize>| scope.open(block, place.clone()), scope.sizes.epsilon);
        match self {
            Self::Layer { gamma, beta } => {
                let (gamma, beta) = (weight(gamma)?, beta.as_ref().map(weight).transpose()?);
                let params = NormParams { gamma: gamma.view(), beta: beta.as_ref().map(Opened::view), epsilon };
                scope.device.layer_norm(y.view_mut(), stats.view_mut(), x.view(), params);
            }
            Self::Rms { gamma } => {
                scope.device.rms_norm(y.view_mut(), stats.view_mut(), x.view(), weight(gamma)?.view(), epsilon);
            }
        }
        Ok(y)
    }

    /// Writes the gradient of the input as told, and adds those of the parameters.
    pub(super) fn backward(
        &self,
        scope: &Scope<'_>,
        block: BlockId,
        (dx, write): (&mut Buffer, Write),
        dy: &Buffer,
        (x, stats): (&Buffer, &Buffer),
        into: &mut Accumulator<'_>,
    ) -> Result<(), ArenaError> {
        let params_write = into.write;
        let (dx, saved) = ((dx.view_mut(), write), (x.view(), stats.view()));
        match self {
            Self::Layer { gamma, beta } => {
                let (dgamma, dbeta) = match beta {
                    Some(beta) => {
                        let (dgamma, dbeta) = into.two_parts(gamma.clone(), beta.clone());
                        (dgamma, Some(dbeta))
                    }
                    None => (into.part(gamma.clone()), None),
                };
                let weight = scope.open(block, gamma.clone())?;
                scope.device.layer_norm_backward(dx, (dgamma, dbeta, params_write), dy.view(), saved, weight.view());
            }
            Self::Rms { gamma } => {
                let weight = scope.open(block, gamma.clone())?;
                let dgamma = (into.part(gamma.clone()), params_write);
                scope.device.rms_norm_backward(dx, dgamma, dy.view(), saved, weight.view());
            }
        }
        Ok(())
    }
}
