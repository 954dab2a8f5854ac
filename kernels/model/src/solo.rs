//! A job in one place: the whole model as one stage, its whole state beside it, no daemon, no pieces.
//!
//! It draws the same samples, sums the same lanes, makes the same ledger and applies the same updates as a cluster, so it
//! is what a cluster's state is compared with, and what a bench measures.
//!
//! * SO-1 (the job has such state): a kind is asked for only if the job's table has it.
//! * SO-2 (every block was hashed whole): leaves are made of whole blocks, of every kind.
//! * SO-3 (a sum that was taken is nobody else's): the model gives it away.
//! * SO-4 (all lanes are one subtree): one stage computes them all, and a run of all lanes is the root.
//! * SO-5 (whole samples): tokens come in multiples of the context.

use std::sync::{Arc, OnceLock};

use shoal_exact::ExactSum;
use shoal_kernels::{Arena, ArenaError, Buffer, Device, LossSum, SquareSum, Tag};
use shoal_plan::batch::{MicroBatch, context, micro_batches, validation_micro_batches};
use shoal_plan::blocks::{BlockTable, ModelTable};
use shoal_plan::commit::{StepReport, entry};
use shoal_plan::digest::{PieceLeaves, assemble, leaves};
use shoal_plan::ids::{BlockId, Digest};
use shoal_plan::job::Job;
use shoal_plan::ledger::{Head, LedgerEntry, Version};
use shoal_plan::loss_scale::LossScale;
use shoal_plan::protocol::{self, Norm};
use shoal_plan::space::{GradPart, GradUnit, Interval, Kind};

use crate::init::Initial;
use crate::rounding::Rounding;
use crate::update::{Measured, Optimizer, State};
use crate::{Input, ModelError, Phase, StageModel};

/// A job in one place.
pub struct Solo {
    job: Job,
    table: Arc<ModelTable>,
    /// Has the weights, which are updated where it computes with them, unless they are rounded there.
    model: StageModel,
    /// Where they are: the weights that are updated, by block.
    masters: Option<Vec<Buffer>>,
    /// What the optimizer remembers, by block.
    memory: Vec<Vec<(Kind, Buffer)>>,
    optimizer: Optimizer,
    head: Head,
}

impl Solo {
    /// The job at version 0, initialised from its seed or its files.
    ///
    /// # Errors
    /// If the arena has no room, or the files are not what was submitted.
    pub fn new(device: &Device, arena: &Arena, job: &Job) -> Result<Self, ModelError> {
        let table = Arc::new(ModelTable::of_job(&job.spec));
        let (blocks, lanes) = (table.blocks.len() as u32, job.spec.parallel.virtual_replicas);
        let model = StageModel::new((device, arena), &job.spec, Arc::clone(&table), 0..blocks, 0..lanes)?;
        let memory = table.blocks.iter().map(|block| {
            memory(arena, &table, block.id).map_err(|source| ModelError::Weights { block: block.id, source })
        });
        let memory = memory.collect::<Result<_, _>>()?;
        let masters = Rounding::of_precision(&job.spec).is_rounded().then(|| masters(arena, &table)).transpose()?;
        let optimizer = Optimizer::of(&job.spec, Arc::clone(&table));
        let mut solo = Self {
            job: job.clone(),
            model,
            masters,
            memory,
            optimizer,
            head: Head::genesis(job, device.arithmetic()),
            table,
        };
        let table = Arc::clone(&solo.table);
        let initial = Initial::open(job, &table).map_err(|source| ModelError::Initial { source })?;
        for block in &table.blocks {
            let failed = OnceLock::new();
            let whole = Interval::new(0, block.len);
            let weights = match &mut solo.masters {
                Some(masters) => masters[block.id.0 as usize].view_mut(),
                None => solo.model.weights_mut(block.id, whole),
            };
            device.upload_with(weights, |range, values| {
                let interval = Interval::new(range.start as u64, range.end as u64);
                if let Err(source) = initial.fill(&table, block.id, interval, values) {
                    // One reason is enough.
                    let _ = failed.set(source);
                }
            });
            if let Some(source) = failed.into_inner() {
                return Err(ModelError::Initial { source });
            }
            if let Some(masters) = &solo.masters {
                solo.model.copy_weights(device, block.id, whole, masters[block.id.0 as usize].view());
            }
        }
        Ok(solo)
    }

    /// Overwrites weights, e.g. with a model to go on from.
    ///
    /// # Panics
    /// If the interval is not part of the block, or there is not one value an element.
    pub fn write_weights(&mut self, device: &Device, block: BlockId, interval: Interval, values: &[f32]) {
        if let Some(masters) = &mut self.masters {
            device.upload(masters[block.0 as usize].view_mut().range(interval.range()), values);
        }
        self.model.write_weights(device, block, interval, values);
    }

    /// Trains one step. `window` gives the `context + 1` tokens of a sample.
    ///
    /// # Errors
    /// If memory runs out, or a token is outside the vocabulary.
    pub fn step(
        &mut self,
        device: &Device,
        window: &mut dyn FnMut(u64) -> Vec<u32>,
    ) -> Result<LedgerEntry, ModelError> {
        let step = self.head.version.step + 1;
        self.model.set_loss_scale(&self.job.spec, self.head.loss_scale.map_or(1.0, LossScale::factor));
        let lanes = 0..self.job.spec.parallel.virtual_replicas;
        let mut loss = LossSum::ZERO;
        for batch in micro_batches(&self.job, step, lanes) {
            loss.merge(&self.score(device, Phase::Train { step }, &batch, window)?);
            self.model.backward(device, &batch, None)?;
        }
        let gradients: Vec<Arc<Buffer>> =
            self.table.blocks.iter().map(|block| gradient(&mut self.model, device, &self.table, block)).collect();
        self.model.finish_step();
        let norm = gradients.iter().fold(SquareSum::ZERO, |mut sum, gradient| {
            sum.merge(&device.sum_of_squares(gradient.view()));
            sum
        });
        let loss = protocol::LossSum { loss: checked(loss.sum, loss.finite), tokens: loss.tokens };
        let report = StepReport { norm: checked(norm.sum, norm.finite), loss };
        let entry = entry(&self.job, &self.head, &report);
        self.apply(device, &entry, &gradients);
        self.head = Head::after(&entry);
        Ok(entry)
    }

    /// Puts a value, infinite or not a number, into a gradient of the next step: a fault on purpose.
    pub fn poison(&mut self, value: f32) {
        self.model.poison(value);
    }

    /// The summed loss of the job's validation samples.
    ///
    /// # Errors
    /// If memory runs out, or a token is outside the vocabulary.
    pub fn evaluate(
        &mut self,
        device: &Device,
        window: &mut dyn FnMut(u64) -> Vec<u32>,
    ) -> Result<LossSum, ModelError> {
        let mut loss = LossSum::ZERO;
        for batch in validation_micro_batches(&self.job, 0..self.job.spec.parallel.virtual_replicas) {
            loss.merge(&self.score(device, Phase::Evaluate, &batch, window)?);
        }
        Ok(loss)
    }

    /// Logits `[samples, context, vocab]` of tokens `[samples, context]`.
    ///
    /// # Errors
    /// If memory runs out, or a token is outside the vocabulary.
    ///
    /// # Panics
    /// If the tokens do not fill whole samples.
    pub fn logits(&mut self, device: &Device, tokens: &[u32]) -> Result<Buffer, ModelError> {
        let context = context(&self.job.spec) as usize;
        assert_eq!(tokens.len() % context, 0, "SO-5 (whole samples)");
        let batch = MicroBatch::alone(vec![0; tokens.len() / context]);
        self.model.forward(device, Phase::Evaluate, &batch, Input::Tokens(tokens))?;
        let logits = self.model.logits(device, &batch);
        self.model.abort();
        logits
    }

    /// Committed steps and the chain that led there.
    #[must_use]
    pub fn version(&self) -> Version {
        self.head.version
    }

    /// One kind of one block's state, where the host can see it.
    ///
    /// # Panics
    /// If the job has no such state.
    #[must_use]
    pub fn read(&self, kind: Kind, block: BlockId) -> Option<&[f32]> {
        if kind == Kind::Weight {
            let whole = Interval::new(0, self.table.block(block).len);
            return match &self.masters {
                Some(masters) => masters[block.0 as usize].host_visible(),
                None => self.model.read_weights(block, whole).host_visible(),
            };
        }
        let memory = self.memory[block.0 as usize].iter().find(|(held, _)| *held == kind);
        memory.expect("SO-1 (the job has such state)").1.host_visible()
    }

    /// The digest of the state, as `shoal_plan::digest` defines it; `None` if the host cannot see the state.
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        let mut pieces = Vec::new();
        for &kind in self.table.kinds() {
            for block in self.table.blocks.iter().map(|block| self.table.space(kind, block.id)) {
                let interval = Interval::new(0, block.len);
                let leaves = leaves(block, interval, self.read(kind, block.id)?);
                pieces.push(PieceLeaves { block: block.id, interval, kind, leaves });
            }
        }
        Some(assemble(&self.table, &pieces).expect("SO-2 (every block was hashed whole)"))
    }

    fn score(
        &mut self,
        device: &Device,
        phase: Phase,
        batch: &MicroBatch,
        window: &mut dyn FnMut(u64) -> Vec<u32>,
    ) -> Result<LossSum, ModelError> {
        let (mut inputs, mut targets) = (Vec::new(), Vec::new());
        for &sample in &batch.samples {
            let tokens = window(sample);
            inputs.extend_from_slice(&tokens[..tokens.len() - 1]);
            targets.extend_from_slice(&tokens[1..]);
        }
        self.model.forward(device, phase, batch, Input::Tokens(&inputs))?;
        self.model.loss(device, batch, &targets)
    }

    fn apply(&mut self, device: &Device, entry: &LedgerEntry, gradients: &[Arc<Buffer>]) {
        for ((block, memory), gradient) in self.table.blocks.iter().zip(&mut self.memory).zip(gradients) {
            let whole = Interval::new(0, block.len);
            let Some(strokes) = self.optimizer.update(entry, block.id, whole, usize::MAX) else { return };
            let mut measured = Measured::default();
            for at in 0..strokes.count() {
                let weights = match &mut self.masters {
                    Some(masters) => masters[block.id.0 as usize].view_mut(),
                    None => self.model.weights_mut(block.id, whole),
                };
                let state = State::new(weights);
                let state = memory.iter_mut().fold(state, |state, (kind, held)| state.with(*kind, held.view_mut()));
                measured = strokes.carry_out(device, at, state, gradient.view(), measured);
            }
            if let Some(masters) = &self.masters {
                self.model.copy_weights(device, block.id, whole, masters[block.id.0 as usize].view());
            }
        }
    }
}

/// A buffer for each kind of a block's state but the weights.
fn memory(arena: &Arena, table: &ModelTable, block: BlockId) -> Result<Vec<(Kind, Buffer)>, ArenaError> {
    let remembered = table.kinds().iter().filter(|kind| **kind != Kind::Weight);
    remembered
        .map(|&kind| Ok((kind, arena.alloc_zeroed(Tag::Moment, table.space(kind, block).len as usize)?)))
        .collect()
}

/// Room for weights that are updated beside those that are computed with.
fn masters(arena: &Arena, table: &ModelTable) -> Result<Vec<Buffer>, ModelError> {
    let room = |block: &BlockTable| {
        let room = arena.alloc_zeroed(Tag::Weight, block.len as usize);
        room.map_err(|source| ModelError::Weights { block: block.id, source })
    };
    table.blocks.iter().map(room).collect()
}

/// A block's gradient over all lanes, the head's part added to its own.
fn gradient(model: &mut StageModel, device: &Device, table: &ModelTable, block: &BlockTable) -> Arc<Buffer> {
    let mut sum = whole(model, GradUnit { block: block.id, part: GradPart::Own });
    if let Some((tied, interval)) = table.tied().filter(|(tied, _)| *tied == block.id) {
        let head = whole(model, GradUnit { block: tied, part: GradPart::TiedHead });
        let own = Arc::get_mut(&mut sum).expect("SO-3 (a sum that was taken is nobody else's)");
        device.add_into(own.view_mut().range(interval.range()), head.view());
    }
    sum
}

/// The one sum of a contribution when all lanes are here.
fn whole(model: &mut StageModel, unit: GradUnit) -> Arc<Buffer> {
    let mut sums = model.take_gradient(unit);
    let sum = sums.pop().expect("SO-4 (all lanes are one subtree)");
    assert!(sums.is_empty(), "SO-4 (all lanes are one subtree)");
    sum.sum
}

fn checked(sum: ExactSum, finite: bool) -> Norm {
    if finite { Norm::Finite(sum) } else { Norm::NotFinite }
}

#[cfg(test)]
mod tests {
    use shoal_config::spec::EvalSpec;
    use shoal_plan::ledger::Update;

    use super::*;
    use crate::testing::{device, job, tokens, with_data};

    /// Three steps with a validation pass between them or not, on some threads.
    fn digest_after_three(job: &Job, threads: usize, evaluate: bool) -> (Digest, Version) {
        let (device, arena) = device(threads);
        let mut solo = Solo::new(&device, &arena, job).expect("room");
        let mut window = |sample: u64| {
            let (mut inputs, targets) = tokens(&job.spec, &[sample]);
            inputs.extend(targets.last());
            inputs
        };
        for _ in 0..3 {
            let entry = solo.step(&device, &mut window).expect("room");
            assert!(matches!(entry.update, Update::Apply(_)));
            if evaluate {
                assert_eq!(solo.evaluate(&device, &mut window).expect("room").tokens, 6 * 16);
            }
        }
        (solo.digest().expect("a processor"), solo.version())
    }

    #[test]
    fn the_state_depends_on_the_job_alone() {
        let mut job = with_data(job(2, 2, 32, 16, 65, 0.1));
        job.spec.train.evaluate = Some(EvalSpec { every: 1, samples: 6 });
        let (digest, version) = digest_after_three(&job, 1, false);
        assert_eq!(version.step, 3);
        assert_eq!(digest_after_three(&job, 3, true), (digest, version));
        job.spec.seed += 1;
        assert_ne!(digest_after_three(&job, 1, false).0, digest);
    }

    #[test]
    fn no_optimizer_knows_how_many_threads_there_are() {
        for (name, optimizer) in crate::testing::optimizers() {
            let mut job = with_data(job(1, 2, 32, 16, 65, 0.0));
            job.spec.train.optimizer = optimizer;
            assert_eq!(digest_after_three(&job, 1, false), digest_after_three(&job, 3, false), "{name}");
        }
    }

    #[test]
    fn what_is_not_finite_is_skipped() {
        let job = with_data(job(1, 2, 32, 16, 65, 0.0));
        let (device, arena) = device(1);
        let mut solo = Solo::new(&device, &arena, &job).expect("room");
        solo.write_weights(&device, BlockId(0), Interval::new(0, 16), &[f32::INFINITY; 16]);
        let before = solo.digest();
        let mut window = |_| vec![0; 17];
        let entry = solo.step(&device, &mut window).expect("room");
        assert_eq!((entry.update, entry.optimizer_time), (Update::Skip, 0));
        assert_eq!(solo.digest(), before);
        assert_eq!(solo.version().step, 1);
    }
}
