//! A linear map, with a bias or without.
//!
//! * LA-1 (maps of one product are neighbours): a family's table lists maps of one product one behind the other, their
//!   parts too.
//! * LA-3 (a weight has dimensions): a map's weight is a matrix.

use std::ops::Range;

use shoal_kernels::{ArenaError, Buffer, Layout, Linear, Tag, View};
use shoal_plan::blocks::BlockTable;
use shoal_plan::ids::BlockId;

use super::Scope;
use crate::sums::Accumulator;
use crate::weights::Opened;

/// Where a map's parameters lie in its block's space: those of several maps if they are neighbours, so that one product
/// serves them all.
#[derive(Clone, Debug)]
pub(super) struct Map {
    weight: Range<usize>,
    bias: Option<Range<usize>>,
    outputs: usize,
    layout: Layout,
}

impl Map {
    /// The maps of these names, together.
    pub(super) fn of(table: &BlockTable, names: &[&str], layout: Layout) -> Self {
        let weight = joined(table, names, "weight").expect("BL-1 (a block has the parameters of its kind)");
        let last = table.param(&format!("{}.weight", names[0])).and_then(|param| param.shape.last().copied());
        let last = last.expect("LA-3 (a weight has dimensions)") as usize;
        let outputs = match layout {
            Layout::OutIn => weight.len() / last,
            Layout::InOut => last,
        };
        Self { weight, bias: joined(table, names, "bias"), outputs, layout }
    }

    /// `[rows, outputs]`
    pub(super) fn forward(
        &self,
        scope: &Scope<'_>,
        block: BlockId,
        x: &Buffer,
        tag: Tag,
    ) -> Result<Buffer, ArenaError> {
        let mut y = scope.per_row(tag, self.outputs)?;
        let parameters = self.open(scope, block)?;
        let (weight, bias) = self.parts(&parameters);
        scope.device.linear(y.view_mut(), x.view(), weight, bias, self.shape(scope));
        Ok(y)
    }

    /// `[rows, outputs]` into `hidden`, and its GELU into `activated`.
    pub(super) fn forward_gelu(
        &self,
        scope: &Scope<'_>,
        block: BlockId,
        x: &Buffer,
        (activated, hidden): (&mut Buffer, &mut Buffer),
    ) -> Result<(), ArenaError> {
        let parameters = self.open(scope, block)?;
        let out = (activated.view_mut(), hidden.view_mut());
        scope.device.linear_gelu(out, x.view(), self.parts(&parameters), self.shape(scope));
        Ok(())
    }

    /// Backward of a GELU of `hidden` and this map behind it: its output again, into `activated`, and the gradient before it.
    pub(super) fn gelu_backward(
        &self,
        scope: &Scope<'_>,
        block: BlockId,
        (activated, hidden): (&mut Buffer, &Buffer),
        dy: &Buffer,
    ) -> Result<Buffer, ArenaError> {
        let shape = self.shape(scope);
        let (mut dhidden, weight) =
            (scope.per_row(Tag::Temporary, shape.inputs)?, scope.open(block, self.weight.clone())?);
        let out = (dhidden.view_mut(), activated.view_mut());
        scope.device.linear_gelu_backward(out, hidden.view(), dy.view(), weight.view(), shape);
        Ok(dhidden)
    }

    /// Backward of a SwiGLU and this map behind it: its output again, into `activated`, and `gate_up` becomes its gradient.
    pub(super) fn swiglu_backward(
        &self,
        scope: &Scope<'_>,
        block: BlockId,
        (activated, gate_up): (&mut Buffer, &mut Buffer),
        dy: &Buffer,
    ) -> Result<(), ArenaError> {
        let shape = self.shape(scope);
        let mut dactivated = scope.per_row(Tag::Temporary, shape.inputs)?;
        let weight = scope.open(block, self.weight.clone())?;
        let out = (dactivated.view_mut(), activated.view_mut());
        scope.device.linear_swiglu_backward(out, gate_up.view_mut(), dy.view(), weight.view(), shape);
        Ok(())
    }

    /// Adds the gradients of weight and bias.
    pub(super) fn weight_gradient(&self, scope: &Scope<'_>, dy: &Buffer, x: &Buffer, into: &mut Accumulator<'_>) {
        let write = into.write;
        let part = into.part(self.weight.clone());
        scope.device.linear_weight_gradient(part, dy.view(), x.view(), self.shape(scope), write);
        if let Some(bias) = &self.bias {
            scope.device.bias_gradient(into.part(bias.clone()), dy.view(), write);
        }
    }

    /// The gradient of the input (temporary).
    pub(super) fn input_gradient(&self, scope: &Scope<'_>, block: BlockId, dy: &Buffer) -> Result<Buffer, ArenaError> {
        let shape = self.shape(scope);
        let mut dx = scope.per_row(Tag::Temporary, shape.inputs)?;
        let weight = scope.open(block, self.weight.clone())?;
        scope.device.linear_input_gradient(dx.view_mut(), dy.view(), weight.view(), shape);
        Ok(dx)
    }

    /// Weight and bias, which lies behind its weight.
    fn open<'a>(&self, scope: &Scope<'a>, block: BlockId) -> Result<Opened<'a>, ArenaError> {
        let end = self.bias.as_ref().map_or(self.weight.end, |bias| bias.end);
        scope.open(block, self.weight.start..end)
    }

    /// Weight and bias of what [`Self::open`] gave.
    fn parts<'a>(&self, opened: &'a Opened<'_>) -> (View<'a>, Option<View<'a>>) {
        let part =
            |place: &Range<usize>| opened.view().range(place.start - self.weight.start..place.end - self.weight.start);
        (part(&self.weight), self.bias.as_ref().map(part))
    }

    fn shape(&self, scope: &Scope<'_>) -> Linear {
        let inputs = self.weight.len() / self.outputs;
        Linear { rows: scope.rows(), inputs, outputs: self.outputs, layout: self.layout }
    }
}

/// Where this part of neighbouring maps lies, if they have it.
fn joined(table: &BlockTable, names: &[&str], part: &str) -> Option<Range<usize>> {
    let places = names.iter().map(|name| table.param(&format!("{name}.{part}")).map(|param| param.interval.range()));
    places.collect::<Option<Vec<_>>>()?.into_iter().reduce(|all, next| {
        assert_eq!(all.end, next.start, "LA-1 (maps of one product are neighbours): {names:?}");
        all.start..next.end
    })
}
