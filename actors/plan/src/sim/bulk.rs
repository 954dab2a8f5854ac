//! What nodes send each other.

use std::sync::Arc;

use crate::holder::Wanted;
use crate::ids::{BlockId, Generation, NodeId, PieceId, Seat};
use crate::ledger::Version;
use crate::protocol::{LossSum, Norm};
use crate::schedule::Pass;
use crate::space::Interval;

/// A transfer, with what its header says.
#[derive(Clone, Debug)]
pub(super) struct Bulk {
    pub from: NodeId,
    pub to: NodeId,
    pub generation: Generation,
    pub body: Body,
    /// When it was sent, and whether it is a repetition.
    pub sent: u64,
}

#[derive(Clone, Debug)]
pub(super) enum Body {
    /// To the next stage: a hash a lane.
    Activation { to: Seat, pass: Pass, step: u64, lanes: Vec<u64> },
    /// To the stage before.
    Backward { to: Seat, step: u64, lanes: Vec<u64> },
    /// To the owner of pieces.
    Partials { from: Seat, step: u64, parts: Vec<Part> },
    /// To a shadow.
    ShadowGradient { step: u64, piece: PieceId, values: Arc<Vec<u64>>, norm: Norm, loss: Option<LossSum> },
    /// To a node with seats, after an update or as the answer to a fetch.
    Weights { step: u64, piece: PieceId, values: Vec<u64> },
    /// Weights and moments.
    State { version: Version, block: BlockId, interval: Interval, values: Vec<u64> },
    /// A fetch.
    Ask { version: Version, block: BlockId, interval: Interval, wanted: Wanted },
}

/// One seat's part of the gradient of one piece.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub piece: PieceId,
    pub tied: bool,
    pub values: Vec<u64>,
    pub loss: Option<LossSum>,
}
