//! What crosses a process boundary.
//!
//! [`data`] heads every bulk tensor; [`control`] is said on the one ordered stream of a connection, [`frame`]d; [`api`] is
//! the JSON of the coordinator's HTTP interface and of `--json`; [`journal`] is what the coordinator keeps. Each has a
//! version constant and golden bytes.

pub mod api;
mod bytes;
pub mod control;
pub mod data;
pub mod frame;
pub mod journal;

pub use frame::{DecodeError, EncodeError};
