//! One transformer layer, pre-LayerNorm:
//!
//! ```text
//! x ─ ln_1 ─ qkv ─ attention ─ proj ─ dropout ─(+ x)─ middle ─ ln_2 ─ fc ─ gelu ─ proj ─ dropout ─(+ middle)─ y
//! ```

use std::ops::Range;
use std::sync::Arc;

use shoal_kernels::{ArenaError, Attention, Buffer, DropoutSite, Layout, Linear, Tag, Write};
use shoal_plan::blocks::BlockTable;
use shoal_plan::ids::BlockId;

use super::{Norm, Phase, Scope, range};
use crate::sums::Accumulator;

/// Where its parameters lie.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    block: BlockId,
    ln_1: Norm,
    /// q and kv together: their rows are neighbours, so one product serves both.
    qkv: Map,
    attention_proj: Map,
    ln_2: Norm,
    fc: Map,
    mlp_proj: Map,
}

/// One linear map with bias.
#[derive(Clone, Debug)]
struct Map {
    weight: Range<usize>,
    bias: Range<usize>,
    layout: Layout,
}

/// What a layer keeps for its backward pass: `10 width + heads + 4` elements a token, its input included.
pub(crate) struct LayerStash {
    /// `[rows, width]`, the layer's input.
    x: Arc<Buffer>,
    /// `[rows, 2]`
    ln_1: Buffer,
    /// `[rows, 3 width]`
    qkv: Buffer,
    /// `[rows, width]`
    attended: Buffer,
    /// `[samples, heads, context]`
    statistics: Buffer,
    /// `[rows, width]`
    middle: Buffer,
    /// `[rows, 2]`
    ln_2: Buffer,
    /// `[rows, 4 width]`, before the activation, which is computed again.
    hidden: Buffer,
}

impl Layer {
    pub(crate) fn of(table: &BlockTable) -> Self {
        let map = |name: &str, layout| Map {
            weight: range(table, &format!("{name}.weight")),
            bias: range(table, &format!("{name}.bias")),
            layout,
        };
        let (q, kv) = (map("attn.q", Layout::OutIn), map("attn.kv", Layout::OutIn));
        assert!(
            q.weight.end == kv.weight.start && q.bias.end == kv.bias.start,
            "LA-1 (q and kv are neighbours): one product serves both"
        );
        Self {
            block: table.id,
            ln_1: Norm::of(table, "ln_1"),
            qkv: Map { weight: q.weight.start..kv.weight.end, bias: q.bias.start..kv.bias.end, layout: Layout::OutIn },
            attention_proj: map("attn.proj", Layout::InOut),
            ln_2: Norm::of(table, "ln_2"),
            fc: map("mlp.fc", Layout::OutIn),
            mlp_proj: map("mlp.proj", Layout::InOut),
        }
    }

    /// The layer's output, counted as `tag`, and in training what the backward pass needs.
    pub(crate) fn forward(
        &self,
        scope: &Scope<'_>,
        x: Arc<Buffer>,
        tag: Tag,
    ) -> Result<(Buffer, Option<LayerStash>), ArenaError> {
        let (width, kept, device) = (scope.sizes.width, scope.kept(), scope.device);
        let mut ln_1 = scope.per_row(kept, 2)?;
        let qkv = {
            let normed = self.ln_1.forward(scope, self.block, &x, &mut ln_1)?;
            self.map(scope, &self.qkv, &normed, kept)?
        };
        let shape = attention(scope);
        let mut attended = scope.per_row(kept, width)?;
        let mut statistics = scope.arena.alloc(kept, shape.statistics())?;
        let dropout = scope.dropout(self.block, DropoutSite::Attention);
        device.attention(attended.view_mut(), statistics.view_mut(), qkv.view(), shape, dropout.as_ref());

        let mut middle = self.map(scope, &self.attention_proj, &attended, kept)?;
        let dropout = scope.dropout(self.block, DropoutSite::AttentionOutput);
        device.add_residual(middle.view_mut(), x.view(), dropout.as_ref());

        let mut ln_2 = scope.per_row(kept, 2)?;
        let hidden = {
            let normed = self.ln_2.forward(scope, self.block, &middle, &mut ln_2)?;
            self.map(scope, &self.fc, &normed, kept)?
        };
        let mut y = {
            let mut activated = scope.per_row(Tag::Temporary, 4 * width)?;
            device.gelu(activated.view_mut(), hidden.view());
            self.map(scope, &self.mlp_proj, &activated, tag)?
        };
        let dropout = scope.dropout(self.block, DropoutSite::MlpOutput);
        device.add_residual(y.view_mut(), middle.view(), dropout.as_ref());

        let stash = match scope.phase {
            Phase::Train { .. } => Some(LayerStash { x, ln_1, qkv, attended, statistics, middle, ln_2, hidden }),
            Phase::Evaluate => None,
        };
        Ok((y, stash))
    }

    /// Turns the gradient of the output into the gradient of the input, in place, and adds the parameters' gradient.
    pub(crate) fn backward(
        &self,
        scope: &Scope<'_>,
        stash: LayerStash,
        gradient: &mut Buffer,
        into: &mut Accumulator<'_>,
    ) -> Result<(), ArenaError> {
        let LayerStash { x, ln_1, qkv, attended, statistics, middle, ln_2, mut hidden } = stash;
        let device = scope.device;

        let mut dhidden = {
            let mut activated = scope.per_row(Tag::Temporary, 4 * scope.sizes.width)?;
            device.gelu_with_slope(activated.view_mut(), hidden.view_mut());
            self.branch_backward(scope, &self.mlp_proj, DropoutSite::MlpOutput, gradient, &activated, into)?
        };
        device.multiply_into(dhidden.view_mut(), hidden.view());
        drop(hidden);
        self.norm_and_map_backward(scope, (&self.ln_2, &self.fc), (&middle, ln_2), dhidden, gradient, into)?;
        drop(middle);

        let dattended =
            self.branch_backward(scope, &self.attention_proj, DropoutSite::AttentionOutput, gradient, &attended, into)?;
        let mut dqkv = scope.per_row(Tag::Temporary, 3 * scope.sizes.width)?;
        let dropout = scope.dropout(self.block, DropoutSite::Attention);
        device.attention_backward(
            dqkv.view_mut(),
            dattended.view(),
            (attended.view(), statistics.view(), qkv.view()),
            attention(scope),
            dropout.as_ref(),
        );
        drop((dattended, attended, statistics, qkv));
        self.norm_and_map_backward(scope, (&self.ln_1, &self.qkv), (&x, ln_1), dqkv, gradient, into)?;
        Ok(())
    }

    /// Backward of `proj` and the dropout behind it: the gradient of the projection's input.
    fn branch_backward(
        &self,
        scope: &Scope<'_>,
        proj: &Map,
        site: DropoutSite,
        gradient: &Buffer,
        input: &Buffer,
        into: &mut Accumulator<'_>,
    ) -> Result<Buffer, ArenaError> {
        let undone = match scope.dropout(self.block, site) {
            Some(dropout) => {
                let mut undone = scope.per_row(Tag::Temporary, scope.sizes.width)?;
                scope.device.dropout(undone.view_mut(), gradient.view(), &dropout);
                Some(undone)
            }
            None => None,
        };
        self.map_backward(scope, proj, undone.as_ref().unwrap_or(gradient), input, into)
    }

    /// Backward of a LayerNorm and the map behind it; the LayerNorm's input gradient is added to `gradient`, where the
    /// residual's already is.
    fn norm_and_map_backward(
        &self,
        scope: &Scope<'_>,
        (norm, map): (&Norm, &Map),
        (x, mut stats): (&Buffer, Buffer),
        dy: Buffer,
        gradient: &mut Buffer,
        into: &mut Accumulator<'_>,
    ) -> Result<(), ArenaError> {
        let dnormed = {
            let normed = norm.forward(scope, self.block, x, &mut stats)?;
            self.map_backward(scope, map, &dy, &normed, into)?
        };
        drop(dy);
        norm.backward(scope, self.block, (gradient, Write::Add), &dnormed, (x, &stats), into);
        Ok(())
    }

    fn map(&self, scope: &Scope<'_>, map: &Map, x: &Buffer, tag: Tag) -> Result<Buffer, ArenaError> {
        let mut y = scope.per_row(tag, map.bias.len())?;
        let weight = scope.weights.view(self.block, map.weight.clone());
        let bias = scope.weights.view(self.block, map.bias.clone());
        scope.device.linear(y.view_mut(), x.view(), weight, Some(bias), map.shape(scope));
        Ok(y)
    }

    /// Adds the gradients of weight and bias; gives the gradient of the input.
    fn map_backward(
        &self,
        scope: &Scope<'_>,
        map: &Map,
        dy: &Buffer,
        x: &Buffer,
        into: &mut Accumulator<'_>,
    ) -> Result<Buffer, ArenaError> {
        let (shape, write) = (map.shape(scope), into.write);
        scope.device.linear_weight_gradient(into.part(map.weight.clone()), dy.view(), x.view(), shape, write);
        scope.device.bias_gradient(into.part(map.bias.clone()), dy.view(), write);
        let mut dx = scope.per_row(Tag::Temporary, shape.inputs)?;
        let weight = scope.weights.view(self.block, map.weight.clone());
        scope.device.linear_input_gradient(dx.view_mut(), dy.view(), weight, shape);
        Ok(dx)
    }
}

impl Map {
    fn shape(&self, scope: &Scope<'_>) -> Linear {
        let outputs = self.bias.len();
        Linear { rows: scope.rows(), inputs: self.weight.len() / outputs, outputs, layout: self.layout }
    }
}

fn attention(scope: &Scope<'_>) -> Attention {
    let sizes = scope.sizes;
    Attention {
        samples: scope.samples.len(),
        positions: sizes.context,
        heads: sizes.heads,
        kv_heads: sizes.heads,
        size: sizes.width / sizes.heads,
    }
}
