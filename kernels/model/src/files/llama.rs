//! Llama under Hugging Face's names. Linear weights are `[out, in]` there; ours are `[in, out]` where the inputs are split over
//! devices. Keys and values lie apart there, and by head side by side with us.

use shoal_config::spec::ModelSpec;
use shoal_plan::blocks::{BlockKind, BlockTable, HEAD_TABLE, ModelTable, TOKEN_TABLE};

use super::map::{Map, Order};

/// Where a Llama's parameters lie, tensors in the order of blocks.
pub(crate) fn llama(table: &ModelTable, model: &ModelSpec) -> Map {
    let mut map = Map::new();
    for block in &table.blocks {
        match block.kind {
            BlockKind::Embedding => {
                map.same(block, TOKEN_TABLE, "model.embed_tokens.weight");
            }
            BlockKind::Layer => layer(block, model, &mut map),
            BlockKind::Head => {
                map.same(block, "norm_f.weight", "model.norm.weight");
                if block.param(HEAD_TABLE).is_some() {
                    map.same(block, HEAD_TABLE, "lm_head.weight");
                }
            }
        }
    }
    map.finish(table)
}

fn layer(block: &BlockTable, model: &ModelSpec, map: &mut Map) {
    let name = |part: &str| format!("model.layers.{}.{part}", block.id.0 - 1);
    let (width, inner, size) = (u64::from(model.width()), u64::from(model.inner()), u64::from(model.head_size()));
    let (queries, kv_heads) = (size * u64::from(model.heads()), u64::from(model.kv_heads()));
    map.same(block, "norm_1.weight", name("input_layernorm.weight"));
    for (part, columns) in [("weight", width), ("bias", 1)] {
        if block.param(&format!("attn.q.{part}")).is_none() {
            continue;
        }
        let [q, k, v] = [("q", queries), ("k", kv_heads * size), ("v", kv_heads * size)].map(|(letter, rows)| {
            let shape = if part == "weight" { vec![rows, width] } else { vec![rows] };
            map.tensor(name(&format!("self_attn.{letter}_proj.{part}")), &shape)
        });
        map.rows(block, &format!("attn.q.{part}"), 0..queries, columns, (q, 0, Order::Straight));
        for head in 0..kv_heads {
            for (i, tensor) in [k, v].into_iter().enumerate() {
                let from = (2 * head + i as u64) * size;
                let to = (tensor, head * size, Order::Straight);
                map.rows(block, &format!("attn.kv.{part}"), from..from + size, columns, to);
            }
        }
    }
    let mut transposed = |ours: &str, theirs: &str, inputs: u64| {
        let tensor = map.tensor(name(&format!("{theirs}.weight")), &[width, inputs]);
        map.rows(block, &format!("{ours}.weight"), 0..inputs, width, (tensor, 0, Order::Transposed));
        bias(block, ours, theirs, &name, map);
    };
    transposed("attn.proj", "self_attn.o_proj", queries);
    transposed("mlp.down", "mlp.down_proj", inner);
    for (ours, theirs) in [("mlp.gate", "mlp.gate_proj"), ("mlp.up", "mlp.up_proj")] {
        map.same(block, &format!("{ours}.weight"), name(&format!("{theirs}.weight")));
        bias(block, ours, theirs, &name, map);
    }
    map.same(block, "norm_2.weight", name("post_attention_layernorm.weight"));
}

fn bias(block: &BlockTable, ours: &str, theirs: &str, name: &dyn Fn(&str) -> String, map: &mut Map) {
    let ours = format!("{ours}.bias");
    if block.param(&ours).is_some() {
        map.same(block, &ours, name(&format!("{theirs}.bias")));
    }
}
