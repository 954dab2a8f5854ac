//! The rate of matrix products at the shapes of a model: what training could reach if it did nothing else.

use shoal_config::spec::ModelSpec;
use shoal_kernels::{Arena, ArenaError, Buffer, Device, Layout, Linear, Tag};

use super::product::{SQUARE, rate};
use super::spread::Spread;

/// The products to measure, with room for the largest.
pub(super) struct Products {
    shapes: Vec<Linear>,
    x: Buffer,
    weight: Buffer,
    y: Buffer,
    /// GFLOP/s of each shape, every time it was measured.
    rates: Vec<Vec<f64>>,
}

/// Elements a token of the product into the MLP: of SwiGLU, gate and up.
pub(super) fn hidden(model: &ModelSpec) -> usize {
    match model {
        ModelSpec::Gpt2(_) => model.inner() as usize,
        ModelSpec::Llama(_) => 2 * model.inner() as usize,
    }
}

impl Products {
    /// The forward products of `model` over `rows` tokens, and 2048 cubed.
    pub(super) fn new(device: &Device, arena: &Arena, model: &ModelSpec, rows: usize) -> Result<Self, ArenaError> {
        let (width, inner, vocab) = (model.width() as usize, model.inner() as usize, model.vocab() as usize);
        let [queries, keys] = [model.heads(), model.kv_heads()].map(|heads| (heads * model.head_size()) as usize);
        let shape = |inputs, outputs, layout| Linear { rows, inputs, outputs, layout };
        let shapes = vec![
            shape(width, queries + 2 * keys, Layout::OutIn),
            shape(queries, width, Layout::InOut),
            shape(width, hidden(model), Layout::OutIn),
            shape(inner, width, Layout::InOut),
            shape(width, vocab, Layout::OutIn),
            SQUARE,
        ];
        let room = |elements: fn(&Linear) -> usize| {
            let mut buffer = arena.alloc(Tag::Temporary, shapes.iter().map(elements).max().unwrap_or(0))?;
            // Neither zeros nor subnormals: products of ordinary size.
            device.fill(buffer.view_mut(), 0.37);
            Ok(buffer)
        };
        Ok(Self {
            x: room(|s| s.rows * s.inputs)?,
            weight: room(|s| s.inputs * s.outputs)?,
            y: room(|s| s.rows * s.outputs)?,
            rates: vec![Vec::new(); shapes.len()],
            shapes,
        })
    }

    /// Measures every shape once more.
    pub(super) fn measure(&mut self, device: &Device) {
        let Self { shapes, x, weight, y, rates } = self;
        for (shape, rates) in shapes.iter().zip(rates) {
            rates.push(rate(device, *shape, y.view_mut(), (x.view(), weight.view())));
        }
    }

    /// GFLOP/s of the fastest product that was measured.
    pub(super) fn best(&self) -> f64 {
        self.rates.iter().flatten().copied().fold(0.0, f64::max)
    }

    /// GFLOP/s of the shape that is best at its median; nothing before the first measurement.
    pub(super) fn ceiling(&self) -> Option<Spread> {
        self.rates.iter().filter_map(|rates| Spread::of(rates)).max_by(|a, b| a.median.total_cmp(&b.median))
    }
}
