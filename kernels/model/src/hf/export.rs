//! Writing what `transformers` loads.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Value, json};
use shoal_config::JobSpec;
use shoal_plan::blocks::ModelTable;
use shoal_plan::ids::BlockId;
use shoal_plan::space::Interval;

use super::layout::{Order, tensors};
use crate::tensors::{Entry, file_len, header, write_stretches, write_values};

/// The model's `config.json`.
#[must_use]
pub fn config_json(spec: &JobSpec) -> Value {
    let model = &spec.model;
    // The end-of-text token of GPT-2's own vocabulary; byte models have none.
    let end_of_text = if model.vocab() == 50_257 { json!(50_256) } else { Value::Null };
    json!({
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "activation_function": "gelu_new",
        "vocab_size": model.vocab(),
        "n_positions": model.context(),
        "n_ctx": model.context(),
        "n_embd": model.width(),
        "n_layer": model.layers(),
        "n_head": model.heads(),
        "n_inner": Value::Null,
        "resid_pdrop": shortest(model.dropout()),
        "embd_pdrop": shortest(model.dropout()),
        "attn_pdrop": shortest(model.dropout()),
        "layer_norm_epsilon": shortest(model.norm_epsilon()),
        "initializer_range": shortest(model.init_range()),
        "scale_attn_weights": true,
        "scale_attn_by_inverse_layer_idx": false,
        "reorder_and_upcast_attn": false,
        "tie_word_embeddings": true,
        "use_cache": true,
        "bos_token_id": end_of_text,
        "eos_token_id": end_of_text,
        "dtype": "float32",
        "torch_dtype": "float32",
    })
}

/// Writes `model.safetensors` to `out`. `read` gives elements of a block's weights.
///
/// # Errors
/// What `read` and `out` give.
pub fn write_model(
    table: &ModelTable,
    spec: &JobSpec,
    mut read: impl FnMut(BlockId, Interval, &mut [f32]) -> io::Result<()>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let tensors = tensors(table, spec);
    let entries: Vec<Entry> = tensors.iter().map(|t| t.entry.clone()).collect();
    out.write_all(&header(&entries, &metadata()))?;
    for tensor in tensors {
        let (block, interval) = (tensor.block, tensor.interval);
        match tensor.order {
            Order::Same => write_stretches(out, interval.len(), |at, values| {
                let from = interval.start + at;
                read(block, Interval::new(from, from + values.len() as u64), values)
            })?,
            Order::Turned { .. } | Order::Attention { .. } => {
                let mut ours = vec![0.0; interval.len() as usize];
                read(block, interval, &mut ours)?;
                write_values(out, &tensor.order.export(&ours))?;
            }
        }
    }
    Ok(())
}

/// Bytes that [`write_model`] writes.
#[must_use]
pub fn model_len(table: &ModelTable, spec: &JobSpec) -> u64 {
    let entries: Vec<Entry> = tensors(table, spec).into_iter().map(|t| t.entry).collect();
    file_len(&entries, &metadata())
}

/// `transformers` refuses a file that does not say which framework its layout is from.
fn metadata() -> BTreeMap<String, String> {
    BTreeMap::from([("format".to_owned(), "pt".to_owned())])
}

/// The f64 whose shortest decimal is the f32's shortest decimal: 0.1, not 0.10000000149.
fn shortest(x: f32) -> f64 {
    x.to_string().parse().expect("an f32 prints as a number")
}
