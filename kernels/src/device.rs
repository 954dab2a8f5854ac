//! A device as the model sees it: operations on views, and one queue.
//!
//! Every operation is complete when its method returns as far as later operations of the same device are concerned; what the
//! host reads with [`View::host_visible`] is complete when the [`Queue`] reports the job done. Shapes that do not fit
//! are broken invariants of the caller and panic.

mod dropout;
mod half;
mod mlp;
mod optimizer;
mod queue;
mod rope;
mod shape;
mod update;

pub use dropout::{Dropout, DropoutKey, DropoutSite};
pub use optimizer::{Adafactor, Adam, Decay, Factors, Momentum, RmsProp, Sgd, Squares};
pub use queue::{JobPanic, Queue};
pub use rope::{Rotary, RotaryScaling};
pub use shape::{Attention, IGNORE, Layout, Linear, LossSum, NormParams, SquareSum, Write};

use std::ops::Range;

use shoal_exact::Arithmetic;

use crate::arena::{Arena, ArenaError, View, ViewMut};
use crate::cpu::{Class, CpuDevice};

/// Something that computes, for one user at a time: the [`Queue`] that owns it, or the thread that made it.
#[derive(Debug)]
pub enum Device {
    /// Processor cores.
    Cpu(CpuDevice),
}

impl Device {
    /// A processor device of `threads` threads; its scratch memory comes from `arena`.
    ///
    /// # Errors
    /// If the arena has no room for the scratch.
    pub fn cpu(threads: usize, arena: &Arena) -> Result<Self, ArenaError> {
        CpuDevice::new(threads, arena).map(Self::Cpu)
    }

    /// As [`Self::cpu`], of a class that is [here](Class::here).
    ///
    /// # Errors
    /// As [`Self::cpu`].
    pub fn cpu_of(class: Class, threads: usize, arena: &Arena) -> Result<Self, ArenaError> {
        CpuDevice::of_class(threads, arena, class).map(Self::Cpu)
    }

    /// A processor device of one thread, and of a class that is [here](Class::here), for state that is only updated, copied, added
    /// and rounded; it takes no memory for itself.
    #[must_use]
    pub fn for_updates(class: Class) -> Self {
        Self::Cpu(CpuDevice::for_updates(class))
    }

    /// Instruction-set class, e.g. `avx512`.
    #[must_use]
    pub fn class(&self) -> &'static str {
        match self {
            Self::Cpu(cpu) => cpu.class().name(),
        }
    }

    /// What its matrix products compute.
    #[must_use]
    pub fn arithmetic(&self) -> Arithmetic {
        match self {
            Self::Cpu(cpu) => cpu.class().arithmetic(),
        }
    }

    /// Runs `body` where the device's operations are cheapest to start: on its own threads.
    pub fn enter<T: Send>(&self, body: impl FnOnce() -> T + Send) -> T {
        match self {
            Self::Cpu(cpu) => cpu.enter(body),
        }
    }

    /// Copies from host memory.
    pub fn upload(&self, dst: ViewMut<'_>, src: &[f32]) {
        match self {
            Self::Cpu(cpu) => cpu.copy(dst.into_host(), src),
        }
    }

    /// Writes values that the host makes: `make(range, values)` is called on the device's threads for runs that together cover
    /// `dst`.
    pub fn upload_with(&self, dst: ViewMut<'_>, make: impl Fn(Range<usize>, &mut [f32]) + Sync) {
        match self {
            Self::Cpu(cpu) => cpu.make(dst.into_host(), make),
        }
    }

    /// Copies to host memory.
    pub fn download(&self, dst: &mut [f32], src: View<'_>) {
        match self {
            Self::Cpu(cpu) => cpu.copy(dst, src.host()),
        }
    }

    /// `dst = value`.
    pub fn fill(&self, dst: ViewMut<'_>, value: f32) {
        match self {
            Self::Cpu(cpu) => cpu.fill(dst.into_host(), value),
        }
    }

    /// `dst = src`.
    pub fn copy(&self, dst: ViewMut<'_>, src: View<'_>) {
        match self {
            Self::Cpu(cpu) => cpu.copy(dst.into_host(), src.host()),
        }
    }

    /// `dst = dst + src`: one f32 addition an element.
    pub fn add_into(&self, dst: ViewMut<'_>, src: View<'_>) {
        match self {
            Self::Cpu(cpu) => cpu.add_into(dst.into_host(), src.host()),
        }
    }

    /// `y [rows, outputs] = x [rows, inputs] W + bias`, with the weight in either layout.
    pub fn linear(&self, y: ViewMut<'_>, x: View<'_>, weight: View<'_>, bias: Option<View<'_>>, shape: Linear) {
        match self {
            Self::Cpu(cpu) => cpu.linear(y.into_host(), x.host(), weight.host(), bias.map(View::host), shape),
        }
    }

    /// `dx [rows, inputs]` from `dy [rows, outputs]`.
    pub fn linear_input_gradient(&self, dx: ViewMut<'_>, dy: View<'_>, weight: View<'_>, shape: Linear) {
        match self {
            Self::Cpu(cpu) => cpu.linear_input_gradient(dx.into_host(), dy.host(), weight.host(), shape),
        }
    }

    /// `dW`, in the weight's layout, from `dy [rows, outputs]` and `x [rows, inputs]`.
    pub fn linear_weight_gradient(&self, dw: ViewMut<'_>, dy: View<'_>, x: View<'_>, shape: Linear, write: Write) {
        match self {
            Self::Cpu(cpu) => cpu.linear_weight_gradient(dw.into_host(), dy.host(), x.host(), shape, write),
        }
    }

    /// `dbias [width] = column sums of dy [rows, width]`.
    pub fn bias_gradient(&self, dbias: ViewMut<'_>, dy: View<'_>, write: Write) {
        match self {
            Self::Cpu(cpu) => cpu.bias_gradient(dbias.into_host(), dy.host(), write),
        }
    }

    /// LayerNorm over rows of `gamma.len()` elements; `stats [rows, 2]` gets mean and reciprocal deviation.
    pub fn layer_norm(&self, y: ViewMut<'_>, stats: ViewMut<'_>, x: View<'_>, params: NormParams<'_>) {
        match self {
            Self::Cpu(cpu) => cpu.layer_norm(
                y.into_host(),
                stats.into_host(),
                x.host(),
                (params.gamma.host(), params.beta.map(View::host)),
                params.epsilon,
            ),
        }
    }

    /// Gradients of [`Self::layer_norm`]. `dx` (written as its `Write` says, so a residual's gradient can be in it already), and
    /// `dgamma`, `dbeta` (written as theirs says) from `dy`, the input `x` and its `stats`.
    pub fn layer_norm_backward(
        &self,
        dx: (ViewMut<'_>, Write),
        (dgamma, dbeta, write): (ViewMut<'_>, Option<ViewMut<'_>>, Write),
        dy: View<'_>,
        (x, stats): (View<'_>, View<'_>),
        gamma: View<'_>,
    ) {
        match self {
            Self::Cpu(cpu) => cpu.layer_norm_backward(
                (dx.0.into_host(), dx.1),
                (dgamma.into_host(), dbeta.map(ViewMut::into_host), write),
                dy.host(),
                (x.host(), stats.host()),
                gamma.host(),
            ),
        }
    }

    /// RMSNorm over rows of `gamma.len()` elements, `y = gamma (x / rms)` with `rms^2 = mean(x^2) + epsilon`; `stats [rows]` gets
    /// `1 / rms`.
    pub fn rms_norm(&self, y: ViewMut<'_>, stats: ViewMut<'_>, x: View<'_>, gamma: View<'_>, epsilon: f32) {
        match self {
            Self::Cpu(cpu) => cpu.rms_norm(y.into_host(), stats.into_host(), x.host(), gamma.host(), epsilon),
        }
    }

    /// Gradients of [`Self::rms_norm`]: `dx` and `dgamma`, each written as its `Write` says, from `dy`, the input `x` and its
    /// `stats`.
    pub fn rms_norm_backward(
        &self,
        dx: (ViewMut<'_>, Write),
        dgamma: (ViewMut<'_>, Write),
        dy: View<'_>,
        (x, stats): (View<'_>, View<'_>),
        gamma: View<'_>,
    ) {
        match self {
            Self::Cpu(cpu) => cpu.rms_norm_backward(
                (dx.0.into_host(), dx.1),
                (dgamma.0.into_host(), dgamma.1),
                dy.host(),
                (x.host(), stats.host()),
                gamma.host(),
            ),
        }
    }

    /// Causal self-attention: `y [tokens, width]` and `statistics [samples, heads, positions]` (log-sum-exp of scaled scores)
    /// from the packed `qkv [tokens, packed]`, with dropout on the probabilities.
    pub fn attention(
        &self,
        y: ViewMut<'_>,
        statistics: ViewMut<'_>,
        qkv: View<'_>,
        shape: Attention,
        dropout: Option<&Dropout<'_>>,
    ) {
        match self {
            Self::Cpu(cpu) => cpu.attention(y.into_host(), statistics.into_host(), qkv.host(), shape, dropout),
        }
    }

    /// `dqkv` of [`Self::attention`] from `dy`, its output `y`, its `statistics` and its input, with the same dropout.
    pub fn attention_backward(
        &self,
        dqkv: ViewMut<'_>,
        dy: View<'_>,
        (y, statistics, qkv): (View<'_>, View<'_>, View<'_>),
        shape: Attention,
        dropout: Option<&Dropout<'_>>,
    ) {
        match self {
            Self::Cpu(cpu) => cpu.attention_backward(
                dqkv.into_host(),
                dy.host(),
                (y.host(), statistics.host(), qkv.host()),
                shape,
                dropout,
            ),
        }
    }

    /// Attention of one new token a sequence: `y [samples, width]` from its packed row in `qkv [samples, packed]` and the cache
    /// `[samples, positions, cached]`, of which each sequence has the first `lengths[sample]` rows, its own last. A row of the
    /// cache is the key and value part of a packed row. The bits are those of that token's row in [`Self::attention`] over the
    /// whole sequence.
    pub fn attention_decode(
        &self,
        y: ViewMut<'_>,
        qkv: View<'_>,
        cache: View<'_>,
        lengths: &[usize],
        shape: Attention,
    ) {
        match self {
            Self::Cpu(cpu) => cpu.attention_decode(y.into_host(), qkv.host(), cache.host(), lengths, shape),
        }
    }

    /// `branch = residual + dropout(branch)`, in place.
    pub fn add_residual(&self, branch: ViewMut<'_>, residual: View<'_>, dropout: Option<&Dropout<'_>>) {
        match self {
            Self::Cpu(cpu) => cpu.add_residual(branch.into_host(), residual.host(), dropout),
        }
    }

    /// `dst = dropout(src)`: also its own backward pass.
    pub fn dropout(&self, dst: ViewMut<'_>, src: View<'_>, dropout: &Dropout<'_>) {
        match self {
            Self::Cpu(cpu) => cpu.dropout(dst.into_host(), src.host(), dropout),
        }
    }

    /// `y [tokens, width] = dropout(wte[token] + wpe[position])`, without the position if there is no such table; tokens are
    /// `[samples, positions]`.
    pub fn embedding(
        &self,
        y: ViewMut<'_>,
        tokens: &[u32],
        (wte, wpe): (View<'_>, Option<View<'_>>),
        positions: usize,
        dropout: Option<&Dropout<'_>>,
    ) {
        match self {
            Self::Cpu(cpu) => {
                cpu.embedding(y.into_host(), tokens, (wte.host(), wpe.map(View::host)), positions, dropout)
            }
        }
    }

    /// Gradients of the tables, `dwte [vocab, width]` and `dwpe [at least positions, width]` if there is one, whole, from
    /// `dy [tokens, width]` (dropout already undone).
    pub fn embedding_backward(
        &self,
        (dwte, dwpe): (ViewMut<'_>, Option<ViewMut<'_>>),
        dy: View<'_>,
        tokens: &[u32],
        positions: usize,
        write: Write,
    ) {
        match self {
            Self::Cpu(cpu) => {
                let tables = (dwte.into_host(), dwpe.map(ViewMut::into_host));
                cpu.embedding_backward(tables, dy.host(), tokens, positions, write);
            }
        }
    }

    /// Softmax cross-entropy: the summed loss; `logits [tokens, vocab]` become its gradient times `seed`.
    pub fn cross_entropy(&self, logits: ViewMut<'_>, targets: &[u32], seed: f32) -> LossSum {
        match self {
            Self::Cpu(cpu) => cpu.cross_entropy(logits.into_host(), targets, seed),
        }
    }

    /// The summed loss alone; bits as [`Self::cross_entropy`].
    pub fn cross_entropy_loss(&self, logits: View<'_>, targets: &[u32]) -> LossSum {
        match self {
            Self::Cpu(cpu) => cpu.cross_entropy_loss(logits.host(), targets),
        }
    }

    /// Sum of squares, exact over chunks of 16 elements from the view's start: views must start at chunk edges of their
    /// block's space.
    pub fn sum_of_squares(&self, x: View<'_>) -> SquareSum {
        match self {
            Self::Cpu(cpu) => cpu.sum_of_squares(x.host()),
        }
    }
}
