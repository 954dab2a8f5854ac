//! Links between processes: QUIC with mutual TLS, a death-watch beside it, and byte counters at its edge.
//!
//! ```text
//! Endpoint (one a process, its own thread and runtime)
//!   accept loop        a caller says hello, its owner admits or refuses it
//!   link a peer        one QUIC connection: control on one bidirectional stream, a unidirectional stream a bulk transfer
//!   death-watch a peer one idle TCP connection on the port of the same number; closes within a millisecond of a kill
//! ```
//!
//! Who is of the cluster, its certificate tells, and as whom it may speak ([`Bearer`]).
//!
//! The owner of an [`Endpoint`] calls [`Endpoint::connect`], [`Endpoint::send`], [`Endpoint::send_bulk`] and
//! [`Endpoint::fence`], and reads [`Inbound`] from one channel. Nothing here knows about jobs beyond the generation in a
//! bulk header.

pub mod pki;

mod accept;
mod bearer;
mod bulk;
mod caller;
mod config;
mod connect;
mod control;
mod counters;
mod dial;
mod endpoint;
mod fences;
mod hello;
mod instance;
mod link;
mod patience;
mod payload;
mod peer;
mod quic;
mod restore;
mod send;
mod shared;
mod stall;
mod table;
mod tls;
mod watch;

pub use bearer::{Bearer, Callee};
pub use caller::Caller;
pub use config::{EndpointConfig, Limits, Timing, Tuning};
pub use connect::ConnectError;
pub use endpoint::{BindError, Endpoint, Path};
pub use payload::{BulkSink, BulkSource, BulkTarget, Destination, NoBulk, Payload, Refused};
pub use peer::{DownCause, Inbound, PeerId};
pub use pki::{ClusterCa, ClusterName, Identity, PkiError};
pub use send::{BulkError, SendError};
pub use shoal_config::node::COORDINATOR;
pub use watch::nobody_listens;

#[cfg(test)]
mod tests;
