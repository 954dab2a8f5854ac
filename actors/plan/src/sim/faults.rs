//! What can go wrong, and where.

use std::fmt;

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// kill -9 of the node at the point.
    Kill,
    /// kill -9 of another node.
    KillOther,
    /// The coordinator dies and restarts from what was flushed, and perhaps a little more.
    CoordinatorRestart,
    /// The node's link to the coordinator breaks and comes back; what was under way is lost, late or repeated.
    LinkReset,
    /// The node's link to a peer fails for a while, or until it is evicted.
    PeerBreak,
    /// SIGSTOP, perhaps until it is taken for lost, and SIGCONT.
    Stop,
    /// The coordinator and the node do not hear each other, while peers do; then it comes back.
    Partition,
    /// A stage actor panics.
    StagePanic,
    /// The device's thread hangs, for ever or for a while: the node answers fences and never prepares.
    DeviceHang,
    /// A slot is lost with its actor.
    HoldingLost,
    /// A node joins.
    Join,
    /// A node wishes to leave.
    Drain,
    /// Messages under way are repeated.
    Repeat,
    /// Messages under way are late.
    Late,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Kill,
        Self::KillOther,
        Self::CoordinatorRestart,
        Self::LinkReset,
        Self::PeerBreak,
        Self::Stop,
        Self::Partition,
        Self::StagePanic,
        Self::DeviceHang,
        Self::HoldingLost,
        Self::Join,
        Self::Drain,
        Self::Repeat,
        Self::Late,
    ];
}

/// A point of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Point {
    /// A seat begins a training pass.
    PassBegun,
    /// A lane partial reaches an owner.
    PartialArrived,
    /// An owner has a whole gradient, and its shadows have not.
    GradientWhole,
    /// A shadow has it, too.
    ShadowHasGradient,
    /// A node has reported; the engine does not know.
    PreparedSent,
    /// The engine has decided; nobody knows.
    CommitDecided,
    /// A node knows; it has not applied.
    CommitArrived,
    /// An update runs.
    UpdateBegun,
    /// An update is through; nobody has the weights.
    UpdateDone,
    /// Weights reach a seat's node.
    WeightsArrived,
    /// A generation is written, not flushed.
    FenceJournaled,
    /// A node takes a fence.
    FenceArrived,
    /// A node has answered; the engine does not know.
    InventorySent,
    /// A plan is written, not flushed.
    PlanJournaled,
    /// A node takes a deployment.
    DeployArrived,
    /// A peer has been asked for state.
    FetchAsked,
    /// State leaves its source.
    FetchServed,
    /// State is there.
    StateArrived,
    /// A node is ready; the engine does not know.
    ReadySent,
    /// A node starts.
    StartArrived,
    /// A fill begins to leave its source.
    FillBegun,
    /// A fill is there; the engine does not know.
    FillArrived,
    /// A part of a validation pass is done; the engine does not know.
    EvaluatedSent,
    /// A node begins to hash or write.
    PersistBegun,
    /// A node has hashed or written; the engine does not know.
    PersistedSent,
}

impl Point {
    /// All of them.
    pub const ALL: [Self; 25] = [
        Self::PassBegun,
        Self::PartialArrived,
        Self::GradientWhole,
        Self::ShadowHasGradient,
        Self::PreparedSent,
        Self::CommitDecided,
        Self::CommitArrived,
        Self::UpdateBegun,
        Self::UpdateDone,
        Self::WeightsArrived,
        Self::FenceJournaled,
        Self::FenceArrived,
        Self::InventorySent,
        Self::PlanJournaled,
        Self::DeployArrived,
        Self::FetchAsked,
        Self::FetchServed,
        Self::StateArrived,
        Self::ReadySent,
        Self::StartArrived,
        Self::FillBegun,
        Self::FillArrived,
        Self::EvaluatedSent,
        Self::PersistBegun,
        Self::PersistedSent,
    ];

    /// What leads to it, if it is not reached in every step.
    pub(super) fn help(self) -> Help {
        match self {
            Self::FetchAsked | Self::FetchServed | Self::StateArrived => Help::Move,
            Self::FillBegun | Self::FillArrived => Help::Loss,
            Self::FenceJournaled
            | Self::FenceArrived
            | Self::InventorySent
            | Self::PlanJournaled
            | Self::DeployArrived
            | Self::ReadySent
            | Self::StartArrived => Help::Fence,
            Self::PassBegun
            | Self::PartialArrived
            | Self::GradientWhole
            | Self::ShadowHasGradient
            | Self::PreparedSent
            | Self::CommitDecided
            | Self::CommitArrived
            | Self::UpdateBegun
            | Self::UpdateDone
            | Self::WeightsArrived
            | Self::EvaluatedSent
            | Self::PersistBegun
            | Self::PersistedSent => Help::Nothing,
        }
    }

    /// How often it is chosen.
    pub(super) fn weight(self) -> usize {
        match self.help() {
            Help::Nothing | Help::Fence => 2,
            Help::Loss | Help::Move => 3,
        }
    }
}

/// What leads to a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Help {
    /// It comes by itself.
    Nothing,
    /// A fence.
    Fence,
    /// A loss, and a node that takes over.
    Loss,
    /// Somebody who leaves, so that pieces move first.
    Move,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}"))
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}"))
    }
}

/// A fault that waits for its point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planned {
    pub fault: Fault,
    pub point: Point,
    /// Not before this step is committed.
    pub after: u64,
    /// Occurrences of the point to let pass.
    pub skip: u64,
    /// How often what leads to it was made to happen.
    pub helped: u32,
    /// How often it could not strike where it was to.
    pub tries: u32,
}
