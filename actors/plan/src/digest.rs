//! The digest of a whole state, computable by its scattered holders.
//!
//! For each kind in (weight, moment1, moment2), each block, each parameter in table order: the parameter's elements as
//! little-endian f32, cut into segments of [`SEGMENT`] elements (the last one shorter), each hashed by blake3. The state
//! digest is blake3 over the concatenation of these leaf hashes. The planner cuts pieces at segment edges only, so a
//! holder can hash its own segments.

use serde::{Deserialize, Serialize};

use crate::ids::{BlockId, Digest};
use crate::space::{Interval, Kind};

/// Elements of one leaf.
pub const SEGMENT: u64 = 4096;

/// Leaf hashes of one kind of one held interval, in ascending order of segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PieceLeaves {
    /// Whose space.
    pub block: BlockId,
    /// Elements; cut at segment edges.
    pub interval: Interval,
    /// Which kind.
    pub kind: Kind,
    /// One hash a segment.
    pub leaves: Vec<Digest>,
}
