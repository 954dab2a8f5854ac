//! An entry as bytes: `u16 LE version | 8 bytes of blake3 over version and body | postcard body`.

use shoal_wire::journal::{Entry, VERSION};

const HEAD: usize = 2 + CHECK;
const CHECK: usize = 8;

/// What bytes turned out to be.
#[derive(Debug, PartialEq)]
pub(super) enum Read {
    /// An entry.
    Entry(Box<Entry>),
    /// Sound, but of another version.
    Version(u16),
    /// Damaged.
    Damaged,
}

/// An entry as bytes.
pub(super) fn encode(entry: &Entry) -> Result<Vec<u8>, postcard::Error> {
    let mut bytes = postcard::to_extend(entry, vec![0; HEAD])?;
    bytes[..2].copy_from_slice(&VERSION.to_le_bytes());
    let check = checksum(&bytes);
    bytes[2..HEAD].copy_from_slice(&check);
    Ok(bytes)
}

/// Bytes as an entry.
pub(super) fn decode(bytes: &[u8]) -> Read {
    if bytes.len() < HEAD || checksum(bytes) != bytes[2..HEAD] {
        return Read::Damaged;
    }
    let version = u16::from_le_bytes([bytes[0], bytes[1]]);
    if version != VERSION {
        return Read::Version(version);
    }
    match postcard::take_from_bytes(&bytes[HEAD..]) {
        Ok((entry, [])) => Read::Entry(Box::new(entry)),
        Ok(_) | Err(_) => Read::Damaged,
    }
}

fn checksum(bytes: &[u8]) -> [u8; CHECK] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&bytes[..2]).update(&bytes[HEAD..]);
    let mut check = [0; CHECK];
    hasher.finalize_xof().fill(&mut check);
    check
}
