//! The header of a bulk transfer: one unidirectional stream, this header, then little-endian elements of the type it names.

use serde::{Deserialize, Serialize};
use shoal_config::spec::{Dtype, Wire};
use shoal_plan::ids::{BlockId, Generation, JobId, MicroBatch, NodeId, PieceId, Seat};
use shoal_plan::lanes::TreeNode;
use shoal_plan::ledger::Version;
use shoal_plan::protocol::{LossSum, Norm};
use shoal_plan::schedule::Pass;
use shoal_plan::space::{GradUnit, Interval};

/// Version of [`Header`].
pub const VERSION: u16 = 2;

/// Says what the elements are and whether they still matter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Job.
    pub job: JobId,
    /// Under this generation; an older one is dropped on arrival.
    pub generation: Generation,
    /// Sender.
    pub from: NodeId,
    /// The step in progress (or, for state, committed).
    pub step: u64,
    /// What for.
    pub purpose: Purpose,
    /// Elements that follow.
    pub elements: u64,
    /// Their type on the way; at both ends they are f32.
    pub dtype: Dtype,
}

/// What a bulk transfer is for. Byte counters have one line for each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Purpose {
    /// To the next stage: `[samples, context, width]`.
    Activation {
        /// Receiving seat.
        to: Seat,
        /// Which micro-batch of the replica.
        micro_batch: MicroBatch,
        /// Training or validation.
        pass: Pass,
    },
    /// To the stage before, same shape.
    ActivationGradient {
        /// Receiving seat.
        to: Seat,
        /// Which micro-batch of the replica.
        micro_batch: MicroBatch,
    },
    /// A lane subtree's sum, cut to one piece, to its owner.
    GradientPartial {
        /// Which contribution.
        unit: GradUnit,
        /// Whose owner it goes to.
        piece: PieceId,
        /// Which subtree.
        node: TreeNode,
        /// Loss of these lanes, with the head block's first piece.
        loss: Option<LossSum>,
    },
    /// A piece's whole gradient, from its owner to a shadow, with what the owner reports of it.
    ShadowGradient {
        /// The piece.
        piece: PieceId,
        /// Its norm.
        norm: Norm,
        /// Loss of the step, with the head block's first piece.
        loss: Option<LossSum>,
    },
    /// A piece's weights after the step, to a node that computes with them.
    Weights {
        /// The piece.
        piece: PieceId,
    },
    /// The state of an interval, answer to a fetch or a fill: every kind that the job's optimizer has, one after the other in
    /// the order of the model's table; of factors, those of parameters that start in the interval.
    State {
        /// Whose space.
        block: BlockId,
        /// Elements of a kind as large as the weights; `ModelTable::state_elements` says how many follow in all.
        interval: Interval,
        /// At this version.
        version: Version,
        /// Answer to a fetch before training goes on, or a fill behind it.
        reason: StateReason,
    },
    /// Weights alone, for a seat that joins the computation: answer to a weight fetch.
    SeatWeights {
        /// Whose space.
        block: BlockId,
        /// Elements.
        interval: Interval,
        /// At this version.
        version: Version,
    },
}

/// A line of the byte counters: a purpose without its particulars, or control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TrafficKind {
    /// Messages of the control stream.
    Control,
    /// [`Purpose::Activation`].
    Activation,
    /// [`Purpose::ActivationGradient`].
    ActivationGradient,
    /// [`Purpose::GradientPartial`].
    GradientPartial,
    /// [`Purpose::ShadowGradient`].
    ShadowGradient,
    /// [`Purpose::Weights`].
    Weights,
    /// [`Purpose::State`] before anyone is ready.
    StateRecovery,
    /// [`Purpose::State`] behind training.
    StateFill,
    /// [`Purpose::SeatWeights`].
    SeatWeights,
}

impl TrafficKind {
    /// Every line.
    pub const ALL: [Self; 9] = [
        Self::Control,
        Self::Activation,
        Self::ActivationGradient,
        Self::GradientPartial,
        Self::ShadowGradient,
        Self::Weights,
        Self::StateRecovery,
        Self::StateFill,
        Self::SeatWeights,
    ];

    /// The word for it in reports.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::Activation => "activation",
            Self::ActivationGradient => "activation_gradient",
            Self::GradientPartial => "gradient_partial",
            Self::ShadowGradient => "shadow_gradient",
            Self::Weights => "weights",
            Self::StateRecovery => "state_recovery",
            Self::StateFill => "state_fill",
            Self::SeatWeights => "seat_weights",
        }
    }
}

impl Purpose {
    /// The type of its elements in a job with this wire type and so many lanes: what is rounded goes as the wire takes it,
    /// everything that is state or the sum of all lanes as f32.
    #[must_use]
    pub fn dtype(&self, wire: Wire, lanes: u32) -> Dtype {
        match self {
            Self::Activation { .. } | Self::ActivationGradient { .. } => wire.dtype(),
            Self::GradientPartial { node, .. } if *node != TreeNode::root(lanes) => wire.dtype(),
            Self::GradientPartial { .. }
            | Self::ShadowGradient { .. }
            | Self::Weights { .. }
            | Self::State { .. }
            | Self::SeatWeights { .. } => Dtype::F32,
        }
    }

    /// The line it is counted on.
    #[must_use]
    pub fn kind(&self) -> TrafficKind {
        match self {
            Self::Activation { .. } => TrafficKind::Activation,
            Self::ActivationGradient { .. } => TrafficKind::ActivationGradient,
            Self::GradientPartial { .. } => TrafficKind::GradientPartial,
            Self::ShadowGradient { .. } => TrafficKind::ShadowGradient,
            Self::Weights { .. } => TrafficKind::Weights,
            Self::State { reason: StateReason::Recovery, .. } => TrafficKind::StateRecovery,
            Self::State { reason: StateReason::Fill, .. } => TrafficKind::StateFill,
            Self::SeatWeights { .. } => TrafficKind::SeatWeights,
        }
    }
}

/// Why state moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum StateReason {
    /// Before anyone is ready.
    Recovery,
    /// A shadow is filled behind training.
    Fill,
}
