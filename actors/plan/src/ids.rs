//! Names as types, so that one cannot stand for another.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

id!(
    /// A worker process, once: a restarted daemon gets a new one, so a zombie can never pass for its successor.
    NodeId(u64), "n"
);
id!(
    /// A submitted job.
    JobId(u64), "j"
);
id!(
    /// A block of the model, in forward order: 0 is the embedding, the last one the head.
    BlockId(u32), "b"
);
id!(
    /// A virtual replica: one of the V parts of every global batch.
    Lane(u32), "l"
);
id!(
    /// A piece of one plan: an interval of a block with its owner and shadows. Means nothing in another plan.
    PieceId(u32), "p"
);
id!(
    /// Pipeline stage, 0 first.
    StageIndex(u16), "s"
);
id!(
    /// Data-parallel replica of the pipeline.
    Replica(u16), "r"
);
id!(
    /// Micro-batch of one replica in one step, counted over its lanes in ascending order.
    MicroBatch(u32), "m"
);

/// One stage of one replica: the unit that a stage actor serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Seat {
    /// Which stage.
    pub stage: StageIndex,
    /// Of which replica.
    pub replica: Replica,
}

impl fmt::Display for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.stage, self.replica)
    }
}

/// Orders every plan and every message of a job. The incarnation grows at each coordinator start, beyond any that a
/// journal copy or a holder reports, so no number is ever used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Generation {
    /// Coordinator start.
    pub incarnation: u32,
    /// Counted within the incarnation.
    pub number: u32,
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.incarnation, self.number)
    }
}

/// A blake3 digest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of some bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// 64 hexadecimal digits.
    #[must_use]
    pub fn to_hex(&self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", &self.to_hex()[..12])
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex())
    }
}
