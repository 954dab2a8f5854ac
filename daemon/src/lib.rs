//! The daemon: bootstrap of coordinator and worker, journal in sled, HTTP interface, respawner.
//!
//! [`run()`] is the one entry; `shoald` and `shoalctl` both call it. [`role`] says what a process can be, [`cluster`] where it
//! lives, [`store`] what a coordinator keeps, [`http`] what it serves.

pub mod bench;
pub mod cli;
pub mod cluster;
mod coordinator;
mod files;
pub mod http;
pub mod lock;
pub mod logging;
pub mod process;
mod respawn;
pub mod role;
mod root;
pub mod run;
mod signals;
pub mod store;
pub mod token;
pub mod whole;
pub mod worker;

pub use role::{CoordinatorConfig, Role, WorkerConfig};
pub use run::{DaemonError, run};
pub use shoal_actors::transport::pki;
