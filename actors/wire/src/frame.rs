//! Frames: a length, a version, then postcard.
//!
//! ```text
//! u32 LE length of the rest | u16 LE version | postcard
//! ```
//!
//! A reader bounds the length before it allocates and compares the version before it decodes.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Most bytes of a control frame after its length. The largest are the leaf hashes of a node's pieces.
pub const MAX_CONTROL_BYTES: usize = 32 << 20;
/// Most bytes of a bulk header's frame after its length.
pub const MAX_HEADER_BYTES: usize = 512;
/// Bytes of the length in front of a frame.
pub const LENGTH_BYTES: usize = 4;
/// Bytes of a frame that are not postcard.
pub const OVERHEAD_BYTES: usize = LENGTH_BYTES + VERSION_BYTES;
const VERSION_BYTES: usize = 2;

/// Why a message cannot become a frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// It is over the bound.
    #[error("a frame of {bytes} bytes where {max} are allowed")]
    TooLarge {
        /// Bytes of the frame.
        bytes: usize,
        /// The bound.
        max: usize,
    },
    /// It has no postcard form.
    #[error("the message has no binary form")]
    Form(#[source] postcard::Error),
}

/// Why bytes are not a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// It is over the bound.
    #[error("a frame of {bytes} bytes where {max} are allowed")]
    TooLarge {
        /// Bytes announced.
        bytes: usize,
        /// The bound.
        max: usize,
    },
    /// It is of another version.
    #[error("a message of version {found} where {expected} is spoken")]
    Version {
        /// Version here.
        expected: u16,
        /// Version found.
        found: u16,
    },
    /// It ends before its version.
    #[error("a frame of {bytes} bytes, too short for its version")]
    TooShort {
        /// Bytes found.
        bytes: usize,
    },
    /// Its bytes are no message of this version.
    #[error("not a message of this version")]
    Form(#[source] postcard::Error),
    /// More bytes follow the message.
    #[error("{bytes} bytes follow the message")]
    Trailing {
        /// How many.
        bytes: usize,
    },
}

/// A whole frame, length included.
///
/// # Errors
/// If the frame after its length is over `max`, or the message has no binary form.
pub fn encode<T: Serialize>(version: u16, max: usize, message: &T) -> Result<Vec<u8>, EncodeError> {
    let mut frame = vec![0; LENGTH_BYTES];
    frame.extend_from_slice(&version.to_le_bytes());
    let mut frame = postcard::to_extend(message, frame).map_err(EncodeError::Form)?;
    let bytes = frame.len() - LENGTH_BYTES;
    if bytes > max {
        return Err(EncodeError::TooLarge { bytes, max });
    }
    let length = u32::try_from(bytes).map_err(|_| EncodeError::TooLarge { bytes, max })?;
    frame[..LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
    Ok(frame)
}

/// The length that a frame announces, bounded.
///
/// # Errors
/// If it is over `max`.
pub fn length(prefix: [u8; LENGTH_BYTES], max: usize) -> Result<usize, DecodeError> {
    let bytes = u32::from_le_bytes(prefix) as usize;
    if bytes > max { Err(DecodeError::TooLarge { bytes, max }) } else { Ok(bytes) }
}

/// The message of a frame, without the length in front of it.
///
/// # Errors
/// If it is of another version, malformed, or longer than its message.
pub fn decode<T: DeserializeOwned>(version: u16, frame: &[u8]) -> Result<T, DecodeError> {
    let Some((found, body)) = frame.split_first_chunk::<VERSION_BYTES>() else {
        return Err(DecodeError::TooShort { bytes: frame.len() });
    };
    let found = u16::from_le_bytes(*found);
    if found != version {
        return Err(DecodeError::Version { expected: version, found });
    }
    let (message, rest) = postcard::take_from_bytes(body).map_err(DecodeError::Form)?;
    if rest.is_empty() { Ok(message) } else { Err(DecodeError::Trailing { bytes: rest.len() }) }
}
