//! The worker: root of everything that runs in a worker process.
//!
//! ```text
//! NodeActor          registers, hears the coordinator and peers
//!   HolderActor      one a job, see `holder`
//!     StageActor     one a seat, see `stage`
//!     LoaderActor    see `loader`
//! device threads     see `device`
//! heartbeat thread
//! transport          own thread and runtime, see `transport`
//! ```
//!
//! [`run`] starts it, the [`NodeHandle`] ends it.

mod actor;
mod config;
mod door;
mod ending;
mod error;
mod handle;
mod heartbeat;
mod links;
mod questions;
mod sink;
mod state;

use std::sync::Arc;

use ractor::Actor;
use tokio::sync::{mpsc, watch};

pub use config::{FindCoordinator, NodeConfig};
pub use error::NodeError;
pub use handle::{NodeEnd, NodeHandle};

use crate::device::{self, DeviceError, Devices};
use crate::transport::{Endpoint, EndpointConfig};
use crate::written::Shelf;
use actor::{NodeActor, NodeArgs};
use heartbeat::Heart;
use links::Links;
use sink::ArenaSink;

/// Starts a worker on the current tokio runtime: binds its transport, sets up its device, and keeps registering with
/// the coordinator until it is told to end.
///
/// # Errors
/// If its port, data directory, class, memory or threads cannot be had. That the coordinator is not there is no error.
pub async fn run(config: NodeConfig) -> Result<NodeHandle, NodeError> {
    let shelf = Shelf::open(&config.data_dir).map_err(NodeError::DataDir)?;
    let devices =
        Devices::start(&config.name, device::class(config.class)?, config.threads as usize, config.budget_bytes)?;
    let (overflow, overflows) = mpsc::unbounded_channel();
    let sink = ArenaSink::new(devices.clone(), overflow);
    let listen = EndpointConfig::new(config.listen, config.identity.clone());
    let (endpoint, inbound) = Endpoint::bind(listen, Arc::new(sink.clone())).map_err(NodeError::Transport)?;
    let address = endpoint.local_address();
    let links = Links::new(endpoint);
    let heart = Heart::start(links.clone(), devices.clone()).map_err(NodeError::Thread)?;
    let (wish, wishes) = mpsc::unbounded_channel();
    let (end, ended) = watch::channel(None);
    let args = NodeArgs { config, links, devices, shelf, sink, heart, inbound, wishes, overflows, end };
    let root = Actor::spawn(None, NodeActor, args).await;
    let (root, _) = root.map_err(|error| NodeError::Root { cause: crate::startup(&error) })?;
    Ok(NodeHandle::new(address, wish, ended, root.get_cell()))
}

impl From<DeviceError> for NodeError {
    fn from(error: DeviceError) -> Self {
        match error {
            DeviceError::Scratch(source) => Self::Device { what: crate::chain(&source) },
            DeviceError::Class { .. } => Self::Class(error),
            DeviceError::Thread(source) => Self::Thread(source),
        }
    }
}

#[cfg(test)]
mod tests;
