//! A job's state as files, in three forms.

pub mod aside;
mod download;
pub mod hf;
pub mod llmc;
mod lock;
pub mod source;
pub mod state;
mod target;
pub mod tensors;

pub use download::{Written, broke_off};
pub use target::Target;
