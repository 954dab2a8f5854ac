//! The computation of one pipeline stage of one replica.
//!
//! A stage actor owns a [`StageModel`] and calls it on its device's queue, one call an instruction. In training, each
//! micro-batch passes [`StageModel::forward`], on the last stage [`StageModel::loss`], then [`StageModel::backward`];
//! after the last one every contribution is taken with [`StageModel::take_gradient`].
//!
//! * SM-1 (one order): a lane's micro-batches come to `loss` and `backward` in ascending order, lanes too; forwards may run ahead.
//! * SM-2 (forward, loss, backward): each once, in this order; the loss on the last stage, where there are logits until then.
//! * SM-3 (same bits): results depend on the job, step, samples and weights, never on the split into stages or replicas.
//! * SM-4 (blocks of the model): a stage has one block or more, all of them the model's.
//! * SM-5 (lanes of the job): likewise lanes.
//! * SM-6 (a micro-batch is in flight once): until its step is done or given up.
//! * SM-7 (a row a token): an activation that enters has a row for every token; what begins with tokens gets all of them.
//! * SM-8 (tokens enter the first stage, activations the others): whoever calls knows which stage this is.
//! * SM-9 (nobody else holds the last block's output): it is kept by no block.
//! * SM-10 (a stage sums what its blocks contribute): and is asked for no other sums.
//! * SM-11 (a step ends empty): every micro-batch has come back and every sum was taken.
//! * SM-12 (rounded as sent): what passes from block to block is rounded to the job's precision, then to its wire type, whether the
//!   next block is another stage's or not; so are gradients to the latter, see [`crate::sums`].

mod decode;
mod flow;
mod outside;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use shoal_config::JobSpec;
use shoal_kernels::{Arena, Buffer, Device, LossSum, Tag};
use shoal_plan::batch::MicroBatch;
use shoal_plan::blocks::{BlockKind, ModelTable};
use shoal_plan::ids::{self, BlockId};
use shoal_plan::ledger::backward_seed;
use shoal_plan::space::{GradPart, GradUnit};

use crate::ModelError;
use crate::block::embedding::Embedding;
use crate::block::head::{Head, Scored};
use crate::block::layer::{Layer, LayerStash};
use crate::block::{Phase, Scope, Sizes};
use crate::rotary;
use crate::rounding::Rounding;
use crate::stored;
use crate::sums::{LaneSum, LaneSums};
use crate::weights::Weights;

pub use flow::Input;
use flow::{Flow, checked};

/// How often a block was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockCalls {
    /// Which block.
    pub block: BlockId,
    /// Forward passes of micro-batches, validation included. The head's runs when the loss is asked for.
    pub forward: u64,
    /// Backward passes of micro-batches.
    pub backward: u64,
}

/// The computation of one pipeline stage of one replica.
pub struct StageModel {
    arena: Arena,
    table: Arc<ModelTable>,
    sizes: Sizes,
    /// Factor of every gradient: [`backward_seed`] x loss scale.
    seed: f32,
    /// See [`Self::poison`].
    poison: Option<f32>,
    wire: Rounding,
    blocks: Vec<Block>,
    weights: Weights,
    /// Turns of positions, for layers that turn queries and keys by them.
    rotary: Option<Buffer>,
    /// Each block's own contribution.
    own: Vec<LaneSums>,
    /// A tied head's contribution to the token table.
    tied: Option<LaneSums>,
    flights: BTreeMap<ids::MicroBatch, Flight>,
    calls: Vec<BlockCalls>,
}

enum Block {
    Embedding(Embedding),
    Layer(Box<Layer>),
    Head(Head),
}

/// A micro-batch between its forward and its backward (or, in evaluation, its loss).
struct Flight {
    phase: Phase,
    /// One entry a block, in block order.
    kept: Vec<Kept>,
}

/// What a block keeps of a micro-batch.
enum Kept {
    /// Embedding.
    Tokens(Vec<u32>),
    /// A layer.
    Layer(Box<LayerStash>),
    /// The head before the loss: its input.
    Input(stored::Kept),
    /// The head after the loss.
    Scored(Scored),
}

impl StageModel {
    /// A stage that computes `blocks` for the lanes `lanes` of its replica. Its weights are zero until written.
    ///
    /// # Errors
    /// If the arena has no room for the weights, or a lane of the job would have no sample.
    ///
    /// # Panics
    /// If `blocks` or `lanes` is empty or not part of the job.
    pub fn new(
        (device, arena): (&Device, &Arena),
        spec: &JobSpec,
        table: Arc<ModelTable>,
        blocks: Range<u32>,
        lanes: Range<u32>,
    ) -> Result<Self, ModelError> {
        let of = spec.parallel.virtual_replicas;
        assert!(!blocks.is_empty() && blocks.end as usize <= table.blocks.len(), "SM-4 (blocks of the model)");
        assert!(!lanes.is_empty() && lanes.end <= of, "SM-5 (lanes of the job)");
        if of > spec.train.global_batch {
            return Err(ModelError::EmptyLane { lanes: of, batch: spec.train.global_batch });
        }
        let wire = Rounding::of_wire(spec);
        let sums = |b: u32| LaneSums::of_block(of, &table.blocks[b as usize], wire);
        let tied = table.tied().filter(|_| blocks.contains(&table.head().0));
        let block = |b: u32| {
            let block = table.block(BlockId(b));
            match block.kind {
                BlockKind::Embedding => Block::Embedding(Embedding::of(block)),
                BlockKind::Layer => Block::Layer(Box::new(Layer::of(block, &spec.model))),
                BlockKind::Head => Block::Head(Head::of(block, &table, &spec.model)),
            }
        };
        Ok(Self {
            arena: arena.clone(),
            sizes: Sizes::of(spec),
            seed: backward_seed(spec),
            poison: None,
            wire,
            blocks: blocks.clone().map(block).collect(),
            weights: Weights::new(arena, &table, blocks.clone(), Rounding::of_precision(spec))?,
            rotary: rotary::table((device, arena), &spec.model, &table, &blocks)?,
            own: blocks.clone().map(sums).collect(),
            tied: tied.map(|(_, interval)| LaneSums::new(of, interval.len() as usize, wire)),
            flights: BTreeMap::new(),
            calls: blocks.map(|b| BlockCalls { block: BlockId(b), forward: 0, backward: 0 }).collect(),
            table,
        })
    }

    /// The model's table.
    #[must_use]
    pub fn table(&self) -> &Arc<ModelTable> {
        &self.table
    }

    /// Runs a micro-batch through the stage: the activation `[samples, context, width]` for the next stage, or `None` on the
    /// last one, whose head waits for [`Self::loss`].
    ///
    /// # Errors
    /// If memory runs out, or a token is outside the vocabulary.
    ///
    /// # Panics
    /// If the input is not what this stage takes, or the micro-batch is in flight already.
    pub fn forward(
        &mut self,
        device: &Device,
        phase: Phase,
        batch: &MicroBatch,
        input: Input<'_>,
    ) -> Result<Option<Buffer>, ModelError> {
        let Self { arena, sizes, blocks, weights, rotary, flights, calls, wire, .. } = self;
        assert!(!flights.contains_key(&batch.index), "SM-6 (a micro-batch is in flight once): {}", batch.index);
        let scope = Scope::of((device, arena), (weights, rotary.as_ref()), sizes, &batch.samples, phase);
        let mut flow = Flow::of(input, &scope)?;
        let mut kept = Vec::with_capacity(blocks.len());
        let last = blocks.len() - 1;
        for (i, (block, calls)) in blocks.iter().zip(calls).enumerate() {
            let tag = if i == last { Tag::Activation } else { scope.wide() };
            let failed = |source| ModelError::Forward { block: calls.block, source };
            flow = match (block, flow) {
                (Block::Embedding(embedding), Flow::Tokens(tokens)) => {
                    let mut y = embedding.forward(&scope, &tokens, tag).map_err(failed)?;
                    scope.round(&mut y);
                    wire.round(device, y.view_mut());
                    kept.push(Kept::Tokens(tokens));
                    calls.forward += 1;
                    Flow::Rows(Arc::new(y))
                }
                (Block::Layer(layer), Flow::Rows(x)) => {
                    let (mut y, stash) = layer.forward(&scope, x, tag).map_err(failed)?;
                    scope.round(&mut y);
                    wire.round(device, y.view_mut());
                    kept.extend(stash.map(|stash| Kept::Layer(Box::new(stash))));
                    calls.forward += 1;
                    Flow::Rows(Arc::new(y))
                }
                (Block::Head(_), Flow::Rows(x)) => {
                    kept.push(Kept::Input(scope.keep(x).map_err(failed)?));
                    Flow::Ended
                }
                (Block::Embedding(_), Flow::Rows(_) | Flow::Ended)
                | (Block::Layer(_) | Block::Head(_), Flow::Tokens(_) | Flow::Ended) => {
                    panic!("SM-8 (tokens enter the first stage, activations the others): at {}", calls.block)
                }
            };
        }
        let output = match flow {
            Flow::Rows(y) => Some(Arc::into_inner(y).expect("SM-9 (nobody else holds the last block's output)")),
            Flow::Tokens(_) | Flow::Ended => None,
        };
        if matches!(phase, Phase::Train { .. }) || output.is_none() {
            flights.insert(batch.index, Flight { phase, kept });
        }
        Ok(output)
    }

    /// Last stage: the summed loss of a micro-batch from its targets `[samples, context]`. In training, the token table's gradient
    /// is added here, while the logits are at hand, so losses come in the order of SM-1 too. In evaluation, the micro-batch is
    /// done.
    ///
    /// # Errors
    /// If memory runs out, or a target is outside the vocabulary.
    ///
    /// # Panics
    /// If this is not the last stage, or the micro-batch's forward pass did not come before.
    pub fn loss(&mut self, device: &Device, batch: &MicroBatch, targets: &[u32]) -> Result<LossSum, ModelError> {
        let Self { arena, sizes, blocks, weights, rotary, flights, calls, seed, own, tied, .. } = self;
        let mut flight =
            flights.remove(&batch.index).expect("SM-2 (forward, loss, backward): a loss of what did not enter");
        let (Some(Block::Head(head)), Some(Kept::Input(x))) = (blocks.last(), flight.kept.pop()) else {
            panic!("SM-2 (forward, loss, backward): a second loss, or one before the last stage: {}", batch.index)
        };
        let scope = Scope::of((device, arena), (weights, rotary.as_ref()), sizes, &batch.samples, flight.phase);
        let x = x.open(&scope).map_err(|source| ModelError::Loss { source })?;
        let targets = checked(targets, &scope)?;
        let failed = |source| ModelError::Loss { source };
        let loss = match flight.phase {
            Phase::Evaluate => head.evaluate(&scope, &x, &targets).map_err(failed)?,
            Phase::Train { .. } => {
                let sums = tied.as_mut().or(own.last_mut()).expect("SM-10 (a stage sums what its blocks contribute)");
                let mut into = sums.accumulator(device, arena, batch).map_err(failed)?;
                let (loss, scored) = head.train(&scope, x, &targets, *seed, &mut into).map_err(failed)?;
                if let Some(tied) = tied {
                    tied.added(device, batch);
                }
                flight.kept.push(Kept::Scored(scored));
                flights.insert(batch.index, flight);
                loss
            }
        };
        if let Some(last) = calls.last_mut() {
            last.forward += 1;
        }
        Ok(loss)
    }

    /// Last stage: the logits `[samples, context, vocab]` of a micro-batch that waits for its loss, and goes on waiting.
    ///
    /// # Errors
    /// If memory runs out.
    ///
    /// # Panics
    /// If this is not the last stage, or the micro-batch's forward pass did not come before.
    pub fn logits(&self, device: &Device, batch: &MicroBatch) -> Result<Buffer, ModelError> {
        let Self { arena, weights, rotary, sizes, blocks, flights, .. } = self;
        let flight = flights.get(&batch.index).expect("SM-2 (forward, loss, backward): logits of what did not enter");
        let (Some(Block::Head(head)), Some(Kept::Input(x))) = (blocks.last(), flight.kept.last()) else {
            panic!("SM-2 (forward, loss, backward): logits after the loss, or before the last stage: {}", batch.index)
        };
        let scope = Scope::of((device, arena), (weights, rotary.as_ref()), sizes, &batch.samples, flight.phase);
        let failed = |source| ModelError::Loss { source };
        let x = x.look(&scope).map_err(failed)?;
        head.predict(&scope, &x).map_err(failed)
    }

    /// Differentiates the stage at a micro-batch and adds the parameters' gradient to the lane's sum. Takes the gradient of the
    /// stage's output (`None` on the last stage) and gives that of its input (`None` on the first).
    ///
    /// # Errors
    /// If memory runs out.
    ///
    /// # Panics
    /// If the micro-batch is not in flight, comes out of order, or has no loss yet on the last stage.
    pub fn backward(
        &mut self,
        device: &Device,
        batch: &MicroBatch,
        gradient: Option<Buffer>,
    ) -> Result<Option<Buffer>, ModelError> {
        let Self { arena, sizes, blocks, weights, rotary, flights, calls, own, wire, poison, .. } = self;
        let Flight { phase, kept } =
            flights.remove(&batch.index).expect("SM-2 (forward, loss, backward): a gradient of what did not enter");
        let scope = Scope::of((device, arena), (weights, rotary.as_ref()), sizes, &batch.samples, phase);
        let mut gradient = gradient;
        for (((block, kept), own), calls) in blocks.iter().zip(kept).zip(own).zip(calls).rev() {
            let failed = |source| ModelError::Backward { block: calls.block, source };
            let mut into = own.accumulator(device, arena, batch).map_err(failed)?;
            gradient = match (block, kept, gradient) {
                (Block::Head(head), Kept::Scored(scored), None) => {
                    Some(head.backward(&scope, scored, &mut into).map_err(failed)?)
                }
                (Block::Layer(layer), Kept::Layer(stash), Some(mut flowing)) => {
                    layer.backward(&scope, *stash, &mut flowing, &mut into).map_err(failed)?;
                    Some(flowing)
                }
                (Block::Embedding(embedding), Kept::Tokens(tokens), Some(flowing)) => {
                    embedding.backward(&scope, &tokens, flowing, &mut into).map_err(failed)?;
                    None
                }
                (Block::Head(_) | Block::Layer(_) | Block::Embedding(_), _, _) => {
                    panic!(
                        "SM-2 (forward, loss, backward): no loss, and no gradient of a next stage: at {}",
                        calls.block
                    )
                }
            };
            own.added(device, batch);
            if let Some(value) = poison.take() {
                own.poison(device, value);
            }
            calls.backward += 1;
            if let Some(flowing) = &mut gradient {
                scope.round(flowing);
                wire.round(device, flowing.view_mut());
            }
        }
        if let Some(out) = &mut gradient {
            out.retag(Tag::Activation);
        }
        Ok(gradient)
    }

    /// The sums of a contribution over this replica's lanes, one a subtree, left to right, once its last backward is done.
    /// Values are gradients of the summed loss times the backward seed.
    ///
    /// # Panics
    /// If the stage does not compute the contribution, or a lane of it is unfinished.
    pub fn take_gradient(&mut self, unit: GradUnit) -> Vec<LaneSum> {
        let sums = match unit.part {
            GradPart::Own => self.calls.iter().position(|c| c.block == unit.block).and_then(|i| self.own.get_mut(i)),
            GradPart::TiedHead => self.tied.as_mut(),
        };
        sums.expect("SM-10 (a stage sums what its blocks contribute)").take()
    }

    /// Ends a step: everything that entered it has left it.
    ///
    /// # Panics
    /// If a micro-batch is in flight or a gradient was not taken.
    pub fn finish_step(&mut self) {
        assert!(self.flights.is_empty(), "SM-11 (a step ends empty): {} in flight", self.flights.len());
        assert!(
            self.own.iter().chain(&self.tied).all(LaneSums::is_empty),
            "SM-11 (a step ends empty): a gradient was not taken"
        );
    }

    /// Drops everything of a cancelled pass; the weights stay.
    pub fn abort(&mut self) {
        self.flights.clear();
        self.own.iter_mut().chain(&mut self.tied).for_each(LaneSums::clear);
    }

    /// How often each block was computed since the stage began.
    #[must_use]
    pub fn calls(&self) -> &[BlockCalls] {
        &self.calls
    }
}

#[cfg(test)]
mod pipeline;
#[cfg(test)]
mod tests;
