//! Why a worker cannot start.

use crate::device::DeviceError;
use crate::transport::BindError;
use crate::written::WrittenError;

/// Why a worker cannot start.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// Its transport cannot listen.
    #[error("the worker's transport cannot start")]
    Transport(#[source] BindError),
    /// Its data directory cannot be used.
    #[error("the worker's data directory cannot be used")]
    DataDir(#[source] WrittenError),
    /// Its compute device cannot be set up.
    #[error("the compute device cannot have its scratch memory ({what}); give the node more memory")]
    Device {
        /// What was asked and found.
        what: String,
    },
    /// The machine does not have the class of its devices.
    #[error(transparent)]
    Class(DeviceError),
    /// The system gives no thread.
    #[error("the system refused a thread for the worker")]
    Thread(#[source] std::io::Error),
    /// Its root actor did not start.
    #[error("the worker's root actor did not start: {cause}")]
    Root {
        /// What it said.
        cause: String,
    },
}
