//! Why something could not be sent.

use std::time::Duration;

use super::payload::Refused;
use super::peer::PeerId;

/// Why a control message was not taken for sending.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// There is no connection to this peer now.
    #[error("there is no connection to {0}")]
    NotConnected(PeerId),
    /// The peer does not read, and the queue is full. The message is lost, so the link was ended: both ends are told of a
    /// [`super::DownCause::LinkReset`].
    #[error("the queue to {peer} is full at {messages} messages")]
    QueueFull {
        /// The peer.
        peer: PeerId,
        /// Messages waiting.
        messages: usize,
    },
    /// The message is over the bound of a control frame; a mistake of this end.
    #[error("the message to {peer} cannot be encoded")]
    Encode {
        /// The peer.
        peer: PeerId,
        /// Why.
        #[source]
        source: shoal_wire::EncodeError,
    },
}

/// Why a bulk transfer did not arrive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BulkError {
    /// There is no connection to this peer now.
    #[error("there is no connection to {0}")]
    NotConnected(PeerId),
    /// The connection broke before the peer had everything.
    #[error("the connection to {0} broke during the transfer")]
    LinkBroken(PeerId),
    /// No byte moved for [`super::Timing::progress`].
    #[error(
        "the transfer to {peer} was given up: none of its bytes moved for {} s while the link was up; see the log of {peer}",
        waited.as_secs_f32()
    )]
    Stalled {
        /// The peer.
        peer: PeerId,
        /// For so long.
        waited: Duration,
    },
    /// Its generation was fenced here.
    #[error("the generation of the transfer is over")]
    Fenced,
    /// The peer does not want it.
    #[error("{peer} refused the transfer: {reason}")]
    Refused {
        /// The peer.
        peer: PeerId,
        /// Why.
        reason: Refused,
    },
    /// The payload has another length than the header says; a mistake of this end.
    #[error("a header for {header} elements with a payload of {payload}")]
    Length {
        /// By the header.
        header: u64,
        /// In the payload.
        payload: u64,
    },
    /// The header is over its bound; a mistake of this end.
    #[error("the header cannot be encoded")]
    Encode(#[source] shoal_wire::EncodeError),
}
