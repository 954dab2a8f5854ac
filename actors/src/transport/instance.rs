//! A process, told apart from any other that ever has its address.

use std::fmt;

use super::tls;

/// Names one process's transport for its lifetime, drawn at random.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct InstanceId(pub(super) [u8; 16]);

impl fmt::Debug for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..4].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A process's name and the key it proves it with on its death-watch. Told to peers inside TLS only.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Instance {
    pub(super) id: InstanceId,
    pub(super) key: [u8; 32],
}

/// A number used once.
pub(super) type Nonce = [u8; 16];
/// What only the holder of a key can answer to a nonce.
pub(super) type Proof = [u8; 32];

impl Instance {
    pub(super) fn draw() -> Result<Self, rustls::Error> {
        Ok(Self { id: InstanceId(tls::random()?), key: tls::random()? })
    }

    pub(super) fn prove(&self, nonce: &Nonce) -> Proof {
        *blake3::keyed_hash(&self.key, nonce).as_bytes()
    }

    pub(super) fn check(&self, nonce: &Nonce, proof: &Proof) -> bool {
        // blake3 compares hashes in constant time.
        blake3::keyed_hash(&self.key, nonce) == *proof
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)
    }
}
