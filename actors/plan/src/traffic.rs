//! What nodes send each other under a plan, in bytes of payload: a function of plan and job alone, that byte counters are held
//! against. What dies on its way because of a fence is not in it.

use std::collections::BTreeMap;
use std::iter::Sum;
use std::ops::{AddAssign, Mul, Range};

use serde::Serialize;
use shoal_config::JobSpec;

use crate::batch::{lane_samples, validation_windows};
use crate::blocks::ModelTable;
use crate::cost::boundary_elements;
use crate::ids::NodeId;
use crate::job::Job;
use crate::lanes::{TreeNode, subtrees};
use crate::layout::Plan;
use crate::memory::F32;

#[cfg(test)]
mod tests;

/// Bytes of payload, by what they are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bytes {
    /// Activations to the next stage, in the wire's type.
    pub activation: u64,
    /// Their gradients to the stage before, in the wire's type.
    pub activation_gradient: u64,
    /// Sums over lanes to the owners of pieces: of some lanes in the wire's type, of all lanes in f32.
    pub gradient_partial: u64,
    /// Whole gradients from owners to shadows, in f32.
    pub shadow_gradient: u64,
    /// Weights from owners to the nodes that compute with them, in f32.
    pub weights: u64,
}

impl Bytes {
    /// All of them.
    #[must_use]
    pub fn total(self) -> u64 {
        self.activation + self.activation_gradient + self.gradient_partial + self.shadow_gradient + self.weights
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        self.activation += other.activation;
        self.activation_gradient += other.activation_gradient;
        self.gradient_partial += other.gradient_partial;
        self.shadow_gradient += other.shadow_gradient;
        self.weights += other.weights;
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, bytes| {
            sum += bytes;
            sum
        })
    }
}

impl Mul<u64> for Bytes {
    type Output = Self;

    fn mul(self, times: u64) -> Self {
        Self {
            activation: self.activation * times,
            activation_gradient: self.activation_gradient * times,
            gradient_partial: self.gradient_partial * times,
            shadow_gradient: self.shadow_gradient * times,
            weights: self.weights * times,
        }
    }
}

/// By sender and receiver. Nothing is sent from a node to itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic(BTreeMap<(NodeId, NodeId), Bytes>);

impl Traffic {
    /// What one node sends another.
    #[must_use]
    pub fn between(&self, from: NodeId, to: NodeId) -> Bytes {
        self.0.get(&(from, to)).copied().unwrap_or_default()
    }

    /// What all send.
    #[must_use]
    pub fn total(&self) -> Bytes {
        self.0.values().copied().sum()
    }

    fn send(&mut self, from: NodeId, to: NodeId, bytes: Bytes) {
        if from != to {
            *self.0.entry((from, to)).or_default() += bytes;
        }
    }
}

/// A step that is committed, every shadow filled.
#[must_use]
pub fn of_step(plan: &Plan, spec: &JobSpec, table: &ModelTable) -> Traffic {
    let mut traffic = Traffic::default();
    let lanes = spec.parallel.virtual_replicas;
    let wire = spec.train.numerics.wire.dtype().bytes();
    for replica in 0..plan.lanes.len() {
        let run = plan.lanes[replica].clone();
        let bytes = wire * boundary_elements(&spec.model) * samples(u64::from(spec.train.global_batch), lanes, &run);
        for pair in plan.stages.windows(2) {
            let (before, after) = (pair[0].seats[replica], pair[1].seats[replica]);
            traffic.send(before, after, Bytes { activation: bytes, ..Bytes::default() });
            traffic.send(after, before, Bytes { activation_gradient: bytes, ..Bytes::default() });
        }
        for stage in &plan.stages {
            for unit in table.units_computed_by(stage.blocks.clone()) {
                for piece in plan.pieces.iter().filter(|piece| piece.block == unit.block) {
                    let Some(part) = piece.interval.intersection(table.extent(unit)) else { continue };
                    for node in subtrees(lanes, run.clone()) {
                        let each = if node == TreeNode::root(lanes) { F32 } else { wire };
                        let bytes = Bytes { gradient_partial: each * part.len(), ..Bytes::default() };
                        traffic.send(stage.seats[replica], piece.owner, bytes);
                    }
                }
            }
        }
    }
    for piece in &plan.pieces {
        let bytes = F32 * piece.interval.len();
        for shadow in &piece.shadows {
            traffic.send(piece.owner, *shadow, Bytes { shadow_gradient: bytes, ..Bytes::default() });
        }
    }
    hand_out(&mut traffic, plan, table);
    traffic
}

/// A validation pass.
#[must_use]
pub fn of_validation(plan: &Plan, job: &Job) -> Traffic {
    let mut traffic = Traffic::default();
    let each = job.spec.train.numerics.wire.dtype().bytes() * boundary_elements(&job.spec.model);
    for (replica, run) in plan.lanes.iter().enumerate() {
        let activation = each * samples(validation_windows(job), job.spec.parallel.virtual_replicas, run);
        for pair in plan.stages.windows(2) {
            let bytes = Bytes { activation, ..Bytes::default() };
            traffic.send(pair[0].seats[replica], pair[1].seats[replica], bytes);
        }
    }
    traffic
}

/// Weights to seats that do not own them, before the first step after a deployment.
#[must_use]
pub fn of_deployment(plan: &Plan, table: &ModelTable) -> Traffic {
    let mut traffic = Traffic::default();
    hand_out(&mut traffic, plan, table);
    traffic
}

/// Every piece from its owner to each node that computes with it, once.
fn hand_out(traffic: &mut Traffic, plan: &Plan, table: &ModelTable) {
    for piece in &plan.pieces {
        let needs = |blocks: &Range<u32>| {
            let mut needed = table.weights_needed_by(blocks.clone()).into_iter();
            needed.any(|(block, part)| block == piece.block && part.intersection(piece.interval).is_some())
        };
        let readers = plan.stages.iter().filter(|stage| needs(&stage.blocks)).flat_map(|stage| &stage.seats);
        for reader in readers.collect::<std::collections::BTreeSet<_>>() {
            let bytes = Bytes { weights: F32 * piece.interval.len(), ..Bytes::default() };
            traffic.send(piece.owner, *reader, bytes);
        }
    }
}

/// Samples of a batch that a run of lanes takes.
fn samples(batch: u64, lanes: u32, run: &Range<u32>) -> u64 {
    run.clone().map(|lane| lane_samples(batch, lanes, lane)).map(|samples| samples.end - samples.start).sum()
}
