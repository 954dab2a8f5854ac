//! The first bytes of a control stream, both ways.
//!
//! ```text
//! preamble: "SHOAL\0" | u16 LE control version | 16 bytes instance id | 32 bytes instance key
//! then a frame with a Hello
//! ```
//!
//! The preamble reads the same in every version, so that a mismatch can be told from garbage.

use quinn::{ReadExactError, RecvStream};
use shoal_wire::control::{self, Hello, Who};
use shoal_wire::{DecodeError, frame};

use super::instance::{Instance, InstanceId};
use super::peer::PeerId;

const MAGIC: &[u8; 6] = b"SHOAL\0";
const PREAMBLE_BYTES: usize = 56;
/// A hello is names and numbers.
const MAX_HELLO_BYTES: usize = 64 << 10;

/// What the other end says first.
#[derive(Debug)]
pub(super) struct Greeting {
    pub(super) instance: Instance,
    pub(super) hello: Hello,
}

/// Why there is no greeting.
#[derive(Debug, thiserror::Error)]
pub(super) enum GreetError {
    #[error("it speaks protocol {theirs}")]
    Protocol { theirs: u16 },
    #[error("its first bytes are not ours")]
    Magic,
    #[error("its hello cannot be read")]
    Decode(#[from] DecodeError),
    #[error("the stream ended before its hello")]
    Stream(#[from] ReadExactError),
}

pub(super) fn encode(own: &Instance, hello: &Hello) -> Result<Vec<u8>, shoal_wire::EncodeError> {
    let mut bytes = Vec::with_capacity(256);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&control::VERSION.to_le_bytes());
    bytes.extend_from_slice(&own.id.0);
    bytes.extend_from_slice(&own.key);
    bytes.extend(frame::encode(control::VERSION, MAX_HELLO_BYTES, hello)?);
    Ok(bytes)
}

pub(super) async fn read(stream: &mut RecvStream) -> Result<Greeting, GreetError> {
    let mut preamble = [0; PREAMBLE_BYTES];
    stream.read_exact(&mut preamble).await?;
    let (magic, rest) = preamble.split_at(6);
    if magic != MAGIC {
        return Err(GreetError::Magic);
    }
    let (version, rest) = rest.split_at(2);
    let theirs = u16::from_le_bytes([version[0], version[1]]);
    if theirs != control::VERSION {
        return Err(GreetError::Protocol { theirs });
    }
    let mut instance = Instance { id: InstanceId([0; 16]), key: [0; 32] };
    let (id, key) = rest.split_at(16);
    instance.id.0.copy_from_slice(id);
    instance.key.copy_from_slice(key);
    let mut length = [0; frame::LENGTH_BYTES];
    stream.read_exact(&mut length).await?;
    let mut body = vec![0; frame::length(length, MAX_HELLO_BYTES)?];
    stream.read_exact(&mut body).await?;
    let hello: Hello = frame::decode(control::VERSION, &body)?;
    if hello.protocol == control::VERSION {
        Ok(Greeting { instance, hello })
    } else {
        Err(GreetError::Protocol { theirs: hello.protocol })
    }
}

/// The name under which a speaker is known, if it has one yet.
pub(super) fn name_of(who: &Who) -> Option<PeerId> {
    match who {
        Who::Coordinator { .. } => Some(PeerId::Coordinator),
        Who::Worker(introduction) => introduction.node.map(PeerId::Worker),
        Who::Peer(node) => Some(PeerId::Worker(*node)),
    }
}
