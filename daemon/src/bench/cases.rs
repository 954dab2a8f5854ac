//! The operations of a training step, each with its work and its operands.

mod half;
mod llama;
mod mlp;

use half::{pack, round, unpack};
use llama::{rms_norm, rms_norm_backward, rope};
use mlp::{gelu, linear_gelu, linear_gelu_backward, linear_swiglu_backward, swiglu};
use shoal_kernels::{
    Adam, Arena, ArenaError, Attention, Buffer, Decay, Device, Dropout, DropoutKey, DropoutSite, Layout, Linear,
    NormParams, Tag, Write,
};

/// Sizes of a model and its micro-batch.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub(super) samples: usize,
    pub(super) positions: usize,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    /// Elements of a head.
    pub(super) size: usize,
    pub(super) width: usize,
    /// Width inside the MLP.
    pub(super) inner: usize,
    /// What the MLP's first product gives: of SwiGLU, gate and up.
    pub(super) hidden: usize,
    pub(super) vocab: usize,
}

/// What one run of an operation has to do at least.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Work {
    /// Floating-point operations of a matrix product.
    Product(f64),
    /// Floating-point operations of anything else.
    Flop(f64),
    /// Bytes read and written, each operand once.
    Bytes(f64),
}

impl Work {
    /// In 10^9 a second.
    pub(super) fn rate(self, seconds: f64) -> f64 {
        let (Self::Product(amount) | Self::Flop(amount) | Self::Bytes(amount)) = self;
        1e-9 * amount / seconds
    }
}

/// An operation with its operands.
pub(super) type Run = Box<dyn FnMut(&Device) + Send>;
/// Makes the operands.
type Prepare = Box<dyn Fn(&Device, &Arena) -> Result<Run, ArenaError>>;

/// One operation at one size.
pub(super) struct Case {
    pub(super) kernel: &'static str,
    pub(super) size: String,
    pub(super) work: Work,
    pub(super) prepare: Prepare,
}

/// Of the dropout that is measured.
const PROBABILITY: f32 = 0.1;

/// Every operation at the sizes of a model, in the order of a step.
pub(super) fn cases(s: Sizes) -> Vec<Case> {
    let (rows, width, vocab, inner) = (s.samples * s.positions, s.width, s.vocab, s.inner);
    let Sizes { samples, positions, heads, kv_heads, size, .. } = s;
    let attention = Attention { samples, positions, heads, kv_heads, size };
    let mut all = vec![embedding(s), layer_norm(rows, width), layer_norm_backward(rows, width)];
    let maps = [
        (width, attention.packed(), Layout::OutIn),
        (attention.width(), width, Layout::InOut),
        (width, s.hidden, Layout::OutIn),
        (s.inner, width, Layout::InOut),
        (width, vocab, Layout::OutIn),
    ];
    for (inputs, outputs, layout) in maps {
        let shape = Linear { rows, inputs, outputs, layout };
        all.extend([linear(shape), linear_input_gradient(shape), linear_weight_gradient(shape)]);
    }
    all.push(bias_gradient(rows, s.hidden));
    all.extend([attention_forward(attention), attention_backward(attention)]);
    all.extend([rms_norm(rows, width), rms_norm_backward(rows, width), rope(attention)]);
    let out = Linear { rows, inputs: inner, outputs: width, layout: Layout::InOut };
    let into = Linear { rows, inputs: width, outputs: inner, layout: Layout::OutIn };
    all.extend([swiglu(rows, inner), linear_swiglu_backward(out)]);
    all.extend([gelu(rows, inner), linear_gelu(into), linear_gelu_backward(out)]);
    all.extend([add_residual(rows, width), dropout(s)]);
    all.extend([cross_entropy(rows, vocab), cross_entropy_loss(rows, vocab), embedding_backward(s)]);
    let layer = width * (attention.width() + attention.packed() + s.hidden + inner);
    all.extend([round(layer), pack(layer), unpack(layer)]);
    all.extend([add_into(layer), sum_of_squares(layer), adamw(layer)]);
    all
}

fn case(
    kernel: &'static str,
    size: String,
    work: Work,
    prepare: impl Fn(&Device, &Arena) -> Result<Run, ArenaError> + 'static,
) -> Case {
    Case { kernel, size, work, prepare: Box::new(prepare) }
}

/// Small values, none of them zero or subnormal.
fn buffer(device: &Device, arena: &Arena, elements: usize) -> Result<Buffer, ArenaError> {
    let mut buffer = arena.alloc(Tag::Temporary, elements)?;
    let values: Vec<f32> = (0..elements).map(|i| ((i * 2_654_435_761) % 1009) as f32 / 1009.0 - 0.498).collect();
    device.upload(buffer.view_mut(), &values);
    Ok(buffer)
}

fn buffers<const N: usize>(device: &Device, arena: &Arena, elements: [usize; N]) -> Result<[Buffer; N], ArenaError> {
    let all = elements.into_iter().map(|n| buffer(device, arena, n)).collect::<Result<Vec<_>, _>>()?;
    Ok(all.try_into().unwrap_or_else(|_| unreachable!("BE-1 (as many buffers as sizes)")))
}

fn tokens(count: usize, vocab: usize) -> Vec<u32> {
    (0..count).map(|i| ((i * 40_503) % vocab) as u32).collect()
}

/// Bytes of `streams` passes over `elements`.
fn passes(streams: usize, elements: usize) -> Work {
    Work::Bytes((4 * streams * elements) as f64)
}

fn linear_case(
    kernel: &'static str,
    shape: Linear,
    run: impl Fn(&Device, &mut [Buffer; 3]) + Clone + Send + 'static,
) -> Case {
    let Linear { rows, inputs, outputs, .. } = shape;
    let work = Work::Product(2.0 * (rows * inputs * outputs) as f64);
    case(kernel, format!("{rows} x {inputs} -> {outputs}"), work, move |device, arena| {
        let mut operands = buffers(device, arena, [rows * inputs, inputs * outputs, rows * outputs])?;
        let run = run.clone();
        Ok(Box::new(move |device| run(device, &mut operands)))
    })
}

fn linear(shape: Linear) -> Case {
    linear_case("linear", shape, move |device, [x, weight, y]| {
        device.linear(y.view_mut(), x.view(), weight.view(), None, shape);
    })
}

fn linear_input_gradient(shape: Linear) -> Case {
    linear_case("linear_input_gradient", shape, move |device, [x, weight, y]| {
        device.linear_input_gradient(x.view_mut(), y.view(), weight.view(), shape);
    })
}

fn linear_weight_gradient(shape: Linear) -> Case {
    linear_case("linear_weight_gradient", shape, move |device, [x, weight, y]| {
        device.linear_weight_gradient(weight.view_mut(), y.view(), x.view(), shape, Write::Overwrite);
    })
}

fn bias_gradient(rows: usize, width: usize) -> Case {
    case("bias_gradient", format!("{rows} x {width}"), passes(1, rows * width), move |device, arena| {
        let [dy, mut bias] = buffers(device, arena, [rows * width, width])?;
        Ok(Box::new(move |device| device.bias_gradient(bias.view_mut(), dy.view(), Write::Overwrite)))
    })
}

fn layer_norm(rows: usize, width: usize) -> Case {
    case("layer_norm", format!("{rows} x {width}"), passes(2, rows * width), move |device, arena| {
        let [x, mut y, mut stats] = buffers(device, arena, [rows * width, rows * width, 2 * rows])?;
        let [gamma, beta] = buffers(device, arena, [width; 2])?;
        Ok(Box::new(move |device| {
            let params = NormParams { gamma: gamma.view(), beta: Some(beta.view()), epsilon: 1e-5 };
            device.layer_norm(y.view_mut(), stats.view_mut(), x.view(), params);
        }))
    })
}

fn layer_norm_backward(rows: usize, width: usize) -> Case {
    case("layer_norm_backward", format!("{rows} x {width}"), passes(3, rows * width), move |device, arena| {
        let [x, dy, mut dx, stats] = buffers(device, arena, [rows * width, rows * width, rows * width, 2 * rows])?;
        let [gamma, mut dgamma, mut dbeta] = buffers(device, arena, [width; 3])?;
        Ok(Box::new(move |device| {
            device.layer_norm_backward(
                (dx.view_mut(), Write::Overwrite),
                (dgamma.view_mut(), Some(dbeta.view_mut()), Write::Overwrite),
                dy.view(),
                (x.view(), stats.view()),
                gamma.view(),
            );
        }))
    })
}

fn named(shape: Attention) -> String {
    let Attention { samples, positions, heads, kv_heads: _, size } = shape;
    format!("{samples} x {positions}, {heads} heads of {size}")
}

/// Two products over the full square; the causal half that need not be computed is not taken off.
fn attention_forward(shape: Attention) -> Case {
    let work = Work::Flop((4 * shape.statistics() * shape.positions * shape.size) as f64);
    let tokens = shape.samples * shape.positions;
    let elements = [tokens * shape.packed(), tokens * shape.width(), shape.statistics()];
    case("attention", named(shape), work, move |device, arena| {
        let [qkv, mut y, mut stats] = buffers(device, arena, elements)?;
        Ok(Box::new(move |device| device.attention(y.view_mut(), stats.view_mut(), qkv.view(), shape, None)))
    })
}

/// Four products; the one that is computed again is not counted.
fn attention_backward(shape: Attention) -> Case {
    let work = Work::Flop((8 * shape.statistics() * shape.positions * shape.size) as f64);
    let tokens = shape.samples * shape.positions;
    let [packed, width] = [shape.packed(), shape.width()].map(|row| tokens * row);
    case("attention_backward", named(shape), work, move |device, arena| {
        let [qkv, mut y, mut stats] = buffers(device, arena, [packed, width, shape.statistics()])?;
        let [dy, mut dqkv] = buffers(device, arena, [width, packed])?;
        device.attention(y.view_mut(), stats.view_mut(), qkv.view(), shape, None);
        Ok(Box::new(move |device| {
            let saved = (y.view(), stats.view(), qkv.view());
            device.attention_backward(dqkv.view_mut(), dy.view(), saved, shape, None);
        }))
    })
}

fn add_residual(rows: usize, width: usize) -> Case {
    case("add_residual", format!("{rows} x {width}"), passes(3, rows * width), move |device, arena| {
        let [residual, mut branch] = buffers(device, arena, [rows * width; 2])?;
        Ok(Box::new(move |device| device.add_residual(branch.view_mut(), residual.view(), None)))
    })
}

fn dropout(s: Sizes) -> Case {
    let (rows, width) = (s.samples * s.positions, s.width);
    case("dropout", format!("{rows} x {width}"), passes(2, rows * width), move |device, arena| {
        let [src, mut dst] = buffers(device, arena, [rows * width; 2])?;
        let samples = vec![7; s.samples];
        Ok(Box::new(move |device| {
            let key = DropoutKey { seed: 1, step: 1, block: 1, site: DropoutSite::MlpOutput };
            let dropout = Dropout { key, probability: PROBABILITY, samples: &samples };
            device.dropout(dst.view_mut(), src.view(), &dropout);
        }))
    })
}

fn embedding(s: Sizes) -> Case {
    let (rows, width, vocab) = (s.samples * s.positions, s.width, s.vocab);
    case("embedding", format!("{rows} x {width}"), passes(3, rows * width), move |device, arena| {
        let [wte, wpe, mut y] = buffers(device, arena, [vocab * width, s.positions * width, rows * width])?;
        let tokens = tokens(rows, vocab);
        Ok(Box::new(move |device| {
            device.embedding(y.view_mut(), &tokens, (wte.view(), Some(wpe.view())), s.positions, None);
        }))
    })
}

/// Both tables are written whole.
fn embedding_backward(s: Sizes) -> Case {
    let (rows, width, vocab) = (s.samples * s.positions, s.width, s.vocab);
    let work = passes(1, (vocab + s.positions + 2 * rows) * width);
    case("embedding_backward", format!("{rows} x {width}"), work, move |device, arena| {
        let [mut dwte, mut dwpe, dy] = buffers(device, arena, [vocab * width, s.positions * width, rows * width])?;
        let tokens = tokens(rows, vocab);
        Ok(Box::new(move |device| {
            let tables = (dwte.view_mut(), Some(dwpe.view_mut()));
            device.embedding_backward(tables, dy.view(), &tokens, s.positions, Write::Overwrite);
        }))
    })
}

fn cross_entropy(rows: usize, vocab: usize) -> Case {
    case("cross_entropy", format!("{rows} x {vocab}"), passes(2, rows * vocab), move |device, arena| {
        let mut logits = buffer(device, arena, rows * vocab)?;
        let targets = tokens(rows, vocab);
        Ok(Box::new(move |device| {
            device.cross_entropy(logits.view_mut(), &targets, 1.0);
        }))
    })
}

fn cross_entropy_loss(rows: usize, vocab: usize) -> Case {
    case("cross_entropy_loss", format!("{rows} x {vocab}"), passes(1, rows * vocab), move |device, arena| {
        let logits = buffer(device, arena, rows * vocab)?;
        let targets = tokens(rows, vocab);
        Ok(Box::new(move |device| {
            device.cross_entropy_loss(logits.view(), &targets);
        }))
    })
}

fn add_into(elements: usize) -> Case {
    case("add_into", format!("{elements}"), passes(3, elements), move |device, arena| {
        let [src, mut dst] = buffers(device, arena, [elements; 2])?;
        Ok(Box::new(move |device| device.add_into(dst.view_mut(), src.view())))
    })
}

fn sum_of_squares(elements: usize) -> Case {
    case("sum_of_squares", format!("{elements}"), passes(1, elements), move |device, arena| {
        let x = buffer(device, arena, elements)?;
        Ok(Box::new(move |device| {
            device.sum_of_squares(x.view());
        }))
    })
}

/// Reads four arrays and writes three.
fn adamw(elements: usize) -> Case {
    case("adamw", format!("{elements}"), passes(7, elements), move |device, arena| {
        let [mut weight, mut moment1, mut moment2, gradient] = buffers(device, arena, [elements; 4])?;
        device.fill(moment2.view_mut(), 0.01);
        let scalars = Adam {
            scale: 1.0,
            decay: Decay::Kept(0.9999),
            step_size: 1e-4,
            root_correction: 1.0,
            beta1: 0.9,
            beta2: 0.95,
            epsilon: 1e-8,
        };
        Ok(Box::new(move |device| {
            let moments = (moment1.view_mut(), moment2.view_mut());
            device.adam(weight.view_mut(), moments, gradient.view(), &scalars);
        }))
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::bench) const SMALL: Sizes = Sizes {
        samples: 2,
        positions: 16,
        heads: 2,
        kv_heads: 2,
        size: 16,
        width: 32,
        inner: 128,
        hidden: 128,
        vocab: 64,
    };

    #[test]
    fn work_is_counted_by_formula() {
        let all = cases(SMALL);
        let work = |kernel: &str| all.iter().find(|case| case.kernel == kernel).map(|case| case.work);
        assert_eq!(work("linear"), Some(Work::Product(2.0 * 32.0 * 32.0 * 96.0)));
        assert_eq!(work("attention"), Some(Work::Flop(4.0 * 2.0 * 16.0 * 16.0 * 32.0)));
        assert_eq!(work("layer_norm"), Some(Work::Bytes(8.0 * 32.0 * 32.0)));
        assert_eq!(work("adamw"), Some(Work::Bytes(28.0 * 12.0 * 32.0 * 32.0)));
        assert!((Work::Bytes(3e9).rate(2.0) - 1.5).abs() < 1e-12);
    }
}
