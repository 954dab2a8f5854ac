//! What memory is for and where it counts.

use std::fmt;

/// Where an arena's memory counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// What a device computes in. On a processor: a capped arena of its own, with real copies in and out.
    Device,
    /// The host's memory.
    Host,
}

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tag {
    /// Parameters.
    Weight,
    /// Gradient accumulators and summed gradients.
    Gradient,
    /// Optimizer moments.
    Moment,
    /// What flows from block to block.
    Activation,
    /// What a forward pass keeps for its backward pass.
    Stash,
    /// Arrived or leaving.
    Communication,
    /// Input samples.
    Data,
    /// Lives within one operation or one block's pass.
    Temporary,
}

impl Tag {
    /// Every tag.
    pub const ALL: [Self; 8] = [
        Self::Weight,
        Self::Gradient,
        Self::Moment,
        Self::Activation,
        Self::Stash,
        Self::Communication,
        Self::Data,
        Self::Temporary,
    ];

    /// As printed.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Weight => "weight",
            Self::Gradient => "gradient",
            Self::Moment => "moment",
            Self::Activation => "activation",
            Self::Stash => "stash",
            Self::Communication => "communication",
            Self::Data => "data",
            Self::Temporary => "temporary",
        }
    }
}

impl Tier {
    /// As printed.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Host => "host",
        }
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
