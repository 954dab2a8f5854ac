//! What the updates of optimizers take. Everything that depends on the step was computed once, elsewhere.
//!
//! `g` is the gradient times `scale`; where decay is added to it, `g = gradient * scale + decay * w`.

use crate::arena::View;

/// Where weight decay enters an Adam update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decay {
    /// The weight is first multiplied by this: 1 - learning rate x weight decay (AdamW).
    Kept(f32),
    /// The weight times this is added to the gradient (Adam).
    Added(f32),
}

/// Scalars of an Adam or AdamW update.
///
/// `m = beta1 m + (1-beta1) g; v = beta2 v + (1-beta2) g g; w = w kept - step_size m / (sqrt(v) / root_correction + epsilon)`
/// (Kingma and Ba; Loshchilov and Hutter; as PyTorch orders it).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adam {
    /// Multiplies the gradient.
    pub scale: f32,
    /// Of these elements.
    pub decay: Decay,
    /// learning rate / (1 - beta1^t).
    pub step_size: f32,
    /// sqrt(1 - beta2^t).
    pub root_correction: f32,
    /// First-moment decay.
    pub beta1: f32,
    /// Second-moment decay.
    pub beta2: f32,
    /// Added to the corrected root of the second moment.
    pub epsilon: f32,
}

/// Scalars of gradient descent: `w = w - rate d`, where d is `g`, or with momentum as [`Momentum`] says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sgd {
    /// Multiplies the gradient.
    pub scale: f32,
    /// Weight decay, added to the gradient.
    pub decay: f32,
    /// Learning rate.
    pub rate: f32,
}

/// A running sum of gradients, `b = share b + g`, and which way it leads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Momentum {
    /// `d = b`.
    Classic(f32),
    /// `d = g + share b`.
    Nesterov(f32),
}

/// Scalars of RMSProp: `v = alpha v + (1-alpha) g g; d = g / (sqrt(v) + epsilon)`, with momentum `b = share b + d; d = b`;
/// `w = w - rate d`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RmsProp {
    /// Multiplies the gradient.
    pub scale: f32,
    /// Weight decay, added to the gradient.
    pub decay: f32,
    /// Learning rate.
    pub rate: f32,
    /// Share of the mean square that is kept.
    pub alpha: f32,
    /// Added to its root.
    pub epsilon: f32,
}

/// Scalars of Adafactor's second moments (Shazeer and Stern): a mean square x (of a row, a column, an element) enters its
/// moment r as `r = (1-share) r + share (x + epsilon)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Squares {
    /// Multiplies the gradient.
    pub scale: f32,
    /// Added to squares.
    pub epsilon: f64,
    /// Of the new squares.
    pub share: f32,
}

/// Adafactor's second moments of one parameter, or of whole rows of it, and what its gradient is multiplied by.
#[derive(Clone, Copy)]
pub enum Factors<'a> {
    /// Element (i, j) by `1/sqrt(rows[i] / mean) x 1/sqrt(columns[j])`.
    Matrix {
        /// Means of row squares.
        rows: View<'a>,
        /// Their mean over all rows of the parameter.
        mean: f32,
        /// Means of column squares.
        columns: View<'a>,
    },
    /// Element i by `1/sqrt(moments[i])`.
    Vector(View<'a>),
}

/// Scalars of Adafactor's step: `s = rate u` for the gradient u that [`Factors`] has scaled; with a moment
/// `m = beta1 m + (1-beta1) s; s = m`; `w = w kept - s`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adafactor {
    /// Multiplies the gradient.
    pub scale: f32,
    /// 1 - learning rate x weight decay.
    pub kept: f32,
    /// Learning rate over the factor by which this parameter's update is too long.
    pub rate: f32,
}
