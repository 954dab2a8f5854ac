//! Hugging Face's form of a model: `config.json` and `model.safetensors`, or shards of it and an index; what is known of its tokens
//! in `generation_config.json`, `tokenizer.json` and `tokenizer_config.json`.
//!
//! GPT-2's linear weights are `[in, out]` there (Conv1D), attention's columns in the order Q, K, V; a Llama's are `[out, in]`,
//! with a tensor each for q, k and v. A tied head is not in the files.

mod config;
mod export;
mod names;
mod tokens;

pub use config::config_json;
pub use export::{Part, index_json, main_dtype, part_len, parts, write_model, write_part};
pub use names::{CONFIG, GENERATION, INDEX, TOKENIZER, TOKENIZER_CONFIG};
pub(crate) use names::{HEAD, MODEL, is_buffer, map, prefix};
pub use tokens::{generation_config_json, mark, text_tokens, tokenizer_config_json};

#[cfg(test)]
mod tests;
