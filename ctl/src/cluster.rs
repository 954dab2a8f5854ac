//! A local cluster: its directory, its processes, how it is brought up and down.

pub mod dir;
pub mod identity;
pub mod process;
pub mod start;
pub mod stop;
mod stopped;

pub use dir::{CLAIM, LocalCluster, Started};
pub use start::{Raised, Wanted, raise};
pub use stop::{LostState, Stopped, kill, stop, stop_elsewhere};
