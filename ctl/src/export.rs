//! A job's state as files, in two forms.

pub mod aside;
pub mod hf;
pub mod state;
mod target;
pub mod tensors;

pub use target::Target;
