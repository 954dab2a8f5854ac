//! What a worker is told at its start.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use shoal_config::node::Class;
use shoal_config::spec::Auto;

use crate::transport::Identity;

/// Says where the coordinator's transport listens now; asked before every attempt to reach it, since it may come back
/// elsewhere. `None`: not known at the moment.
pub type FindCoordinator = Arc<dyn Fn() -> Option<SocketAddr> + Send + Sync>;

/// What a worker is told at its start.
#[derive(Clone)]
pub struct NodeConfig {
    /// Operator's name for the node, unique in the cluster.
    pub name: String,
    /// Own certificate and key, and the cluster that is trusted.
    pub identity: Identity,
    /// UDP address of its transport; TCP of the same number is the death-watch. Port 0: any.
    pub listen: SocketAddr,
    /// Where the coordinator listens.
    pub coordinator: FindCoordinator,
    /// Where pieces are written; one process at a time (the caller sees to that).
    pub data_dir: PathBuf,
    /// Bytes that its arenas may hold, all tiers.
    pub budget_bytes: u64,
    /// Compute threads.
    pub threads: u32,
    /// What its devices compute with.
    pub class: Auto<Class>,
}

impl fmt::Debug for NodeConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "NodeConfig({}, {}, {} bytes, {} threads, class {}, {})",
            self.name,
            self.listen,
            self.budget_bytes,
            self.threads,
            self.class,
            self.data_dir.display()
        )
    }
}
