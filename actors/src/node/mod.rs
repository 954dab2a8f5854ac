//! The worker: root of everything that runs in a worker process.
//!
//! [`run`] starts it, the [`NodeHandle`] ends it.

mod config;
mod error;
mod handle;

pub use config::{FindCoordinator, NodeConfig};
pub use error::NodeError;
pub use handle::{NodeEnd, NodeHandle};

/// Starts a worker on the current tokio runtime: binds its transport, sets up its device, and keeps registering with
/// the coordinator until it is told to end.
///
/// # Errors
/// If its port, data directory, memory or threads cannot be had. That the coordinator is not there is no error.
pub async fn run(config: NodeConfig) -> Result<NodeHandle, NodeError> {
    let shelf = crate::written::Shelf::open(&config.data_dir).map_err(NodeError::DataDir)?;
    let listen = crate::transport::EndpointConfig::new(config.listen, config.identity.clone());
    let (endpoint, _inbound) = crate::transport::Endpoint::bind(listen, std::sync::Arc::new(crate::transport::NoBulk))
        .map_err(NodeError::Transport)?;
    let (wishes, _) = tokio::sync::mpsc::unbounded_channel();
    let (_, end) = tokio::sync::watch::channel(None);
    tracing::info!(jobs = ?shelf.jobs().map_err(NodeError::DataDir)?, "worker is up");
    Ok(NodeHandle::new(endpoint.local_address(), wishes, end))
}
