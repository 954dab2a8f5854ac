//! From documents to tokens on disk, and back to text.
//!
//! * [`tokenizer`]: bytes, GPT-2, o200k, or any `tokenizer.json`; text to tokens and back, a token at a time if need be.
//! * [`documents`]: where a document begins and ends in text, JSONL and Parquet files.
//! * [`shard`]: token files as llm.c writes them.
//! * [`manifest`]: what a directory of shards says of itself; a job holds the shards against it.
//! * [`prepare`](mod@prepare): from the first to the last, on several threads, with the same bytes whatever their number and
//!   however often it was killed on the way.
//!
//! Only this crate names `tiktoken_rs`, `tokenizers` and `parquet`. It knows nothing of jobs, clusters or actors.

pub mod documents;
pub mod manifest;
pub mod prepare;
pub mod shard;
pub mod tokenizer;

mod durable;
mod runs;
mod small;

pub use manifest::Manifest;
pub use prepare::prepare;
pub use tokenizer::Tokenizer;
