//! What goes into the holder machine and what comes out.
//!
//! The node's actors keep the bytes; the holder keeps the books. State lies in *slots*: one slot is the whole state
//! of one interval, in the arena of its role, with room for a gradient. The actor keeps a map from [`SlotId`] to
//! buffers and does what it is told, in order. Commands that touch one slot are carried out one after the other.

use std::sync::Arc;

use crate::digest::PieceLeaves;
use crate::ids::{BlockId, Generation, NodeId, PieceId, Replica};
use crate::layout::Plan;
use crate::ledger::{LedgerEntry, Version};
use crate::loss_scale::LossScale;
use crate::protocol::{FromNode, LossSum, Norm, Persist, ToNode, Trouble};
use crate::schedule::Pass;
use crate::space::Interval;

/// One slot of one node's holder. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotId(pub u32);

/// Which arena a slot lies in, and what its holder does for the piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Device arena; adds the lane partials.
    Owner,
    /// Host arena; gets the summed gradient from the owner.
    Shadow,
}

/// One fact for the holder.
#[derive(Clone, Debug, PartialEq)]
pub enum HolderEvent {
    /// The engine says something.
    Engine(ToNode),
    /// The whole gradient of a piece held here is here. On the owner: every lane partial of every unit is added. On a
    /// shadow: it came from the owner.
    Gradient {
        /// Of the pass or transfer that made it.
        generation: Generation,
        /// The step it would commit.
        step: u64,
        /// The piece.
        piece: PieceId,
        /// Its norm.
        norm: Norm,
        /// Loss of the step, with the head block's first piece only.
        loss: Option<LossSum>,
    },
    /// An update of one slot is done.
    Applied {
        /// The slot.
        slot: SlotId,
        /// The step it has now.
        step: u64,
    },
    /// State asked for by [`MoveCommand::Fetch`], or a fill, is whole in the slot. The actor writes only what the slot still
    /// lacks, once: a transfer that nobody waits for is dropped before it touches anything.
    StateArrived {
        /// Under which it was sent.
        generation: Generation,
        /// At this version.
        version: Version,
        /// Whose space.
        block: BlockId,
        /// Elements.
        interval: Interval,
    },
    /// A piece's weights are in the compute weights of every seat here that needs them: by fetch, by
    /// [`MoveCommand::Distribute`] from its owner, or copied from this node's own slot. The actor writes only what is newer
    /// than what is there.
    WeightsArrived {
        /// Under which they were sent.
        generation: Generation,
        /// Committed steps they stand for.
        step: u64,
        /// The piece.
        piece: PieceId,
    },
    /// A peer asks for state or weights.
    Asked {
        /// Who.
        from: NodeId,
        /// Under this generation.
        generation: Generation,
        /// At this version.
        version: Version,
        /// Whose space.
        block: BlockId,
        /// Elements.
        interval: Interval,
        /// What of it.
        wanted: Wanted,
    },
    /// A fill has left this node's buffers: the slot may be updated.
    FillSent {
        /// Under which it was sent.
        generation: Generation,
        /// The piece.
        piece: PieceId,
        /// To whom.
        to: NodeId,
    },
    /// The part of a validation pass that a seat here sums up is done.
    Evaluated {
        /// Of the pass.
        generation: Generation,
        /// Committed steps.
        step: u64,
        /// Whose part.
        replica: Replica,
        /// Sum of per-token losses.
        loss: LossSum,
    },
    /// The slots of [`SlotCommand::Persist`] are hashed and, if asked for, durable.
    Persisted {
        /// Of the command.
        generation: Generation,
        /// Of the command.
        request: u64,
        /// One entry a kind and slot.
        leaves: Vec<PieceLeaves>,
    },
    /// Something failed; slots named here are lost with it and must not be touched again.
    Trouble {
        /// What.
        trouble: Trouble,
        /// Slots whose content can no longer be trusted.
        lost: Vec<SlotId>,
    },
}

/// What one node can ask of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Every kind of state.
    State,
    /// Weights, for a seat.
    Weights,
}

/// One thing for the node's actors to do.
#[derive(Clone, Debug, PartialEq)]
pub enum HolderCommand {
    /// Tell the engine.
    Tell(FromNode),
    /// Stop all work of generations before this one: seats, open transfers both ways, serving, filling, persisting,
    /// gradients not yet whole. From here on nothing that belongs to them may change a slot. Updates are not stopped.
    Stop {
        /// The one that goes on.
        generation: Generation,
    },
    /// Do something to slots.
    Slot(SlotCommand),
    /// Do something with seats.
    Seat(SeatCommand),
    /// Move something between nodes.
    Move(MoveCommand),
    /// Stop all work of the job, then free its slots and seats. What was written stays.
    Release,
}

/// One thing to do to slots.
#[derive(Clone, Debug, PartialEq)]
pub enum SlotCommand {
    /// Make a slot. Parts from slots and from the seed are done at once; parts from peers are fetched, each by a
    /// [`MoveCommand::Fetch`] that follows. A shadow to be filled later has no parts.
    Build {
        /// Its name.
        slot: SlotId,
        /// Whose space.
        block: BlockId,
        /// Elements.
        interval: Interval,
        /// Where it lies.
        role: Role,
        /// What it is made of, ascending.
        parts: Vec<Part>,
    },
    /// Free a slot and its gradient.
    Free {
        /// The slot.
        slot: SlotId,
    },
    /// Apply a record to slots whose gradient of its step is whole; the gradient is then spent. Each slot is answered by
    /// [`HolderEvent::Applied`].
    Apply {
        /// The record.
        entry: Arc<LedgerEntry>,
        /// The slots.
        slots: Vec<SlotId>,
    },
    /// Forget the gradients of these slots.
    DropGradients {
        /// The slots.
        slots: Vec<SlotId>,
    },
    /// Hash, and perhaps write durably, these slots. No update comes before the answer.
    Persist {
        /// Under this generation.
        generation: Generation,
        /// What is wanted.
        persist: Persist,
        /// All slots are at this version.
        version: Version,
        /// The slots.
        slots: Vec<SlotId>,
    },
}

/// A part of a new slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Elements.
    pub interval: Interval,
    /// Where they come from.
    pub source: Source,
}

/// Where a part of a slot comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Initial values of the job's seed; what an optimizer remembers is zero.
    Seed,
    /// Another slot of this node.
    Slot(SlotId),
    /// Another node.
    Peer(NodeId),
}

/// One thing to do with seats.
#[derive(Clone, Debug, PartialEq)]
pub enum SeatCommand {
    /// Build this node's seats of the plan anew, and answer to these slots under these pieces' names.
    Adopt {
        /// Its generation.
        generation: Generation,
        /// The plan.
        plan: Arc<Plan>,
        /// Pieces of the plan held here, unfilled shadows included.
        slots: Vec<(PieceId, SlotId)>,
    },
    /// Run one pass on every seat here, after the passes ordered before. Its compute weights are here.
    Run {
        /// Under this generation.
        generation: Generation,
        /// Which pass.
        pass: Pass,
        /// Train: the step to compute. Evaluate: committed steps.
        step: u64,
        /// Train: the loss scale of that step, where gradients are scaled.
        loss_scale: Option<LossScale>,
    },
}

/// One thing to move.
#[derive(Clone, Debug, PartialEq)]
pub enum MoveCommand {
    /// Ask a peer. Answered by [`HolderEvent::StateArrived`] or [`HolderEvent::WeightsArrived`].
    Fetch {
        /// Under this generation.
        generation: Generation,
        /// At this version.
        version: Version,
        /// Whom.
        from: NodeId,
        /// Whose space.
        block: BlockId,
        /// Elements.
        interval: Interval,
        /// Where it goes.
        into: Target,
    },
    /// Answer a peer that asked.
    Serve {
        /// Under this generation.
        generation: Generation,
        /// At this version.
        version: Version,
        /// Whom.
        to: NodeId,
        /// Whose space.
        block: BlockId,
        /// Elements, and the slots they lie in, ascending.
        parts: Vec<(SlotId, Interval)>,
        /// What of it.
        wanted: Wanted,
    },
    /// Send a piece's whole gradient to its shadows. A shadow that is being filled does not hold up the commit: the
    /// elements must stay readable until they are sent, even if the slot is updated first.
    ShareGradient {
        /// Under this generation.
        generation: Generation,
        /// The step it would commit.
        step: u64,
        /// The piece.
        piece: PieceId,
        /// Where it lies.
        slot: SlotId,
        /// To whom.
        to: Vec<NodeId>,
        /// Its norm.
        norm: Norm,
        /// Loss of the step, with the head block's first piece.
        loss: Option<LossSum>,
    },
    /// Hand a piece's weights to the seats that compute with them: here (if this node is named) and there.
    Distribute {
        /// Under this generation.
        generation: Generation,
        /// Committed steps.
        step: u64,
        /// The piece.
        piece: PieceId,
        /// Where it lies.
        slot: SlotId,
        /// To whom.
        to: Vec<NodeId>,
    },
    /// Send a piece to a shadow that is to be filled. Answered by [`HolderEvent::FillSent`]; no update comes before.
    Fill {
        /// Under this generation.
        generation: Generation,
        /// At this version.
        version: Version,
        /// The piece.
        piece: PieceId,
        /// Where it lies.
        slot: SlotId,
        /// To whom.
        to: NodeId,
    },
}

/// Where fetched elements go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Every kind of state, into a slot.
    Slot(SlotId),
    /// Weights, into the compute weights of the seats here that need the piece.
    Seats(PieceId),
}
