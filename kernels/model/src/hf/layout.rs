//! Which of their tensors is which of our parameters, and in which order its elements lie.

use shoal_config::spec::{JobSpec, ModelSpec};
use shoal_plan::blocks::{BlockKind, BlockTable, ModelTable};
use shoal_plan::ids::BlockId;
use shoal_plan::space::Interval;

use crate::tensors::Entry;

/// What their names begin with; files made from the bare transformer lack it.
pub(super) const PREFIX: &str = "transformer.";

/// One of their tensors.
pub(super) struct Tensor {
    pub(super) entry: Entry,
    pub(super) block: BlockId,
    /// Where it lies in our block's space.
    pub(super) interval: Interval,
    pub(super) order: Order,
}

/// How their elements relate to ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The same.
    Same,
    /// Ours is `[out, inputs]`, theirs `[inputs, out]`.
    Turned {
        /// Inputs.
        inputs: usize,
    },
    /// As `Turned`, and our rows are q by head, then k and v by head; their columns are Q, K, V.
    Attention {
        /// Inputs; 1 for a bias.
        inputs: usize,
        /// Heads.
        heads: usize,
        /// Elements of a head.
        size: usize,
    },
}

impl Order {
    /// Our elements in their order.
    pub(super) fn export(self, ours: &[f32]) -> Vec<f32> {
        let mut theirs = vec![0.0; ours.len()];
        self.each(ours.len(), |our, their| theirs[their] = ours[our]);
        theirs
    }

    /// Their elements in our order.
    pub(super) fn import(self, theirs: &[f32]) -> Vec<f32> {
        let mut ours = vec![0.0; theirs.len()];
        self.each(theirs.len(), |our, their| ours[our] = theirs[their]);
        ours
    }

    /// Calls `pair(our index, their index)` for every element.
    fn each(self, elements: usize, mut pair: impl FnMut(usize, usize)) {
        let inputs = match self {
            Self::Same => return (0..elements).for_each(|i| pair(i, i)),
            Self::Turned { inputs } | Self::Attention { inputs, .. } => inputs,
        };
        let outputs = elements / inputs;
        for row in 0..outputs {
            let column = self.column(row);
            for input in 0..inputs {
                pair(row * inputs + input, input * outputs + column);
            }
        }
    }

    /// Their column of our row.
    fn column(self, row: usize) -> usize {
        match self {
            Self::Same | Self::Turned { .. } => row,
            Self::Attention { heads, size, .. } => {
                let width = heads * size;
                let Some(kv) = row.checked_sub(width) else { return row };
                let (head, within) = (kv / (2 * size), kv % (2 * size));
                let value = within / size;
                width + value * width + head * size + within % size
            }
        }
    }
}

/// Their tensors, in block order.
pub(super) fn tensors(table: &ModelTable, spec: &JobSpec) -> Vec<Tensor> {
    let mut out = Vec::new();
    for block in &table.blocks {
        match block.kind {
            BlockKind::Embedding => {
                same(block, "", "wte", "wte.weight", &mut out);
                same(block, "", "wpe", "wpe.weight", &mut out);
            }
            BlockKind::Layer => layer(block, &spec.model, &mut out),
            BlockKind::Head => {
                same(block, "", "ln_f.weight", "ln_f.weight", &mut out);
                same(block, "", "ln_f.bias", "ln_f.bias", &mut out);
            }
        }
    }
    out
}

fn layer(block: &BlockTable, model: &ModelSpec, out: &mut Vec<Tensor>) {
    let prefix = format!("h.{}.", block.id.0 - 1);
    let (width, heads) = (model.width() as usize, model.heads() as usize);
    let attention = |inputs| Order::Attention { inputs, heads, size: width / heads };
    for norm in ["ln_1.weight", "ln_1.bias", "ln_2.weight", "ln_2.bias"] {
        same(block, &prefix, norm, norm, out);
    }
    for (ours, theirs) in [("attn.proj", "attn.c_proj"), ("mlp.proj", "mlp.c_proj")] {
        for part in ["weight", "bias"] {
            same(block, &prefix, &format!("{ours}.{part}"), &format!("{theirs}.{part}"), out);
        }
    }
    same(block, &prefix, "mlp.fc.bias", "mlp.c_fc.bias", out);
    let mut other = |(first, last): (&str, &str), theirs: &str, shape: &[u64], order| {
        let interval = Interval::new(place(block, first).0.start, place(block, last).0.end);
        let entry = Entry { name: format!("{PREFIX}{prefix}{theirs}"), shape: shape.to_vec() };
        assert_eq!(entry.elements(), interval.len(), "HF-1 (neighbours in our space make one of theirs): {theirs}");
        out.push(Tensor { entry, block: block.id, interval, order });
    };
    let h = width as u64;
    let turned = Order::Turned { inputs: width };
    other(("mlp.fc.weight", "mlp.fc.weight"), "mlp.c_fc.weight", &[h, 4 * h], turned);
    other(("attn.q.weight", "attn.kv.weight"), "attn.c_attn.weight", &[h, 3 * h], attention(width));
    other(("attn.q.bias", "attn.kv.bias"), "attn.c_attn.bias", &[3 * h], attention(1));
}

fn same(block: &BlockTable, prefix: &str, ours: &str, theirs: &str, out: &mut Vec<Tensor>) {
    let (interval, shape) = place(block, ours);
    let entry = Entry { name: format!("{PREFIX}{prefix}{theirs}"), shape };
    out.push(Tensor { entry, block: block.id, interval, order: Order::Same });
}

fn place(block: &BlockTable, name: &str) -> (Interval, Vec<u64>) {
    let param = block.params.iter().find(|p| p.name == name);
    let param = param.expect("BL-1 (a block has the parameters of its kind)");
    (param.interval, param.shape.clone())
}
