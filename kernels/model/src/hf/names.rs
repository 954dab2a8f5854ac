//! How files and tensors are called.

use shoal_config::spec::ModelSpec;
use shoal_plan::blocks::ModelTable;

use crate::files::map::Map;
use crate::files::{Linears, gpt2, llama};

/// A model in one file.
pub(crate) const MODEL: &str = "model.safetensors";
/// What model it is.
pub const CONFIG: &str = "config.json";
/// Which shard has which tensor.
pub const INDEX: &str = "model.safetensors.index.json";
/// What ends a text that it generates.
pub const GENERATION: &str = "generation_config.json";
/// What makes its tokens.
pub const TOKENIZER: &str = "tokenizer.json";
/// Which of them begin and end a text.
pub const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
/// A head of its own.
pub(crate) const HEAD: &str = "lm_head.weight";

/// Which of their tensors is which of our parameters. The first is the token table.
pub(crate) fn map(table: &ModelTable, model: &ModelSpec) -> Map {
    match model {
        ModelSpec::Gpt2(_) => gpt2(table, model, Linears::InOut),
        ModelSpec::Llama(_) => llama(table, model),
    }
}

/// What their names begin with; files made from the bare transformer lack it. A Llama's names are always whole.
pub(crate) fn prefix(model: &ModelSpec) -> &'static str {
    match model {
        ModelSpec::Gpt2(_) => "transformer.",
        ModelSpec::Llama(_) => "",
    }
}

/// Whether a tensor is a constant that older programs wrote beside the weights.
pub(crate) fn is_buffer(name: &str) -> bool {
    [".attn.bias", ".attn.masked_bias", "rotary_emb.inv_freq"].iter().any(|buffer| name.ends_with(buffer))
}
