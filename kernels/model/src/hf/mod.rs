//! Hugging Face's `GPT2LMHeadModel`: `config.json` and `model.safetensors`, out and in.
//!
//! Their linear weights are `[in, out]` (Conv1D) with attention's columns in the order Q, K, V; ours are as `layout` says.
//! The head is tied and therefore not in the file.

mod export;
mod import;
mod layout;

pub use export::{config_json, model_len, write_model};
pub use import::{ImportError, read_model};

#[cfg(test)]
mod tests;
