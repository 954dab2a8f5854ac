//! Why two processes do not get a connection.

use std::net::SocketAddr;
use std::time::Duration;

use super::peer::PeerId;

/// Why there is no connection. Messages say what was asked, what was found, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// Nobody listens.
    #[error("cannot connect to {address}: nobody listens there; check the address and that the daemon runs")]
    NobodyListens {
        /// The address asked for.
        address: SocketAddr,
    },
    /// No answer in time.
    #[error(
        "cannot connect to {address}: no answer within {} ms; check that its UDP and TCP port are reachable",
        waited.as_millis()
    )]
    NoAnswer {
        /// The address asked for.
        address: SocketAddr,
        /// How long.
        waited: Duration,
    },
    /// The certificates do not fit together.
    #[error("no connection with {address}: {found}; both ends need certificates of the same cluster (`shoalctl init`)")]
    Certificate {
        /// The other end.
        address: SocketAddr,
        /// What was asked and found.
        found: String,
    },
    /// The other end speaks another protocol.
    #[error(
        "no connection with {address}: this end speaks protocol {ours}, the other end {theirs}; run the same release on both"
    )]
    Protocol {
        /// The other end.
        address: SocketAddr,
        /// Version here.
        ours: u16,
        /// Version there.
        theirs: u16,
    },
    /// The other end is not who was asked for.
    #[error("no connection with {address}: asked for {asked}, found {found}; the address is stale")]
    WrongPeer {
        /// The address asked for.
        address: SocketAddr,
        /// Who was expected.
        asked: PeerId,
        /// What the other end calls itself.
        found: String,
    },
    /// The other end shows the certificate of someone else.
    #[error(
        "no connection with {address}: it says that it is {says}, but its certificate is that of {bearer}; \
         give each daemon the directory that `shoalctl init --node NAME` has made for it"
    )]
    Impostor {
        /// The other end.
        address: SocketAddr,
        /// Who it says it is, or was asked for.
        says: String,
        /// Whose certificate it has.
        bearer: String,
    },
    /// The other end turned us away.
    #[error("{address} refused the connection: {reason}")]
    Refused {
        /// The other end.
        address: SocketAddr,
        /// Its reason.
        reason: String,
    },
    /// The connection broke before both ends had said hello.
    #[error("the connection with {address} broke before it was ready: {cause}")]
    Broken {
        /// The other end.
        address: SocketAddr,
        /// What was seen.
        cause: String,
    },
    /// The endpoint is shut down.
    #[error("this end is shutting down")]
    ShutDown,
}
