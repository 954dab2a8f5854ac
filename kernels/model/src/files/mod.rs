//! Weights in files of other programs, read and written by ranges: nobody ever holds a whole model.
//!
//! * `map` says which of our elements lie where in which of their tensors; a permutation at the edge, nothing more.
//! * [`Files`] reads any interval of our space out of Hugging Face's safetensors or an llm.c checkpoint.
//! * [`write`] puts their tensors together from whoever has ours.
//!
//! * FI-1 (untrusted): every length that a file gives is held against the file before anything is allocated or read.
//! * FI-2 (one element of output each): whoever reads an interval gives room for it and no more.
//! * FI-4 (read once): all pieces together read a file about once: nobody reads more than what it needs and little beside
//!   it.

pub(crate) mod dtype;
mod error;
mod facts;
mod gather;
mod gpt2;
pub(crate) mod header;
mod llama;
pub(crate) mod map;
mod open;
pub(crate) mod write;

pub use error::FilesError;
pub use open::Files;
pub use write::{Aside, AsideError, Destination, Unfit, WriteError};

pub(crate) use gpt2::{Linears, gpt2};
pub(crate) use llama::llama;
pub(crate) use open::Place;

#[cfg(test)]
mod tests;
