//! GPT-2 under its usual names: Hugging Face's without prefix.

use shoal_config::spec::ModelSpec;
use shoal_plan::blocks::{BlockKind, BlockTable, HEAD_TABLE, ModelTable};

use super::map::{Map, Order};

/// How the matrices of linear layers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Linears {
    /// `[in, out]`: Hugging Face's Conv1D.
    InOut,
    /// `[out, in]`: llm.c.
    OutIn,
}

/// Where a GPT-2's parameters lie, tensors in the order of blocks. The table of positions may be longer than ours.
pub(crate) fn gpt2(table: &ModelTable, model: &ModelSpec, linears: Linears) -> Map {
    let mut map = Map::new();
    for block in &table.blocks {
        match block.kind {
            BlockKind::Embedding => {
                map.same(block, "wte", "wte.weight");
                let wpe = map.same(block, "wpe", "wpe.weight");
                map.tensors[wpe].open_ended = true;
            }
            BlockKind::Layer => layer(block, model, linears, &mut map),
            BlockKind::Head => {
                for part in ["ln_f.weight", "ln_f.bias", HEAD_TABLE] {
                    if_there(block, part, part, &mut map);
                }
            }
        }
    }
    map.finish(table)
}

fn layer(block: &BlockTable, model: &ModelSpec, linears: Linears, map: &mut Map) {
    let name = |part: &str| format!("h.{}.{part}", block.id.0 - 1);
    let (width, heads, size) = (u64::from(model.width()), u64::from(model.heads()), u64::from(model.head_size()));
    // Ours are stored [out, in] where the outputs are split over devices, and [in, out] where the inputs are.
    let shape = |inputs: u64, outputs: u64| match linears {
        Linears::InOut => [inputs, outputs],
        Linears::OutIn => [outputs, inputs],
    };
    let (by_output, by_input) = match linears {
        Linears::InOut => (Order::Transposed, Order::Straight),
        Linears::OutIn => (Order::Straight, Order::Transposed),
    };
    for part in ["ln_1.weight", "ln_1.bias"] {
        if_there(block, part, &name(part), map);
    }
    for (part, columns, order) in [("weight", width, by_output), ("bias", 1, Order::Straight)] {
        if block.param(&format!("attn.q.{part}")).is_none() {
            continue;
        }
        let full = name(&format!("attn.c_attn.{part}"));
        let qkv = match part {
            "weight" => map.tensor(full, &shape(width, 3 * width)),
            _ => map.tensor(full, &[3 * width]),
        };
        map.rows(block, &format!("attn.q.{part}"), 0..width, columns, (qkv, 0, order));
        let kv = format!("attn.kv.{part}");
        for head in 0..heads {
            for (i, at) in [width + head * size, 2 * width + head * size].into_iter().enumerate() {
                let from = (2 * head + i as u64) * size;
                map.rows(block, &kv, from..from + size, columns, (qkv, at, order));
            }
        }
    }
    let mut linear = |ours: &str, theirs: &str, inputs: u64, outputs: u64, order: Order| {
        let (rows, columns) = match (order, linears) {
            (Order::Straight, Linears::InOut) | (Order::Transposed, Linears::OutIn) => (inputs, outputs),
            (Order::Transposed, Linears::InOut) | (Order::Straight, Linears::OutIn) => (outputs, inputs),
        };
        let tensor = map.tensor(name(&format!("{theirs}.weight")), &shape(inputs, outputs));
        map.rows(block, &format!("{ours}.weight"), 0..rows, columns, (tensor, 0, order));
        if_there(block, &format!("{ours}.bias"), &name(&format!("{theirs}.bias")), map);
    };
    linear("attn.proj", "attn.c_proj", width, width, by_input);
    let inner = u64::from(model.inner());
    linear("mlp.fc", "mlp.c_fc", width, inner, by_output);
    linear("mlp.proj", "mlp.c_proj", inner, width, by_input);
    for part in ["ln_2.weight", "ln_2.bias"] {
        if_there(block, part, &name(part), map);
    }
}

/// A parameter that is a tensor as it is, if the model has it.
fn if_there(block: &BlockTable, ours: &str, theirs: &str, map: &mut Map) {
    if block.param(ours).is_some() {
        map.same(block, ours, theirs);
    }
}
