//! Who is at the other end, and what arrives from there.

use std::fmt;
use std::net::SocketAddr;

use shoal_plan::ids::NodeId;
use shoal_wire::control::{Control, Hello};
use shoal_wire::data::Header;

use super::caller::Caller;
use super::connect::ConnectError;
use super::payload::Destination;

/// The process at the other end of a connection.
///
/// The order breaks ties: of two dials that cross, the one from the lower peer stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PeerId {
    /// The coordinator, whichever incarnation.
    Coordinator,
    /// A worker process.
    Worker(NodeId),
}

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Coordinator => f.write_str(shoal_config::node::COORDINATOR),
            Self::Worker(node) => node.fmt(f),
        }
    }
}

/// What an endpoint hands to its owner. Of one peer: `PeerUp`, then its control messages in the order sent and its bulk
/// transfers as they complete, then `PeerDown`; nothing of an old connection follows a new `PeerUp`.
#[derive(Debug)]
pub enum Inbound {
    /// Someone dialled and said hello. Admit it under a name, or refuse it.
    Knock(Caller),
    /// A connection is ready, whoever dialled.
    PeerUp {
        /// The far end.
        peer: PeerId,
        /// What it said first.
        hello: Hello,
    },
    /// A control message.
    Control {
        /// The far end.
        from: PeerId,
        /// What it says.
        message: Control,
    },
    /// A whole bulk transfer, in the buffer that the sink gave for it.
    Bulk {
        /// The far end.
        from: PeerId,
        /// What the elements are.
        header: Header,
        /// The elements.
        buffer: Destination,
    },
    /// The connection is gone.
    PeerDown {
        /// The far end.
        peer: PeerId,
        /// Why.
        cause: DownCause,
    },
    /// Someone dialled and could not be let in: other cluster, other protocol, no hello.
    Rejected {
        /// From here.
        address: SocketAddr,
        /// What was asked, found, and what to do.
        cause: ConnectError,
    },
}

/// Why a connection is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DownCause {
    /// The process is dead: its death-watch closed and a reconnect was refused or answered by another process.
    Died,
    /// Nothing was heard for the idle timeout and nobody answers the death-watch: stopped process, dead host, partition.
    Silent,
    /// The connection broke while the process is alive; messages may be missing. `PeerUp` or another `PeerDown` follows.
    LinkReset,
    /// The far end said goodbye, with this reason.
    Closed(String),
}

impl fmt::Display for DownCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Died => f.write_str("its process died"),
            Self::Silent => f.write_str("nothing was heard from it"),
            Self::LinkReset => f.write_str("the link broke while its process lives"),
            Self::Closed(reason) => write!(f, "it said goodbye: {reason}"),
        }
    }
}
