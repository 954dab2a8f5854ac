//! What the operator asks for.
//!
//! `raw` is a file as typed (unknown keys refused), [`spec`] is what it means: valid by construction, every default
//! filled in, and everything that enters bits resolved before any node is looked at. [`job`] and [`node`] lead from one
//! to the other; [`presets`] are job files that come with the program; [`units`] are sizes with their unit;
//! [`regular`] opens what an operator names. [`hf`] and [`llmc`] say
//! what model lies in files of other programs, [`safetensors`] how a file of tensors begins.

pub mod check;
mod document;
pub mod error;
pub mod hf;
pub mod job;
mod limits;
pub mod llmc;
pub mod node;
pub mod presets;
mod raw;
pub mod regular;
pub mod safetensors;
pub mod spec;
pub mod units;
mod value;

pub use error::ConfigError;
pub use limits::VOCAB;
pub use node::NodeSpec;
pub use presets::preset;
pub use spec::JobSpec;
pub use units::Bytes;
