//! The updates of optimizers, as operations of a device.

use super::{Adafactor, Adam, Device, Factors, Momentum, RmsProp, Sgd, SquareSum, Squares};
use crate::arena::{View, ViewMut};

impl Device {
    /// One Adam or AdamW update of a run of elements with their two moments.
    pub fn adam(
        &self,
        weight: ViewMut<'_>,
        (moment1, moment2): (ViewMut<'_>, ViewMut<'_>),
        gradient: View<'_>,
        scalars: &Adam,
    ) {
        let moments = (moment1.into_host(), moment2.into_host());
        match self {
            Self::Cpu(cpu) => cpu.adam(weight.into_host(), moments, gradient.host(), scalars),
        }
    }

    /// One step of gradient descent of a run of elements, with their running sums or without.
    pub fn sgd(
        &self,
        weight: ViewMut<'_>,
        momentum: Option<(ViewMut<'_>, Momentum)>,
        gradient: View<'_>,
        scalars: &Sgd,
    ) {
        let momentum = momentum.map(|(sum, momentum)| (sum.into_host(), momentum));
        match self {
            Self::Cpu(cpu) => cpu.sgd(weight.into_host(), momentum, gradient.host(), scalars),
        }
    }

    /// One RMSProp update of a run of elements with their mean squares and, with momentum, their running sums and the share
    /// of them that is kept.
    pub fn rmsprop(
        &self,
        weight: ViewMut<'_>,
        squares: ViewMut<'_>,
        momentum: Option<(ViewMut<'_>, f32)>,
        gradient: View<'_>,
        scalars: &RmsProp,
    ) {
        let momentum = momentum.map(|(sum, share)| (sum.into_host(), share));
        match self {
            Self::Cpu(cpu) => cpu.rmsprop(weight.into_host(), squares.into_host(), momentum, gradient.host(), scalars),
        }
    }

    /// The squares of whole rows enter their second moments.
    pub fn adafactor_rows(&self, moments: ViewMut<'_>, gradient: View<'_>, squares: &Squares) {
        match self {
            Self::Cpu(cpu) => cpu.adafactor_rows(moments.into_host(), gradient.host(), squares),
        }
    }

    /// The squares of some columns, from `first` on, of a whole matrix that has `width` enter their second moments.
    pub fn adafactor_columns(
        &self,
        moments: ViewMut<'_>,
        gradient: View<'_>,
        (first, width): (usize, usize),
        squares: &Squares,
    ) {
        match self {
            Self::Cpu(cpu) => cpu.adafactor_columns(moments.into_host(), gradient.host(), (first, width), squares),
        }
    }

    /// The squares of a vector's elements enter their second moments.
    pub fn adafactor_vector(&self, moments: ViewMut<'_>, gradient: View<'_>, squares: &Squares) {
        match self {
            Self::Cpu(cpu) => cpu.adafactor_vector(moments.into_host(), gradient.host(), squares),
        }
    }

    /// The mean of some moments, added up in f64 in their order.
    pub fn mean(&self, moments: View<'_>) -> f32 {
        match self {
            Self::Cpu(cpu) => cpu.mean(moments.host()),
        }
    }

    /// The sum of squares of a parameter's gradient, or of whole rows of it, times `scale`, as its second moments scale it.
    pub fn adafactor_squares(&self, factors: Factors<'_>, gradient: View<'_>, scale: f32) -> SquareSum {
        match self {
            Self::Cpu(cpu) => cpu.adafactor_squares(factors, gradient.host(), scale),
        }
    }

    /// Adafactor's step of a parameter, or of whole rows of it, with the mean of its steps and how much of that is kept, or
    /// without.
    pub fn adafactor(
        &self,
        weight: ViewMut<'_>,
        moment: Option<(ViewMut<'_>, f32)>,
        factors: Factors<'_>,
        gradient: View<'_>,
        scalars: &Adafactor,
    ) {
        let moment = moment.map(|(moment, beta1)| (moment.into_host(), beta1));
        match self {
            Self::Cpu(cpu) => cpu.adafactor(weight.into_host(), moment, factors, gradient.host(), scalars),
        }
    }
}
