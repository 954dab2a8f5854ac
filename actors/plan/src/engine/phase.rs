//! What each phase of a job waits for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::face::Millis;
use crate::digest::PieceLeaves;
use crate::ids::{Generation, NodeId, PieceId, Replica};
use crate::layout::Plan;
use crate::ledger::Version;
use crate::planner::Held;
use crate::protocol::{Fetch, Inventory, LossSum, Persist, Prepared, Resolution};

/// Where the engine stands, with what it waits for.
#[derive(Clone, Debug)]
pub(super) enum Phase {
    /// For a first node.
    Queued,
    /// For nodes that join at the same time.
    Gathering { until: Millis },
    /// For nodes that may come back with what they hold. The clock starts with the first tick.
    Absent { until: Option<Millis>, expected: BTreeSet<NodeId> },
    /// For the generation to be durable.
    FenceJournaled { mark: u64, members: Vec<NodeId> },
    /// For inventories.
    Fencing(Fencing),
    /// For the plan to be durable.
    DeployJournaled { mark: u64, deployment: Deployment },
    /// For members to be ready.
    Deploying(Deploying),
    /// For gradients, validation, pieces written.
    Running(Box<Running>),
    /// For any node.
    Parked,
    /// For the end to be durable.
    Closing { mark: u64 },
    /// Nothing.
    Over,
}

#[derive(Clone, Debug)]
pub(super) struct Fencing {
    pub members: Vec<NodeId>,
    pub inventories: BTreeMap<NodeId, Inventory>,
    pub until: Millis,
}

/// A plan and the way to it.
#[derive(Clone, Debug)]
pub(super) struct Deployment {
    pub members: Vec<NodeId>,
    pub resolve: Resolution,
    pub attempt: Generation,
    pub version: Version,
    pub fetches: Vec<Fetch>,
    pub unfilled: Vec<(PieceId, NodeId)>,
    /// Who holds what before anything moves.
    pub held: Held,
}

#[derive(Clone, Debug)]
pub(super) struct Deploying {
    pub deployment: Deployment,
    pub ready: BTreeSet<NodeId>,
    pub until: Millis,
}

#[derive(Clone, Debug)]
pub(super) struct Running {
    /// Nodes with a seat or a piece.
    pub audience: Vec<NodeId>,
    /// Pieces that each node has to report before the next commit.
    pub required: BTreeMap<NodeId, BTreeSet<PieceId>>,
    pub reports: BTreeMap<NodeId, Prepared>,
    /// The validation pass at the last commit, if one is on.
    pub validation: Validation,
    pub persists: Persists,
}

/// Where the validation pass at the last commit stands. Its result is durable before the next step is committed, so a
/// restarted coordinator that does not find it knows that the next step was never decided.
#[derive(Clone, Debug)]
pub(super) enum Validation {
    /// None is on.
    Idle,
    /// Parts are missing.
    Begun(BTreeMap<Replica, LossSum>),
    /// Its result is journaled before this mark.
    Journaled { mark: u64 },
}

/// Where hashing or writing the state at the last commit stands.
#[derive(Clone, Debug)]
pub(super) enum Persists {
    /// Nothing was ordered.
    Idle,
    /// Answers are missing.
    Begun(Persisting),
    /// The last state is written by all its holders.
    LastWritten,
}

#[derive(Clone, Debug)]
pub(super) struct Persisting {
    pub persist: Persist,
    /// Operator's requests that it answers.
    pub answers: Vec<u64>,
    pub waiting: BTreeSet<NodeId>,
    pub leaves: Vec<PieceLeaves>,
}

/// The last plan journaled.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    pub generation: Generation,
    pub plan: Arc<Plan>,
    /// Shadows that are not full holders; those not listed are.
    pub shadows: BTreeMap<(PieceId, NodeId), Shadow>,
}

/// A shadow on its way to be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shadow {
    /// Nothing was sent.
    Unfilled,
    /// A fill was ordered.
    Filling { from: NodeId },
    /// It is complete and has to report from this step on; a full holder once that step is committed.
    Filled { counts_from: u64 },
}

impl Standing {
    /// Whether a holder has to report before a step is committed.
    pub(super) fn counts(&self, piece: PieceId, node: NodeId, step: u64) -> bool {
        match self.shadows.get(&(piece, node)) {
            None => true,
            Some(Shadow::Filled { counts_from }) => *counts_from <= step,
            Some(Shadow::Unfilled | Shadow::Filling { .. }) => false,
        }
    }

    /// A step was committed: shadows that had to report are full holders.
    pub(super) fn committed(&mut self, step: u64) {
        self.shadows.retain(|_, shadow| match shadow {
            Shadow::Filled { counts_from } => *counts_from > step,
            Shadow::Unfilled | Shadow::Filling { .. } => true,
        });
    }

    /// What full holders hold.
    pub(super) fn held(&self) -> Held {
        let mut held = Held::none();
        for (id, piece) in self.plan.pieces() {
            for node in piece.holders().filter(|node| !self.shadows.contains_key(&(id, *node))) {
                held.insert(node, piece.block, piece.interval);
            }
        }
        held
    }

    /// Full shadows of the worst-off piece.
    pub(super) fn full_shadows(&self) -> u32 {
        let full = |(id, piece): (PieceId, &crate::layout::PiecePlan)| {
            piece.shadows.iter().filter(|node| !self.shadows.contains_key(&(id, **node))).count() as u32
        };
        self.plan.pieces().map(full).min().unwrap_or(0)
    }

    /// Shadows planned for the worst-off piece.
    pub(super) fn planned_shadows(&self) -> u32 {
        self.plan.pieces.iter().map(|piece| piece.shadows.len() as u32).min().unwrap_or(0)
    }

    /// Nodes with a seat or a piece.
    pub(super) fn nodes(&self) -> BTreeSet<NodeId> {
        self.plan.nodes()
    }
}

/// What happens once something is durable.
pub(super) enum Durable {
    /// The fence is sent.
    Fence,
    /// The plan is deployed.
    Plan,
    /// The job lets go of its nodes.
    End,
}

/// What has come to the end of its time.
pub(super) enum Overdue {
    /// Gathering members.
    Members,
    /// Nothing: an absence whose clock starts with this tick.
    Clock,
    /// The return of those who hold something.
    Return,
    /// Inventories.
    Inventories,
    /// Being ready.
    Ready,
}

impl Phase {
    /// Training, if that is what goes on.
    pub(super) fn running(&self) -> Option<&Running> {
        match self {
            Self::Running(running) => Some(running),
            Self::Queued
            | Self::Gathering { .. }
            | Self::Absent { .. }
            | Self::FenceJournaled { .. }
            | Self::Fencing(_)
            | Self::DeployJournaled { .. }
            | Self::Deploying(_)
            | Self::Parked
            | Self::Closing { .. }
            | Self::Over => None,
        }
    }

    /// What a phase that waits for a mark does when everything up to `mark` is durable.
    pub(super) fn once_durable(&self, mark: u64) -> Option<Durable> {
        let (waits, then) = match self {
            Self::FenceJournaled { mark, .. } => (*mark, Durable::Fence),
            Self::DeployJournaled { mark, .. } => (*mark, Durable::Plan),
            Self::Closing { mark } => (*mark, Durable::End),
            Self::Queued
            | Self::Gathering { .. }
            | Self::Absent { .. }
            | Self::Fencing(_)
            | Self::Deploying(_)
            | Self::Running(_)
            | Self::Parked
            | Self::Over => return None,
        };
        (waits <= mark).then_some(then)
    }

    /// What a phase that waits until some time has waited for in vain.
    pub(super) fn overdue(&self, now: Millis) -> Option<Overdue> {
        let (until, what) = match self {
            Self::Absent { until: None, .. } => (now, Overdue::Clock),
            Self::Gathering { until } => (*until, Overdue::Members),
            Self::Absent { until: Some(until), .. } => (*until, Overdue::Return),
            Self::Fencing(fencing) => (fencing.until, Overdue::Inventories),
            Self::Deploying(deploying) => (deploying.until, Overdue::Ready),
            Self::Queued
            | Self::FenceJournaled { .. }
            | Self::DeployJournaled { .. }
            | Self::Running(_)
            | Self::Parked
            | Self::Closing { .. }
            | Self::Over => return None,
        };
        (until <= now).then_some(what)
    }
}
