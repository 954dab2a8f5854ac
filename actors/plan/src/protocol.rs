//! What the engine and the holders of state say to each other about one job.
//!
//! The engine (`engine`, on the coordinator) and the holder (`holder`, on every node) are both state machines without
//! I/O. They share these messages with the simulator and with the actors, so what is tested in virtual time is what runs.
//!
//! One step: every holder of a piece reports [`FromNode::Prepared`]; the engine answers all with [`ToNode::Commit`].
//! One failure: [`ToNode::Fence`], [`FromNode::Inventory`] from every member, [`ToNode::Deploy`],
//! [`FromNode::Ready`] from every member, [`ToNode::Start`].
//!
//! Links deliver in order or break. A break that is not a death is an event to the engine, which answers with a fence; so
//! any message may be lost, late, or repeated across a fence, and a generation tells.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use shoal_exact::ExactSum;

use crate::ids::{BlockId, Generation, NodeId, PieceId, Replica, Seat};
use crate::layout::Plan;
use crate::ledger::{LedgerEntry, Version};
use crate::loss_scale::LossScale;
use crate::space::Interval;

/// Engine to node.
#[allow(clippy::large_enum_variant, reason = "a few a step; a box would cost more than it saves")]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToNode {
    /// Stop at once; finish an update in progress; report. From here on refuse every older generation.
    Fence {
        /// The generation that begins.
        generation: Generation,
        /// Who takes part.
        members: Vec<NodeId>,
        /// The ledger is flushed up to this step: older kept entries may go.
        flushed: u64,
    },
    /// Settle the step in flight, become what the plan says, fetch what is missing, report ready.
    Deploy(Box<Deploy>),
    /// Everyone is ready: release what the plan does not name, and run.
    Start {
        /// Under this generation.
        generation: Generation,
        /// From this version.
        version: Version,
        /// The loss scale of the next step, where gradients are scaled.
        loss_scale: Option<LossScale>,
        /// What to do first.
        next: Next,
        /// Shadows to fill at this version, before the next update.
        fills: Vec<Fill>,
        /// Pieces to hash or write at this version, before the next update.
        persist: Option<Persist>,
    },
    /// The step is decided: apply.
    Commit {
        /// Under this generation.
        generation: Generation,
        /// The record; it names the step.
        entry: LedgerEntry,
        /// What to do once it is applied.
        next: Next,
        /// Shadows to fill at the new version, before the next update.
        fills: Vec<Fill>,
        /// Pieces to hash or write at the new version, before the next update.
        persist: Option<Persist>,
        /// The ledger is flushed up to this step.
        flushed: u64,
    },
    /// The job is over for this node: free everything but what was written.
    Release {
        /// Under this generation.
        generation: Generation,
    },
}

impl ToNode {
    /// The generation that it speaks for.
    #[must_use]
    pub fn generation(&self) -> Generation {
        match self {
            Self::Deploy(deploy) => deploy.generation,
            Self::Fence { generation, .. }
            | Self::Start { generation, .. }
            | Self::Commit { generation, .. }
            | Self::Release { generation } => *generation,
        }
    }
}

/// What to do at a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Next {
    /// Wait for [`ToNode::Start`].
    Hold,
    /// Validate, then wait.
    Evaluate,
    /// Train the next step.
    Train,
    /// Validate, then train the next step.
    EvaluateThenTrain,
}

/// A plan with all that it takes to get there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Deploy {
    /// Under this generation.
    pub generation: Generation,
    /// What becomes of the step in flight.
    pub resolve: Resolution,
    /// The deployment under which that step was computed: gradients of another attempt at it are never applied.
    pub attempt: Generation,
    /// The version that training goes on from, after `resolve`.
    pub version: Version,
    /// The plan.
    pub plan: Arc<Plan>,
    /// State to be moved before anyone is ready. The receiver asks the source for it.
    pub fetches: Vec<Fetch>,
    /// Shadows named by the plan that are complete only after a later fill: they prepare nothing until filled.
    pub unfilled: Vec<(PieceId, NodeId)>,
}

/// What becomes of the step in flight.
#[allow(clippy::large_enum_variant, reason = "a few a step; a box would cost more than it saves")]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Resolution {
    /// Every piece starts from the seed: version 0. Whatever was held is dropped.
    Initialise,
    /// It was decided, or everything it takes is there: apply this record where it is prepared and not yet applied.
    Commit(LedgerEntry),
    /// It was never decided: drop what was prepared.
    Abort,
}

/// The whole state of an interval, to be copied from one node to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetch {
    /// Who asks.
    pub to: NodeId,
    /// Who has it at the deployed version.
    pub from: NodeId,
    /// Whose space.
    pub block: BlockId,
    /// Elements.
    pub interval: Interval,
}

/// A shadow to be filled behind training. The source is a counted holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fill {
    /// The piece.
    pub piece: PieceId,
    /// Who has it.
    pub from: NodeId,
    /// Who gets it, and from the next step on its gradient.
    pub to: NodeId,
}

/// Pieces are to be hashed, and perhaps written, at one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Persist {
    /// Names the request in the answer.
    pub request: u64,
    /// How much.
    pub mode: PersistMode,
}

/// How much to persist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PersistMode {
    /// Owners hash, nobody writes.
    Hash,
    /// Owners and counted shadows hash and write their pieces durably.
    Write,
}

/// Node to engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromNode {
    /// Answer to a fence.
    Inventory(Inventory),
    /// Answer to a deployment: everything the plan names here is here, unfilled shadows apart.
    Ready {
        /// Under this generation.
        generation: Generation,
    },
    /// Every piece held here has its gradient for the step.
    Prepared(Prepared),
    /// A shadow is complete. It prepares from the next step on.
    Filled {
        /// Under this generation.
        generation: Generation,
        /// The piece.
        piece: PieceId,
        /// At this version.
        version: Version,
    },
    /// One replica's part of a validation pass.
    Evaluated {
        /// Under this generation.
        generation: Generation,
        /// At this step's version.
        step: u64,
        /// Whose part.
        replica: Replica,
        /// Sum of per-token losses.
        loss: LossSum,
    },
    /// What this node hashed or wrote.
    Persisted {
        /// Under this generation.
        generation: Generation,
        /// The request.
        request: u64,
        /// At this version.
        version: Version,
        /// Leaves of the pieces, see `digest`.
        leaves: Vec<crate::digest::PieceLeaves>,
    },
    /// Something here failed that did not take the process with it.
    Trouble {
        /// Under this generation.
        generation: Generation,
        /// What.
        trouble: Trouble,
    },
}

/// What a node holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Inventory {
    /// The fence it answers.
    pub generation: Generation,
    /// The highest generation it had seen before.
    pub seen: Generation,
    /// The generation of the deployment it last became, the lowest if none: state from before a rollback is refused.
    pub adopted: Generation,
    /// State, complete in every kind.
    pub holdings: Vec<Holding>,
    /// Ledger entries it keeps, ascending.
    pub entries: Vec<LedgerEntry>,
    /// The oldest piece of work that its threads have in hand; none if all are idle. The books do not know: whoever runs the
    /// threads adds it.
    pub in_hand: Option<InHand>,
}

/// A piece of work that a thread has begun and not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InHand {
    /// Which thread, for people.
    pub what: String,
    /// For how long, in milliseconds.
    pub millis: u64,
}

/// One held interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Holding {
    /// Whose space.
    pub block: BlockId,
    /// Elements.
    pub interval: Interval,
    /// Applied up to here.
    pub version: Version,
    /// The report for `version.step + 1`, if its gradient is here too.
    pub prepared: Option<Norm>,
    /// Loss of that step, if this holder carries it.
    pub loss: Option<LossSum>,
}

/// Every piece held by one node has its gradient.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prepared {
    /// Under this generation.
    pub generation: Generation,
    /// The step it would commit.
    pub step: u64,
    /// One report a piece.
    pub pieces: Vec<(PieceId, Norm)>,
    /// From the holders of the head block's first piece.
    pub loss: Option<LossSum>,
}

/// Squares of one piece's gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Norm {
    /// Their exact sum (per 16-element chunk in f64, then exact).
    Finite(ExactSum),
    /// Something in it is infinite or not a number.
    NotFinite,
}

/// Summed loss with its token count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossSum {
    /// Sum of per-token losses, each rounded to f32.
    pub loss: Norm,
    /// Tokens that entered it.
    pub tokens: u64,
}

impl LossSum {
    /// The mean over its tokens; none of no token, or if it is not finite.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        match self.loss {
            Norm::Finite(sum) if self.tokens > 0 => Some(sum.to_f64() / self.tokens as f64),
            Norm::Finite(_) | Norm::NotFinite => None,
        }
    }
}

/// Something failed that did not take the process with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trouble {
    /// A stage actor panicked; its supervisor can restart it from this node's own state.
    StageFailed {
        /// Which.
        seat: Seat,
        /// What it said.
        cause: String,
    },
    /// A holding was lost with the actor that kept it; the inventory no longer lists it.
    HoldingLost {
        /// What it said.
        cause: String,
    },
    /// A link to a peer failed while both reach the coordinator.
    PeerUnreachable {
        /// The other end.
        peer: NodeId,
        /// What was seen.
        cause: String,
    },
    /// The plan does not fit this node's memory budget; nothing to retry.
    OverBudget {
        /// Job, node, tag and bytes.
        cause: String,
    },
    /// The data here is missing or differs from what was submitted; nothing to retry.
    Data {
        /// What was found.
        cause: String,
    },
    /// A piece could not be written.
    Disk {
        /// What was found.
        cause: String,
    },
}
