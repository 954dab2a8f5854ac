//! A plan: immutable, numbered, complete. The executor has nothing left to choose.

use std::collections::BTreeSet;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use shoal_config::spec::Schedule;
use shoal_exact::Arithmetic;

use crate::ids::{BlockId, Digest, NodeId, PieceId, Replica, Seat, StageIndex};
use crate::space::Interval;

/// Who computes what and who holds what. Its number is the generation it is deployed under.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// What every node of it computes; the first plan of a job fixes it for all that follow.
    pub arithmetic: Arithmetic,
    /// Order of micro-batches on a stage.
    pub schedule: Schedule,
    /// Stages in pipeline order; their block ranges partition the model.
    pub stages: Vec<StagePlan>,
    /// Lanes of each replica: contiguous runs that partition `0..V`, none empty.
    pub lanes: Vec<Range<u32>>,
    /// Pieces, indexed by [`PieceId`]; their intervals partition every block's space.
    pub pieces: Vec<PiecePlan>,
    /// Members that compute nothing and hold nothing under this plan.
    pub spares: Vec<NodeId>,
}

/// One pipeline stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagePlan {
    /// Its blocks.
    pub blocks: Range<u32>,
    /// The node of each replica's seat.
    pub seats: Vec<NodeId>,
}

/// One piece of the state: weights and both moments of an interval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PiecePlan {
    /// Whose space the interval lies in.
    pub block: BlockId,
    /// Elements.
    pub interval: Interval,
    /// Adds the lane partials, updates, and hands the weights to the seats that compute with them.
    pub owner: NodeId,
    /// Keep a copy, on nodes other than the owner and each other.
    pub shadows: Vec<NodeId>,
}

impl PiecePlan {
    /// Owner and shadows.
    pub fn holders(&self) -> impl Iterator<Item = NodeId> + '_ {
        std::iter::once(self.owner).chain(self.shadows.iter().copied())
    }
}

impl Plan {
    /// What is said of a plan for so many nodes that gives a piece fewer shadows than were asked for.
    #[must_use]
    pub fn shortfall(&self, want: u32, nodes: usize) -> Option<String> {
        let have = self.pieces.iter().map(|piece| piece.shadows.len()).min().unwrap_or(0);
        (have < want as usize).then(|| {
            format!(
                "redundancy {want} was asked for, {have} found room on {}: a loss may cost steps until nodes join",
                crate::draw::number(nodes, "node")
            )
        })
    }

    /// The pieces with their ids.
    pub fn pieces(&self) -> impl Iterator<Item = (PieceId, &PiecePlan)> {
        self.pieces.iter().enumerate().map(|(i, piece)| (PieceId(i as u32), piece))
    }

    /// One piece.
    #[must_use]
    pub fn piece(&self, id: PieceId) -> &PiecePlan {
        &self.pieces[id.0 as usize]
    }

    /// The node of a seat.
    #[must_use]
    pub fn node_of(&self, seat: Seat) -> NodeId {
        self.stages[seat.stage.0 as usize].seats[seat.replica.0 as usize]
    }

    /// Every seat, by stage, then replica.
    pub fn seats(&self) -> impl Iterator<Item = (Seat, NodeId)> + '_ {
        self.stages.iter().enumerate().flat_map(|(s, stage)| {
            stage
                .seats
                .iter()
                .enumerate()
                .map(move |(r, node)| (Seat { stage: StageIndex(s as u16), replica: Replica(r as u16) }, *node))
        })
    }

    /// Nodes with a seat or a piece.
    #[must_use]
    pub fn nodes(&self) -> BTreeSet<NodeId> {
        let seated = self.seats().map(|(_, node)| node);
        seated.chain(self.pieces.iter().flat_map(PiecePlan::holders)).collect()
    }

    /// The stage that computes a block.
    #[must_use]
    pub fn stage_of(&self, block: BlockId) -> StageIndex {
        let found = self.stages.iter().position(|s| s.blocks.contains(&block.0));
        StageIndex(found.expect("PL-1 (stages)") as u16)
    }

    /// Number of data-parallel replicas.
    #[must_use]
    pub fn replicas(&self) -> u16 {
        self.lanes.len() as u16
    }

    /// A name for the content, the same wherever it is computed.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(format!("{self:?}").as_bytes())
    }
}
