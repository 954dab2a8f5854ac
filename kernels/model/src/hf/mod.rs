//! Hugging Face's form of a model: `config.json` and `model.safetensors`, or shards of it and an index.
//!
//! GPT-2's linear weights are `[in, out]` there (Conv1D), attention's columns in the order Q, K, V. A tied head is not in
//! the files.

mod export;
mod names;

pub use export::{Part, config_json, index_json, part_len, parts, write_model, write_part};
pub use names::{CONFIG, INDEX};
pub(crate) use names::{HEAD, MODEL, is_buffer, map, prefix};

#[cfg(test)]
mod tests;
