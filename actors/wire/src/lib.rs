//! What crosses a process boundary.
//!
//! [`data`] heads every bulk tensor; [`control`] is said on the one ordered stream of a connection; [`api`] is the JSON of
//! the coordinator's HTTP interface and of `--json`. Each has a version constant and golden bytes.

pub mod api;
pub mod control;
pub mod data;
pub mod frame;

pub use frame::{DecodeError, EncodeError};
