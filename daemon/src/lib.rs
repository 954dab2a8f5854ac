//! The daemon: bootstrap of coordinator and worker, journal in sled, HTTP interface, respawner.
//!
//! [`run`] is the one entry; `shoald` and `shoalctl` both call it. [`role`] says what a process can be.

pub mod cli;
pub mod role;
pub mod run;
pub mod store;

pub use role::{CoordinatorConfig, Role, WorkerConfig};
pub use run::{DaemonError, run};
