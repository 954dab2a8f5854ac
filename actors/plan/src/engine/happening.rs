//! What a person may want to know, each with its reason and numbers.

use std::fmt;

use serde::{Deserialize, Serialize};
use shoal_exact::Arithmetic;

use super::face::LossCause;
use crate::ids::{Digest, NodeId};

/// One entry of the event log. The coordinator stamps it with time, generation and step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Happening {
    /// The job was submitted.
    Submitted,
    /// A node joined.
    NodeJoined {
        /// Which.
        node: NodeId,
    },
    /// A node was lost.
    NodeLost {
        /// Which.
        node: NodeId,
        /// How that is known.
        cause: LossCause,
    },
    /// Membership or plan changes, and why.
    Decided {
        /// The decision with its numbers, for people.
        reason: String,
    },
    /// The step in flight was decided again or given up after a fence.
    Resolved {
        /// The step.
        step: u64,
        /// Whether it was committed.
        committed: bool,
        /// Why.
        reason: String,
    },
    /// Training (again) from a version.
    Started {
        /// Committed steps.
        step: u64,
        /// Plan in a line.
        plan: String,
    },
    /// Every interval has all its shadows.
    RedundancyFull,
    /// Committed steps are lost.
    StepsLost {
        /// Steps before.
        from: u64,
        /// Steps after.
        to: u64,
        /// Which intervals had no holder left.
        reason: String,
    },
    /// A validation pass finished.
    Evaluated {
        /// At this step.
        step: u64,
    },
    /// The whole state was hashed.
    Persisted {
        /// At this step.
        step: u64,
        /// Its digest.
        digest: Digest,
        /// Every counted holder wrote its pieces, too.
        written: bool,
    },
    /// A stage actor failed and is restarted.
    StageFailed {
        /// Where.
        node: NodeId,
        /// What it said.
        cause: String,
    },
    /// Something deserves attention though the job goes on.
    Warning {
        /// What, with numbers.
        reason: String,
    },
    /// The operator said something.
    Ordered {
        /// What.
        order: String,
    },
    /// The job ended.
    Ended {
        /// How.
        reason: String,
    },
    /// A step was committed and changes nothing.
    StepSkipped {
        /// Which.
        step: u64,
        /// Who first reported what was not finite, if that is known.
        node: Option<NodeId>,
        /// What was found, by block and node.
        reason: String,
    },
    /// A node is there and gets nothing to do: it would compute other bits than the others.
    NodeLeftOut {
        /// Which.
        node: NodeId,
        /// Its instruction-set class.
        class: String,
        /// What it computes.
        arithmetic: Arithmetic,
        /// What the job computes.
        wanted: Arithmetic,
    },
    /// Nothing moved for too long: a fence follows.
    Stalled {
        /// In what, and who has not reported.
        what: String,
        /// For how many milliseconds.
        waited: u64,
    },
}

impl Happening {
    /// One word for the event log.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::NodeJoined { .. } => "node_joined",
            Self::NodeLost { .. } => "node_lost",
            Self::Decided { .. } => "decided",
            Self::Resolved { .. } => "resolved",
            Self::Started { .. } => "started",
            Self::RedundancyFull => "redundancy_full",
            Self::StepsLost { .. } => "steps_lost",
            Self::Evaluated { .. } => "evaluated",
            Self::Persisted { .. } => "persisted",
            Self::StageFailed { .. } => "stage_failed",
            Self::Warning { .. } => "warning",
            Self::Ordered { .. } => "ordered",
            Self::Ended { .. } => "ended",
            Self::StepSkipped { .. } => "step_skipped",
            Self::Stalled { .. } => "stalled",
            Self::NodeLeftOut { .. } => "node_left_out",
        }
    }

    /// The node it is about.
    #[must_use]
    pub fn node(&self) -> Option<NodeId> {
        match self {
            Self::NodeJoined { node }
            | Self::NodeLost { node, .. }
            | Self::StageFailed { node, .. }
            | Self::NodeLeftOut { node, .. } => Some(*node),
            Self::StepSkipped { node, .. } => *node,
            Self::Submitted
            | Self::Decided { .. }
            | Self::Resolved { .. }
            | Self::Started { .. }
            | Self::RedundancyFull
            | Self::StepsLost { .. }
            | Self::Evaluated { .. }
            | Self::Persisted { .. }
            | Self::Warning { .. }
            | Self::Ordered { .. }
            | Self::Ended { .. }
            | Self::Stalled { .. } => None,
        }
    }
}

impl fmt::Display for Happening {
    /// The reason, for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Submitted => f.write_str("job accepted"),
            Self::NodeJoined { node } => write!(f, "{node} joined"),
            Self::NodeLost { node, cause } => write!(f, "{node} lost: {cause}"),
            Self::Decided { reason } | Self::Warning { reason } | Self::Ended { reason } => f.write_str(reason),
            Self::Resolved { step, committed: true, reason } => write!(f, "step {step} committed: {reason}"),
            Self::Resolved { step, committed: false, reason } => write!(f, "step {step} redone: {reason}"),
            Self::Started { step, plan } => write!(f, "from step {step} on: {plan}"),
            Self::StepSkipped { step, reason, .. } => write!(f, "step {step} changes nothing: {reason}"),
            Self::Stalled { what, waited } => {
                write!(f, "no progress for {}.{} s in {what}", waited / 1000, waited % 1000 / 100)
            }
            Self::NodeLeftOut { node, class, arithmetic, wanted } => write!(
                f,
                "{node} is left out: its products are {arithmetic} ({class}), those of this job {wanted} since its first plan, so it \
                 would compute other bits"
            ),
            Self::RedundancyFull => f.write_str("every interval has all its shadows"),
            Self::StepsLost { from, to, reason } => write!(f, "steps {} to {from} lost: {reason}", to + 1),
            Self::Evaluated { step } => write!(f, "validated at step {step}"),
            Self::Persisted { step, digest, written } => {
                write!(f, "state of step {step} {}: {digest}", if *written { "hashed and written" } else { "hashed" })
            }
            Self::StageFailed { node, cause } => write!(f, "a stage on {node} failed: {cause}"),
            Self::Ordered { order } => f.write_str(order),
        }
    }
}
