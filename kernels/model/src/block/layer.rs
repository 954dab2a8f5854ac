//! One transformer layer, its norms first; of a Llama, queries and keys are turned by their positions:
//!
//! ```text
//! x ─ norm ─ qkv (─ rope) ─ attention ─ proj ─ dropout ─(+ x)─ middle ─ norm ─ hidden ─ activation ─ proj ─ dropout ─(+ middle)─ y
//! ```
//!
//! LA-2 (hidden values are the layer's alone): they are kept by it, or made again, and given to nobody.

use std::sync::Arc;

use shoal_config::spec::ModelSpec;
use shoal_kernels::{ArenaError, Attention, Buffer, DropoutSite, Layout, Tag, Write};
use shoal_plan::blocks::BlockTable;
use shoal_plan::ids::BlockId;

use super::map::Map;
use super::{Norm, Phase, Scope};
use crate::stored::Kept;
use crate::sums::Accumulator;

/// Where its parameters lie.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    block: BlockId,
    norm_1: Norm,
    /// q and kv together.
    qkv: Map,
    attention_proj: Map,
    norm_2: Norm,
    /// Into the MLP: of SwiGLU, gate and up together.
    hidden: Map,
    activation: Activation,
    mlp_proj: Map,
}

/// What is done inside the MLP.
#[derive(Clone, Copy, Debug)]
enum Activation {
    /// `gelu(hidden)`, the tanh form.
    Gelu,
    /// `silu(gate) up`; hidden is both.
    SwiGlu,
}

/// What a layer keeps for its backward pass, its input included; `shoal_plan::memory` has the formula.
pub(crate) struct LayerStash {
    /// `[rows, width]`, the layer's input.
    x: Kept,
    /// `[rows, statistics]`
    norm_1: Buffer,
    /// `[rows, queries + keys + values]`, turned.
    qkv: Kept,
    /// `[rows, queries]`
    attended: Kept,
    /// `[samples, heads, context]`
    statistics: Buffer,
    /// `[rows, width]`
    middle: Kept,
    /// `[rows, statistics]`
    norm_2: Buffer,
    /// `[rows, inner]`, or twice that of SwiGLU, before the activation, which is computed again.
    hidden: Kept,
}

impl Layer {
    pub(crate) fn of(table: &BlockTable, model: &ModelSpec) -> Self {
        let map = |names: &[&str], layout| Map::of(table, names, layout);
        let (norms, hidden, activation, mlp_proj) = match model {
            ModelSpec::Gpt2(_) => (["ln_1", "ln_2"], &["mlp.fc"][..], Activation::Gelu, "mlp.proj"),
            ModelSpec::Llama(_) => (["norm_1", "norm_2"], &["mlp.gate", "mlp.up"][..], Activation::SwiGlu, "mlp.down"),
        };
        let [norm_1, norm_2] = norms.map(|name| Norm::of(table, model, name));
        Self {
            block: table.id,
            norm_1,
            qkv: map(&["attn.q", "attn.kv"], Layout::OutIn),
            attention_proj: map(&["attn.proj"], Layout::InOut),
            norm_2,
            hidden: map(hidden, Layout::OutIn),
            activation,
            mlp_proj: map(&[mlp_proj], Layout::InOut),
        }
    }

    /// The layer's output, counted as `tag`, and in training what the backward pass needs.
    pub(crate) fn forward(
        &self,
        scope: &Scope<'_>,
        x: Arc<Buffer>,
        tag: Tag,
    ) -> Result<(Buffer, Option<LayerStash>), ArenaError> {
        let (kept, wide, device) = (scope.kept(), scope.wide(), scope.device);
        let mut norm_1 = scope.per_row(kept, self.norm_1.statistics())?;
        let mut qkv = {
            let normed = self.norm_1.forward(scope, self.block, &x, &mut norm_1)?;
            self.qkv.forward(scope, self.block, &normed, wide)?
        };
        let shape = attention(scope);
        if let Some(table) = scope.rotary {
            let first = scope.first() * shape.size;
            device.rope(qkv.view_mut(), table.view().range(first..table.len()), shape);
        }
        scope.round(&mut qkv);
        let mut attended = scope.per_row(wide, shape.width())?;
        let mut statistics = scope.arena.alloc(kept, shape.statistics())?;
        let dropout = scope.dropout(self.block, DropoutSite::Attention);
        let out = (attended.view_mut(), statistics.view_mut());
        match scope.cache {
            Some(cache) => cache.attend(device, self.block, out, qkv.view(), shape),
            None => device.attention(out.0, out.1, qkv.view(), shape, dropout.as_ref()),
        }
        let qkv = scope.keep(Arc::new(qkv))?;
        scope.round(&mut attended);

        let mut middle = self.attention_proj.forward(scope, self.block, &attended, wide)?;
        let attended = scope.keep(Arc::new(attended))?;
        let dropout = scope.dropout(self.block, DropoutSite::AttentionOutput);
        device.add_residual(middle.view_mut(), x.view(), dropout.as_ref());
        let x = scope.keep(x)?;
        scope.round(&mut middle);

        let mut norm_2 = scope.per_row(kept, self.norm_2.statistics())?;
        let (hidden, mut y) = {
            let normed = self.norm_2.forward(scope, self.block, &middle, &mut norm_2)?;
            let (hidden, activated) = self.activate(scope, normed)?;
            (hidden, self.mlp_proj.forward(scope, self.block, &activated, tag)?)
        };
        let hidden = scope.keep(Arc::new(hidden))?;
        let dropout = scope.dropout(self.block, DropoutSite::MlpOutput);
        device.add_residual(y.view_mut(), middle.view(), dropout.as_ref());
        let middle = scope.keep(Arc::new(middle))?;

        let stash = match scope.phase {
            Phase::Train { .. } => Some(LayerStash { x, norm_1, qkv, attended, statistics, middle, norm_2, hidden }),
            Phase::Evaluate => None,
        };
        Ok((y, stash))
    }

    /// What the MLP's first product gives, and the activation of it.
    fn activate(&self, scope: &Scope<'_>, normed: Buffer) -> Result<(Buffer, Buffer), ArenaError> {
        let (device, inner, wide) = (scope.device, scope.sizes.inner, scope.wide());
        match self.activation {
            // What is rounded between the two has to be complete before.
            Activation::Gelu if !scope.sizes.stored.is_rounded() => {
                let (mut hidden, mut activated) = (scope.per_row(wide, inner)?, scope.per_row(Tag::Temporary, inner)?);
                self.hidden.forward_gelu(scope, self.block, &normed, (&mut activated, &mut hidden))?;
                Ok((hidden, activated))
            }
            Activation::Gelu | Activation::SwiGlu => {
                let mut hidden = self.hidden.forward(scope, self.block, &normed, wide)?;
                drop(normed);
                scope.round(&mut hidden);
                let mut activated = scope.per_row(Tag::Temporary, inner)?;
                match self.activation {
                    Activation::Gelu => device.gelu(activated.view_mut(), hidden.view()),
                    Activation::SwiGlu => device.swiglu(activated.view_mut(), hidden.view(), inner),
                }
                Ok((hidden, activated))
            }
        }
    }

    /// Turns the gradient of the output into the gradient of the input, in place, and adds the parameters' gradient.
    pub(crate) fn backward(
        &self,
        scope: &Scope<'_>,
        stash: LayerStash,
        gradient: &mut Buffer,
        into: &mut Accumulator<'_>,
    ) -> Result<(), ArenaError> {
        let LayerStash { x, norm_1, qkv, attended, statistics, middle, norm_2, hidden } = stash;
        let device = scope.device;

        let dhidden = self.mlp_backward(scope, hidden, gradient, into)?;
        let middle = middle.open(scope)?;
        self.norm_and_map_backward(scope, (&self.norm_2, &self.hidden), (&middle, norm_2), dhidden, gradient, into)?;
        drop(middle);

        let attended = attended.open(scope)?;
        let dattended = {
            let undone = self.undropped(scope, DropoutSite::AttentionOutput, gradient)?;
            let dy = undone.as_ref().unwrap_or(gradient);
            self.attention_proj.weight_gradient(scope, dy, &attended, into);
            self.attention_proj.input_gradient(scope, self.block, dy)?
        };
        let shape = attention(scope);
        let qkv = qkv.open(scope)?;
        let mut dqkv = scope.per_row(Tag::Temporary, shape.packed())?;
        let dropout = scope.dropout(self.block, DropoutSite::Attention);
        device.attention_backward(
            dqkv.view_mut(),
            dattended.view(),
            (attended.view(), statistics.view(), qkv.view()),
            shape,
            dropout.as_ref(),
        );
        drop((dattended, attended, statistics, qkv));
        if let Some(table) = scope.rotary {
            device.rope_backward(dqkv.view_mut(), table.view(), shape);
        }
        self.norm_and_map_backward(scope, (&self.norm_1, &self.qkv), (&*x.open(scope)?, norm_1), dqkv, gradient, into)
    }

    /// Backward of the MLP from its output to what its first product gave, whose gradient it returns.
    fn mlp_backward(
        &self,
        scope: &Scope<'_>,
        hidden: Kept,
        gradient: &Buffer,
        into: &mut Accumulator<'_>,
    ) -> Result<Buffer, ArenaError> {
        let undone = self.undropped(scope, DropoutSite::MlpOutput, gradient)?;
        let dy = undone.as_ref().unwrap_or(gradient);
        let mut activated = scope.per_row(Tag::Temporary, scope.sizes.inner)?;
        let hidden = hidden.open(scope)?;
        let dhidden = match self.activation {
            Activation::Gelu => self.mlp_proj.gelu_backward(scope, self.block, (&mut activated, &hidden), dy)?,
            Activation::SwiGlu => {
                let mut packed = Arc::into_inner(hidden).expect("LA-2 (hidden values are the layer's alone)");
                self.mlp_proj.swiglu_backward(scope, self.block, (&mut activated, &mut packed), dy)?;
                packed
            }
        };
        self.mlp_proj.weight_gradient(scope, dy, &activated, into);
        Ok(dhidden)
    }

    /// The gradient before a dropout, if the site drops anything.
    fn undropped(&self, scope: &Scope<'_>, site: DropoutSite, gradient: &Buffer) -> Result<Option<Buffer>, ArenaError> {
        let Some(dropout) = scope.dropout(self.block, site) else { return Ok(None) };
        let mut undone = scope.per_row(Tag::Temporary, scope.sizes.width)?;
        scope.device.dropout(undone.view_mut(), gradient.view(), &dropout);
        Ok(Some(undone))
    }

    /// Backward of a norm and the map behind it; the norm's input gradient is added to `gradient`, where the residual's already
    /// is.
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
            map.weight_gradient(scope, &dy, &normed, into);
            map.input_gradient(scope, self.block, &dy)?
        };
        drop(dy);
        norm.backward(scope, self.block, (gradient, Write::Add), &dnormed, (x, &stats), into)
    }
}

fn attention(scope: &Scope<'_>) -> Attention {
    let sizes = scope.sizes;
    Attention {
        samples: scope.samples.len(),
        positions: sizes.context,
        heads: sizes.heads,
        kv_heads: sizes.kv_heads,
        size: sizes.head_size,
    }
}
