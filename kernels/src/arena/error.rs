//! Why a request for memory is refused.

use super::{Tag, Tier};

/// A request that was not met. Nothing was taken.
#[derive(Debug, thiserror::Error)]
pub enum ArenaError {
    /// Over the arena's own cap.
    #[error("{tier} arena is full: asked for {bytes} bytes of {tag}, {live} of {cap} bytes are in use")]
    OverCap {
        /// The arena's tier.
        tier: Tier,
        /// What for.
        tag: Tag,
        /// Footprint asked for.
        bytes: u64,
        /// Bytes alive in this arena.
        live: u64,
        /// The arena's cap.
        cap: u64,
    },
    /// Over the node's budget.
    #[error(
        "memory budget is spent: asked for {bytes} bytes of {tag} in the {tier} arena, {live} of {cap} bytes of the node are in use"
    )]
    OverBudget {
        /// The arena's tier.
        tier: Tier,
        /// What for.
        tag: Tag,
        /// Footprint asked for.
        bytes: u64,
        /// Bytes held by all arenas of the budget, after caches were given back.
        live: u64,
        /// The budget.
        cap: u64,
    },
    /// The system has no memory though the cap would allow it.
    #[error("the system refused {bytes} bytes of {tag} for the {tier} arena")]
    Refused {
        /// The arena's tier.
        tier: Tier,
        /// What for.
        tag: Tag,
        /// Footprint asked for.
        bytes: u64,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}
