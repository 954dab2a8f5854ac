//! Seats of the adopted plan: built, run, stopped; what they make and what they need.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef};
use shoal_kernels::{Buffer, JobPanic};
use shoal_model::{Rounding, StageModel};
use shoal_plan::blocks::ModelTable;
use shoal_plan::holder::{HolderEvent, SlotId};
use shoal_plan::ids::{BlockId, Generation, NodeId, PieceId, Replica, Seat, StageIndex};
use shoal_plan::layout::Plan;
use shoal_plan::protocol::{LossSum, Trouble};
use shoal_plan::schedule::Pass;
use shoal_plan::space::{GradPart, GradUnit, Interval};
use shoal_wire::data::Purpose;

use super::gather::{Gather, GatherError, Gathered, Partial, Step};
use super::message::{HolderMsg, Work, WorkDone};
use super::report::Counters;
use super::state::{HolderState, over_budget};
use super::tensor::Slice;
use crate::device::{Cancel, DeviceThread};
use crate::stage::{Cargo, Flow, SeatCore, SeatNews, StageActor, StageArgs, StageFault, StageMsg};

/// What this node is under the plan it became.
pub(super) struct Adopted {
    pub(super) generation: Generation,
    pub(super) plan: Arc<Plan>,
    pub(super) slots: BTreeMap<PieceId, SlotId>,
    pub(super) seats: Vec<SeatHere>,
    gather: Gather,
    cancel: Cancel,
}

/// One seat of this node.
pub(super) struct SeatHere {
    pub(super) seat: Seat,
    pub(super) blocks: Range<u32>,
    pub(super) core: Arc<SeatCore>,
    actor: ActorRef<StageMsg>,
}

impl Adopted {
    /// Ends the seats and every gradient not yet whole. Their memory is free once the device has come that far.
    pub(super) fn stop(&mut self, device: &DeviceThread, counters: &mut Counters) {
        self.cancel.cancel();
        self.gather.clear();
        for SeatHere { core, actor, .. } in self.seats.drain(..) {
            actor.stop(None);
            counters.add_calls(&core.calls());
            device.submit(move |_| core.dismantle(), drop);
        }
    }

    /// Whether a node has any part in the plan.
    pub(super) fn names(&self, node: NodeId) -> bool {
        self.plan.seats().any(|(_, n)| n == node) || self.plan.pieces.iter().any(|p| p.holders().any(|n| n == node))
    }
}

impl HolderState {
    pub(super) async fn adopt(
        &mut self,
        generation: Generation,
        plan: Arc<Plan>,
        slots: Vec<(PieceId, SlotId)>,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(mut old) = self.adopted.take() {
            old.stop(&self.args.devices.compute, &mut self.counters);
        }
        let cancel = Cancel::default();
        let lanes = self.args.job.spec.parallel.virtual_replicas;
        let wire = Rounding::of_wire(&self.args.job.spec);
        let gather = Gather::new(Arc::clone(&self.table), lanes, wire, cancel.clone());
        let mine: Vec<Seat> = plan.seats().filter(|(_, node)| *node == self.args.node).map(|(seat, _)| seat).collect();
        let mut seats = Vec::with_capacity(mine.len());
        for seat in mine {
            let blocks = plan.stages[usize::from(seat.stage.0)].blocks.clone();
            let Some(core) = self.core(&plan, seat, &cancel).await else { continue };
            let args = StageArgs {
                generation,
                seat,
                job: Arc::clone(&self.args.job),
                table: Arc::clone(&self.table),
                plan: Arc::clone(&plan),
                core: Arc::clone(&core),
                device: self.args.devices.compute.clone(),
                loader: self.loader.clone(),
                holder: self.me.clone(),
            };
            let (actor, _) = Actor::spawn_linked(None, StageActor, args, self.me.get_cell()).await?;
            seats.push(SeatHere { seat, blocks, core, actor });
        }
        let slots = slots.into_iter().collect();
        self.adopted = Some(Adopted { generation, plan, slots, seats, gather, cancel });
        Ok(())
    }

    /// A seat's model with room for its weights; made on the device's thread, behind what gives the old seats' room back.
    async fn core(&mut self, plan: &Plan, seat: Seat, cancel: &Cancel) -> Option<Arc<SeatCore>> {
        let blocks = plan.stages[usize::from(seat.stage.0)].blocks.clone();
        let lanes = plan.lanes[usize::from(seat.replica.0)].clone();
        let compute = &self.args.devices.compute;
        let (job, table, arena) = (Arc::clone(&self.args.job), Arc::clone(&self.table), compute.arena().clone());
        let made = compute.run(move |device| StageModel::new((device, &arena), &job.spec, table, blocks, lanes)).await;
        let cause = match made {
            Ok(Ok(model)) => return Some(Arc::new(SeatCore::new(model, cancel.clone()))),
            Ok(Err(error)) => crate::chain(&error),
            Err(panic) => panic.to_string(),
        };
        self.find(over_budget(format!("{} {seat}: {cause}", self.args.id)));
        None
    }

    pub(super) fn run(
        &self,
        generation: Generation,
        pass: Pass,
        step: u64,
        scale: f32,
    ) -> Result<(), ActorProcessingErr> {
        let Some(adopted) = self.adopted.as_ref().filter(|a| a.generation == generation) else { return Ok(()) };
        for seat in &adopted.seats {
            seat.actor.cast(StageMsg::Run { pass, step, scale })?;
        }
        Ok(())
    }

    pub(super) fn fail_stage(&self, fault: StageFault) -> Result<(), ActorProcessingErr> {
        match self.adopted.as_ref().and_then(|adopted| adopted.seats.first()) {
            Some(seat) => Ok(seat.actor.cast(StageMsg::Fail(fault))?),
            None => Ok(()),
        }
    }

    pub(super) async fn child_failed(&mut self, child: ActorId, cause: &str) -> Result<(), ActorProcessingErr> {
        if child == self.loader.id() {
            // Whoever waits for it waits for ever: the seats are built anew around another one.
            self.loader = super::state::loader(&self.me, &self.args).await?;
            return self.fact(self.stage_failed(format!("the loader failed: {cause}"))).await;
        }
        let Some(adopted) = &mut self.adopted else { return Ok(()) };
        let Some(at) = adopted.seats.iter().position(|seat| seat.actor.get_id() == child) else { return Ok(()) };
        let failed = adopted.seats.swap_remove(at);
        let seat = failed.seat;
        self.args.devices.compute.submit(move |_| failed.core.dismantle(), drop);
        let generation = self.generation();
        tracing::warn!(job = %self.args.id, gen = %generation, stage = %seat, cause, "stage failed");
        let trouble = Trouble::StageFailed { seat, cause: cause.to_owned() };
        self.fact(HolderEvent::Trouble { trouble, lost: Vec::new() }).await
    }

    pub(super) async fn seat_news(
        &mut self,
        generation: Generation,
        seat: Seat,
        news: SeatNews,
    ) -> Result<(), ActorProcessingErr> {
        if !self.in_force(generation) {
            return Ok(());
        }
        match news {
            SeatNews::Send(to, cargo, buffer) => self.pass_on(generation, to, cargo, buffer),
            SeatNews::Sums { step, unit, sums } => {
                for (sum, loss) in sums {
                    self.spread(generation, step, unit, (sum.node, &sum.sum), loss);
                }
            }
            SeatNews::Evaluated { step, loss } => {
                let replica = seat.replica;
                return self.fact(HolderEvent::Evaluated { generation, step, replica, loss }).await;
            }
            SeatNews::Trouble(trouble) => {
                return self.fact(HolderEvent::Trouble { trouble, lost: Vec::new() }).await;
            }
        }
        Ok(())
    }

    /// To a seat here, by reference, or to another node.
    fn pass_on(&self, generation: Generation, to: Seat, cargo: Cargo, buffer: Buffer) {
        let Some(adopted) = &self.adopted else { return };
        let node = adopted.plan.node_of(to);
        if node == self.args.node {
            self.deliver(to, cargo, buffer);
            return;
        }
        let purpose = match cargo.flow {
            Flow::Forward => Purpose::Activation { to, micro_batch: cargo.micro_batch, pass: cargo.pass },
            Flow::Backward => Purpose::ActivationGradient { to, micro_batch: cargo.micro_batch },
        };
        let header = self.header(generation, cargo.step, purpose, buffer.len() as u64);
        self.send(node, header, Slice::whole(buffer).payload(), None);
    }

    pub(super) fn deliver(&self, to: Seat, cargo: Cargo, buffer: Buffer) {
        let seats = self.adopted.iter().flat_map(|adopted| &adopted.seats);
        let Some(seat) = seats.into_iter().find(|seat| seat.seat == to) else { return };
        if seat.actor.cast(StageMsg::Arrived(cargo, buffer)).is_err() {
            tracing::debug!(job = %self.args.id, stage = %to, "seat is gone");
        }
    }

    /// Cuts a lane subtree's sum to pieces and gives each to its owner.
    fn spread(
        &mut self,
        generation: Generation,
        step: u64,
        unit: GradUnit,
        (node, sum): (shoal_plan::lanes::TreeNode, &Arc<Buffer>),
        loss: Option<LossSum>,
    ) {
        let Some(adopted) = &self.adopted else { return };
        let (plan, extent) = (Arc::clone(&adopted.plan), self.table.extent(unit));
        for (piece, place) in plan.pieces().filter(|(_, p)| p.block == unit.block) {
            let Some(part) = place.interval.intersection(extent) else { continue };
            let range = (part.start - extent.start) as usize..(part.end - extent.start) as usize;
            let slice = Slice::new(Arc::clone(sum), range);
            let loss = loss.filter(|_| carries_loss(&self.table, unit, place.interval));
            if place.owner == self.args.node {
                self.partial(generation, Partial { step, piece, unit, node, slice, loss });
            } else {
                let purpose = Purpose::GradientPartial { unit, piece, node, loss };
                let header = self.header(generation, step, purpose, slice.len() as u64);
                self.send(place.owner, header, slice.payload(), None);
            }
        }
    }

    /// A partial of a piece owned here.
    pub(super) fn partial(&mut self, generation: Generation, partial: Partial) {
        let (step, piece) = (partial.step, partial.piece);
        let Some(adopted) = self.adopted.as_mut().filter(|a| a.generation == generation) else { return };
        let Some(place) = adopted.plan.pieces.get(piece.0 as usize).filter(|p| p.owner == self.args.node) else {
            tracing::warn!(job = %self.args.id, step, %piece, "gradient of a piece that is not owned here");
            return;
        };
        match adopted.gather.add(&self.args.devices.compute, place, partial) {
            Ok(Step::Waits) => {}
            Ok(Step::Whole(whole, loss)) => {
                let me = self.me.clone();
                tokio::spawn(async move {
                    let whole = whole.await;
                    let done = WorkDone::Gathered { generation, step, piece, loss, whole };
                    // An error means that the job is over here.
                    let _ = me.cast(HolderMsg::Work(Work(done)));
                });
            }
            Err(error) => tracing::warn!(job = %self.args.id, step, %error, "gradient partial refused"),
        }
    }

    pub(super) async fn gathered(
        &mut self,
        (generation, step, piece): (Generation, u64, PieceId),
        loss: Option<LossSum>,
        whole: Result<Result<Gathered, GatherError>, JobPanic>,
    ) -> Result<(), ActorProcessingErr> {
        if !self.in_force(generation) {
            return Ok(());
        }
        match whole {
            Ok(Ok(Gathered { gradient, norm })) => {
                let slot = self.adopted.as_ref().and_then(|adopted| adopted.slots.get(&piece));
                if let Some(slot) = slot.and_then(|slot| self.slots.get_mut(slot)) {
                    slot.gradients.insert(step, gradient);
                }
                self.fact(HolderEvent::Gradient { generation, step, piece, norm, loss }).await
            }
            Ok(Err(GatherError::Room(cause))) => self.fact(over_budget(cause)).await,
            Ok(Err(error @ GatherError::Missing)) => self.fact(self.stage_failed(error.to_string())).await,
            Err(panic) => self.fact(self.stage_failed(panic.to_string())).await,
        }
    }

    /// Something computed for the seats here has failed; a fence with the same plan repairs it.
    pub(super) fn stage_failed(&self, cause: String) -> HolderEvent {
        HolderEvent::Trouble { trouble: self.stage_trouble(cause), lost: Vec::new() }
    }

    /// As [`Self::stage_failed`], to be told with what is lost.
    pub(super) fn stage_trouble(&self, cause: String) -> Trouble {
        let seat = self.adopted.as_ref().and_then(|a| a.seats.first()).map(|s| s.seat);
        let seat = seat.unwrap_or(Seat { stage: StageIndex(0), replica: Replica(0) });
        Trouble::StageFailed { seat, cause }
    }

    /// Where a piece of the adopted plan lies.
    pub(super) fn place_of(&self, piece: PieceId) -> Option<(BlockId, Interval)> {
        let plan = &self.adopted.as_ref()?.plan;
        plan.pieces.get(piece.0 as usize).map(|p| (p.block, p.interval))
    }

    /// Copies weights into the compute weights of every seat here that needs them.
    pub(super) fn hand_over(
        &self,
        block: BlockId,
        interval: Interval,
        weights: Arc<Buffer>,
        done: impl FnOnce(Result<(), JobPanic>) + Send + 'static,
    ) {
        let cores = self.cores();
        self.args.devices.compute.submit(
            move |device| {
                for core in &cores {
                    core.copy_weights(device, block, interval, weights.view());
                }
            },
            done,
        );
    }

    /// As [`Self::hand_over`], from an owned slot.
    pub(super) fn hand_over_slot(&self, (generation, step): (Generation, u64), piece: PieceId, slot: SlotId) {
        let Some(held) = self.slots.get(&slot) else { return };
        let (cores, cell, me) = (self.cores(), Arc::clone(&held.cell), self.me.clone());
        let (block, interval) = (held.block, held.interval);
        let fact = HolderEvent::WeightsArrived { generation, step, piece };
        self.args.devices.compute.submit(
            move |device| {
                let snapshot = cell.snapshot();
                for core in &cores {
                    core.copy_weights(device, block, interval, snapshot.weights().view());
                }
            },
            move |result| {
                // An error means that the job is over here.
                let _ = me.cast(HolderMsg::Work(Work(WorkDone::Handed(Box::new(fact), result))));
            },
        );
    }

    fn cores(&self) -> Vec<Arc<SeatCore>> {
        self.adopted.iter().flat_map(|a| &a.seats).map(|seat| Arc::clone(&seat.core)).collect()
    }
}

/// The loss travels with the head block's first piece.
fn carries_loss(table: &ModelTable, unit: GradUnit, piece: Interval) -> bool {
    unit == GradUnit { block: table.head(), part: GradPart::Own } && piece.start == 0
}
