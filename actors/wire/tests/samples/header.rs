//! Headers of bulk transfers.

use shoal_config::spec::Dtype;
use shoal_exact::ExactSum;
use shoal_plan::ids::{BlockId, Digest, Generation, JobId, MicroBatch, NodeId, PieceId, Replica, Seat, StageIndex};
use shoal_plan::lanes::TreeNode;
use shoal_plan::ledger::Version;
use shoal_plan::protocol::{LossSum, Norm};
use shoal_plan::schedule::Pass;
use shoal_plan::space::{GradPart, GradUnit, Interval};
use shoal_wire::data::{Header, Purpose, StateReason};

use super::parts::*;
use super::{Sample, named, variants, wrapped};

/// A header of every purpose.
pub(crate) fn headers() -> Vec<Sample<Header>> {
    wrapped(purposes(), |purpose| Header {
        job: JobId(1),
        generation: generation(),
        from: NodeId(3),
        step: 70_001,
        purpose,
        elements: 1 << 21,
        dtype: Dtype::Bf16,
    })
}

fn purposes() -> Vec<Sample<Purpose>> {
    let to = Seat { stage: StageIndex(1), replica: Replica(2) };
    let unit = |part| GradUnit { block: BlockId(0), part };
    let node = TreeNode { start: 4, end: 8 };
    let state = |reason| Purpose::State { block: BlockId(1), interval: interval(), version: version(), reason };
    let (all, name) = variants!(Purpose: Activation = "activation", ActivationGradient = "activation_gradient",
        GradientPartial = "gradient_partial", ShadowGradient = "shadow_gradient", Weights = "weights",
        State = "state", SeatWeights = "seat_weights");
    let samples = vec![
        Purpose::Activation { to, micro_batch: MicroBatch(9), pass: Pass::Train },
        Purpose::Activation { to, micro_batch: MicroBatch(9), pass: Pass::Evaluate },
        Purpose::ActivationGradient { to, micro_batch: MicroBatch(9) },
        Purpose::GradientPartial { unit: unit(GradPart::Own), piece: PieceId(7), node, loss: None },
        Purpose::GradientPartial { unit: unit(GradPart::TiedHead), piece: PieceId(7), node, loss: Some(loss()) },
        Purpose::ShadowGradient { piece: PieceId(7), norm: Norm::Finite(sum(0.375)), loss: Some(loss()) },
        Purpose::ShadowGradient { piece: PieceId(7), norm: Norm::NotFinite, loss: None },
        Purpose::Weights { piece: PieceId(7) },
        state(StateReason::Recovery),
        state(StateReason::Fill),
        Purpose::SeatWeights { block: BlockId(1), interval: interval(), version: version() },
    ];
    named("", all, name, samples)
}

/// Every purpose with every number at its widest.
pub(crate) fn widest_headers() -> Vec<Sample<Header>> {
    let (max32, max64) = (u32::MAX, u64::MAX);
    // Minus one in two's complement: every limb is all ones.
    let widest = Norm::Finite(ExactSum::of(-(2f64.powi(-298))));
    let loss = Some(LossSum { loss: widest, tokens: max64 });
    let to = Seat { stage: StageIndex(u16::MAX), replica: Replica(u16::MAX) };
    let interval = Interval::new(max64 - 1, max64);
    let version = Version { step: max64, chain: Digest([255; 32]) };
    let unit = GradUnit { block: BlockId(max32), part: GradPart::TiedHead };
    let node = TreeNode { start: max32, end: max32 };
    let block = BlockId(max32);
    let piece = PieceId(max32);
    let purposes = vec![
        Purpose::Activation { to, micro_batch: MicroBatch(max32), pass: Pass::Evaluate },
        Purpose::ActivationGradient { to, micro_batch: MicroBatch(max32) },
        Purpose::GradientPartial { unit, piece, node, loss },
        Purpose::ShadowGradient { piece, norm: widest, loss },
        Purpose::Weights { piece },
        Purpose::State { block, interval, version, reason: StateReason::Fill },
        Purpose::SeatWeights { block, interval, version },
    ];
    purposes
        .into_iter()
        .map(|purpose| Sample {
            name: format!("{purpose:?}"),
            message: Header {
                job: JobId(max64),
                generation: Generation { incarnation: max32, number: max32 },
                from: NodeId(max64),
                step: max64,
                purpose,
                elements: max64,
                dtype: Dtype::Bf16,
            },
        })
        .collect()
}

impl Sample<Header> {
    /// Whether it carries exact sums of 80 bytes each.
    pub(crate) fn carries_sums(&self) -> bool {
        match &self.message.purpose {
            Purpose::GradientPartial { loss, .. } => loss.is_some(),
            Purpose::ShadowGradient { .. } => true,
            Purpose::Activation { .. }
            | Purpose::ActivationGradient { .. }
            | Purpose::Weights { .. }
            | Purpose::State { .. }
            | Purpose::SeatWeights { .. } => false,
        }
    }
}
