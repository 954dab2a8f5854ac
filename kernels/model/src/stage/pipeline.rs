//! A pipeline in one process, for tests: walks the instruction lists of every seat and passes buffers by hand.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use shoal_config::spec::{Schedule, Wire};
use shoal_kernels::{Arena, Buffer, Device, Half, LossSum};
use shoal_plan::batch::{MicroBatch, micro_batches, validation_micro_batches};
use shoal_plan::blocks::ModelTable;
use shoal_plan::ids::{BlockId, NodeId, Seat};
use shoal_plan::job::Job;
use shoal_plan::lanes::TreeNode;
use shoal_plan::layout::{Plan, StagePlan};
use shoal_plan::schedule::{Instruction, Pass, program};
use shoal_plan::space::{GradUnit, Interval};

use super::{BlockCalls, Input, StageModel};
use crate::block::Phase;
use crate::testing::{Values, tokens};

/// How a model is laid out.
pub(crate) struct Layout {
    /// First block of each stage but the first.
    pub(crate) cuts: Vec<u32>,
    /// First lane of each replica but the first.
    pub(crate) lane_cuts: Vec<u32>,
    pub(crate) schedule: Schedule,
}

/// What a pass gives.
#[derive(Debug, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) loss: LossSum,
    /// Bits of every contribution, summed over all lanes.
    pub(crate) gradients: BTreeMap<GradUnit, Vec<u32>>,
}

pub(crate) struct Pipeline<'a> {
    job: &'a Job,
    table: Arc<ModelTable>,
    device: &'a Device,
    plan: Plan,
    models: BTreeMap<Seat, StageModel>,
}

impl<'a> Pipeline<'a> {
    pub(crate) fn new(job: &'a Job, weights: &Values, device: &'a Device, arena: &Arena, layout: &Layout) -> Self {
        let table = Arc::new(ModelTable::of(&job.spec.model));
        let lanes = ranges(&layout.lane_cuts, job.spec.parallel.virtual_replicas);
        let stages = ranges(&layout.cuts, table.blocks.len() as u32);
        let seats = vec![NodeId(1); lanes.len()];
        let stages = stages.into_iter().map(|blocks| StagePlan { blocks, seats: seats.clone() }).collect();
        let plan = Plan {
            arithmetic: device.arithmetic(),
            schedule: layout.schedule,
            stages,
            lanes,
            pieces: Vec::new(),
            spares: Vec::new(),
        };
        let models = plan.seats().map(|(seat, _)| {
            let blocks = plan.stages[seat.stage.0 as usize].blocks.clone();
            let lanes = plan.lanes[seat.replica.0 as usize].clone();
            let mut model =
                StageModel::new((device, arena), &job.spec, Arc::clone(&table), blocks, lanes).expect("room");
            for (b, values) in weights.iter().enumerate() {
                model.write_weights(device, BlockId(b as u32), Interval::new(0, values.len() as u64), values);
            }
            (seat, model)
        });
        Self { job, device, models: models.collect(), plan, table }
    }

    /// Runs a pass on all replicas; steps count from 1.
    pub(crate) fn run(&mut self, phase: Phase) -> Outcome {
        let mut loss = LossSum::ZERO;
        let mut sums: BTreeMap<GradUnit, BTreeMap<TreeNode, Vec<f32>>> = BTreeMap::new();
        for replica in 0..self.plan.replicas() {
            self.run_replica(replica, phase, &mut loss, &mut sums);
        }
        let root = TreeNode::root(self.job.spec.parallel.virtual_replicas);
        let wire = self.job.spec.train.numerics.wire;
        let gradients = sums
            .into_iter()
            .map(|(unit, parts)| (unit, total(&parts, root, root, wire).into_iter().map(f32::to_bits).collect()))
            .collect();
        Outcome { loss, gradients }
    }

    fn run_replica(
        &mut self,
        replica: u16,
        phase: Phase,
        loss: &mut LossSum,
        sums: &mut BTreeMap<GradUnit, BTreeMap<TreeNode, Vec<f32>>>,
    ) {
        let lanes = self.plan.lanes[usize::from(replica)].clone();
        let (pass, batches) = match phase {
            Phase::Train { step } => (Pass::Train, micro_batches(self.job, step, lanes)),
            Phase::Evaluate => (Pass::Evaluate, validation_micro_batches(self.job, lanes)),
        };
        let seats: Vec<Seat> = self.models.keys().copied().filter(|seat| seat.replica.0 == replica).collect();
        let mut lists: Vec<VecDeque<Instruction>> = seats
            .iter()
            .map(|&seat| program(&self.plan, &self.table, seat, pass, batches.len() as u32).into())
            .collect();
        // Buffers on their way into a seat, by seat and micro-batch.
        let mut forward: BTreeMap<(usize, u32), Buffer> = BTreeMap::new();
        let mut backward: BTreeMap<(usize, u32), Buffer> = BTreeMap::new();
        let mut losses: BTreeMap<u32, LossSum> = BTreeMap::new();
        let mut sent: BTreeMap<(usize, u32), Option<Buffer>> = BTreeMap::new();
        loop {
            let mut moved = false;
            for (s, seat) in seats.iter().enumerate() {
                let model = self.models.get_mut(seat).expect("made");
                while let Some(&next) = lists[s].front() {
                    let ready = match next {
                        Instruction::RecvActivation(m) => forward.contains_key(&(s, m.0)),
                        Instruction::RecvGradient(m) => backward.contains_key(&(s, m.0)),
                        Instruction::Load(_)
                        | Instruction::Forward(_)
                        | Instruction::SendActivation(_)
                        | Instruction::Loss(_)
                        | Instruction::Backward(_)
                        | Instruction::SendGradient(_)
                        | Instruction::Reduce(_) => true,
                    };
                    if !ready {
                        break;
                    }
                    lists[s].pop_front();
                    moved = true;
                    let batch = |m: u32| -> &MicroBatch { &batches[m as usize] };
                    match next {
                        Instruction::Load(_) | Instruction::RecvActivation(_) | Instruction::RecvGradient(_) => {}
                        Instruction::Forward(m) => {
                            let (inputs, _) = tokens(&self.job.spec, &batch(m.0).samples);
                            let input = match forward.remove(&(s, m.0)) {
                                Some(x) => Input::Activation(Arc::new(x)),
                                None => Input::Tokens(&inputs),
                            };
                            let y = model.forward(self.device, phase, batch(m.0), input).expect("room");
                            sent.insert((s, m.0), y);
                        }
                        Instruction::SendActivation(m) => {
                            let y = sent.remove(&(s, m.0)).flatten().expect("a middle stage gives an activation");
                            forward.insert((s + 1, m.0), y);
                        }
                        Instruction::Loss(m) => {
                            let (_, targets) = tokens(&self.job.spec, &batch(m.0).samples);
                            losses.insert(m.0, model.loss(self.device, batch(m.0), &targets).expect("room"));
                        }
                        Instruction::Backward(m) => {
                            let dy = backward.remove(&(s, m.0));
                            sent.insert((s, m.0), model.backward(self.device, batch(m.0), dy).expect("room"));
                        }
                        Instruction::SendGradient(m) => {
                            let dx = sent.remove(&(s, m.0)).flatten().expect("a later stage gives a gradient");
                            backward.insert((s - 1, m.0), dx);
                        }
                        Instruction::Reduce(unit) => {
                            for part in model.take_gradient(unit) {
                                let values = part.sum.host_visible().expect("a processor").to_vec();
                                let old = sums.entry(unit).or_default().insert(part.node, values);
                                assert!(old.is_none(), "two sums for {:?}", part.node);
                            }
                        }
                    }
                }
            }
            if !moved {
                break;
            }
        }
        assert!(lists.iter().all(VecDeque::is_empty), "the pipeline stands still: {lists:?}");
        for seat in &seats {
            self.models.get_mut(seat).expect("made").finish_step();
        }
        losses.values().for_each(|part| loss.merge(part));
    }

    pub(crate) fn calls(&self) -> Vec<BlockCalls> {
        self.models.values().flat_map(|model| model.calls().iter().copied()).collect()
    }

    pub(crate) fn abort(&mut self) {
        self.models.values_mut().for_each(StageModel::abort);
    }

    /// Starts a step and leaves it: the first micro-batch of every first stage is in flight.
    pub(crate) fn start_and_leave(&mut self, step: u64) {
        for (seat, model) in &mut self.models {
            if seat.stage.0 == 0 {
                let batch = &micro_batches(self.job, step, self.plan.lanes[seat.replica.0 as usize].clone())[0];
                let (inputs, targets) = tokens(&self.job.spec, &batch.samples);
                let y = model.forward(self.device, Phase::Train { step }, batch, Input::Tokens(&inputs)).expect("room");
                if y.is_none() {
                    model.loss(self.device, batch, &targets).expect("room");
                    model.backward(self.device, batch, None).expect("room");
                }
            }
        }
    }
}

fn ranges(cuts: &[u32], end: u32) -> Vec<Range<u32>> {
    let starts = std::iter::once(0).chain(cuts.iter().copied());
    let ends = cuts.iter().copied().chain([end]);
    starts.zip(ends).map(|(start, end)| start..end).collect()
}

/// The sum at a node: given, or the sum of its children, rounded as it would be sent unless it is the root.
fn total(parts: &BTreeMap<TreeNode, Vec<f32>>, node: TreeNode, root: TreeNode, wire: Wire) -> Vec<f32> {
    if let Some(values) = parts.get(&node) {
        return values.clone();
    }
    let (left, right) = node.children().expect("every lane is in some part");
    let (left, right) = (total(parts, left, root, wire), total(parts, right, root, wire));
    let sum = left.iter().zip(right).map(|(a, b)| a + b);
    match wire {
        Wire::Bf16 if node != root => sum.map(|x| Half::Bf16.nearest(x)).collect(),
        Wire::Bf16 | Wire::Fp32 => sum.collect(),
    }
}
