//! What the operator asks for.
//!
//! `raw` is a file as typed (unknown keys refused), [`spec`] is what it means: valid by construction, every default
//! filled in, and everything that enters bits resolved before any node is looked at.

pub mod spec;

pub use spec::JobSpec;
