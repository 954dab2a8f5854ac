//! The parameters of each family, block by block, in the order in which they lie.

use shoal_config::spec::{Gpt2Spec, LlamaSpec};

use super::{BlockKind, BlockTable, CHUNK, HEAD_TABLE, Init, ModelTable, Param, TOKEN_TABLE};
use crate::ids::BlockId;
use crate::space::Interval;
use crate::state::StateForm;

/// Name, shape, whether it is a matrix, initial values.
type Row<'a> = (&'a str, &'a [u64], bool, Init);

pub(super) fn gpt2(spec: &Gpt2Spec) -> ModelTable {
    let (h, v, s) = (u64::from(spec.width), u64::from(spec.vocab), u64::from(spec.context));
    let (heads, d) = (u64::from(spec.heads), u64::from(spec.width / spec.heads));
    let embedding = table(
        BlockKind::Embedding,
        &[(TOKEN_TABLE, &[v, h], true, Init::Normal), ("wpe", &[s, h], true, Init::Normal)],
    );
    let rows: [Row<'_>; 14] = [
        ("ln_1.weight", &[h], false, Init::Ones),
        ("ln_1.bias", &[h], false, Init::Zeros),
        // q and kv weights are neighbours, so that one product serves both: [3h, h].
        ("attn.q.weight", &[heads, d, h], true, Init::Normal),
        ("attn.kv.weight", &[heads, 2, d, h], true, Init::Normal),
        ("attn.q.bias", &[heads, d], false, Init::Zeros),
        ("attn.kv.bias", &[heads, 2, d], false, Init::Zeros),
        ("attn.proj.weight", &[h, h], true, Init::NormalResidual),
        ("attn.proj.bias", &[h], false, Init::Zeros),
        ("ln_2.weight", &[h], false, Init::Ones),
        ("ln_2.bias", &[h], false, Init::Zeros),
        ("mlp.fc.weight", &[4 * h, h], true, Init::Normal),
        ("mlp.fc.bias", &[4 * h], false, Init::Zeros),
        ("mlp.proj.weight", &[4 * h, h], true, Init::NormalResidual),
        ("mlp.proj.bias", &[h], false, Init::Zeros),
    ];
    let own: [u64; 2] = [v, h];
    let ends: [Row<'_>; 2] =
        [("ln_f.weight", &own[1..], false, Init::Ones), ("ln_f.bias", &own[1..], false, Init::Zeros)];
    let is_there = |row: &Row<'_>| spec.bias || !row.0.ends_with(".bias");
    let layer: Vec<Row<'_>> = rows.into_iter().filter(is_there).collect();
    let mut head: Vec<Row<'_>> = ends.into_iter().filter(is_there).collect();
    if !spec.tied_head {
        head.push((HEAD_TABLE, &own, true, Init::Normal));
    }
    let (layer, head) = (table(BlockKind::Layer, &layer), table(BlockKind::Head, &head));
    model(embedding, &layer, spec.layers, head)
}

pub(super) fn llama(spec: &LlamaSpec) -> ModelTable {
    let (h, v, inner) = (u64::from(spec.width), u64::from(spec.vocab), u64::from(spec.inner));
    let (heads, kv, d) = (u64::from(spec.heads), u64::from(spec.kv_heads), u64::from(spec.head_size));
    let (attention_bias, mlp_bias) = (spec.attention_bias, spec.mlp_bias);
    let rows: [(bool, Row<'_>); 14] = [
        (true, ("norm_1.weight", &[h], false, Init::Ones)),
        // q and kv are neighbours, and so are gate and up: one product serves both.
        (true, ("attn.q.weight", &[heads, d, h], true, Init::Normal)),
        (true, ("attn.kv.weight", &[kv, 2, d, h], true, Init::Normal)),
        (attention_bias, ("attn.q.bias", &[heads, d], false, Init::Zeros)),
        (attention_bias, ("attn.kv.bias", &[kv, 2, d], false, Init::Zeros)),
        (true, ("attn.proj.weight", &[heads * d, h], true, Init::Normal)),
        (attention_bias, ("attn.proj.bias", &[h], false, Init::Zeros)),
        (true, ("norm_2.weight", &[h], false, Init::Ones)),
        (true, ("mlp.gate.weight", &[inner, h], true, Init::Normal)),
        (true, ("mlp.up.weight", &[inner, h], true, Init::Normal)),
        (mlp_bias, ("mlp.gate.bias", &[inner], false, Init::Zeros)),
        (mlp_bias, ("mlp.up.bias", &[inner], false, Init::Zeros)),
        (true, ("mlp.down.weight", &[inner, h], true, Init::Normal)),
        (mlp_bias, ("mlp.down.bias", &[h], false, Init::Zeros)),
    ];
    let layer: Vec<Row<'_>> = rows.into_iter().filter(|(is_there, _)| *is_there).map(|(_, row)| row).collect();
    let own: [u64; 2] = [v, h];
    let mut head: Vec<Row<'_>> = vec![("norm_f.weight", &own[1..], false, Init::Ones)];
    if !spec.tied_head {
        head.push((HEAD_TABLE, &own, true, Init::Normal));
    }
    let embedding = table(BlockKind::Embedding, &[(TOKEN_TABLE, &own, true, Init::Normal)]);
    model(embedding, &table(BlockKind::Layer, &layer), spec.layers, table(BlockKind::Head, &head))
}

fn model(embedding: BlockTable, layer: &BlockTable, layers: u32, head: BlockTable) -> ModelTable {
    let mut blocks = vec![embedding];
    blocks.extend((0..layers).map(|_| layer.clone()));
    blocks.push(head);
    for (i, block) in blocks.iter_mut().enumerate() {
        block.id = BlockId(i as u32);
    }
    ModelTable { blocks, state: StateForm::weights_alone() }
}

fn table(kind: BlockKind, rows: &[Row<'_>]) -> BlockTable {
    let mut at = 0;
    let params = rows
        .iter()
        .map(|&(name, shape, matrix, init)| {
            let interval = Interval::new(at, at + shape.iter().product::<u64>());
            at = interval.end.next_multiple_of(CHUNK);
            Param { name: name.to_owned(), shape: shape.to_vec(), interval, matrix, init }
        })
        .collect();
    BlockTable { id: BlockId(0), kind, params, len: at }
}
