//! Everything that comes from other nodes.

use std::sync::Arc;

use ractor::ActorProcessingErr;
use shoal_kernels::{Buffer, Tag};
use shoal_plan::holder::{HolderEvent, Role, SlotId, Target, Wanted};
use shoal_plan::ids::{BlockId, Generation, NodeId};
use shoal_plan::ledger::Version;
use shoal_plan::schedule::Pass;
use shoal_plan::space::Interval;
use shoal_wire::control::ToPeer;
use shoal_wire::data::{Header, Purpose, StateReason};

use super::build::flatten;
use super::gather::Partial;
use super::message::{CopyError, HolderMsg, Work, WorkDone};
use super::slot::Slot;
use super::state::HolderState;
use super::tensor::Slice;
use crate::stage::{Cargo, Flow};

impl HolderState {
    pub(super) async fn asked(&mut self, from: NodeId, message: ToPeer) -> Result<(), ActorProcessingErr> {
        let (generation, version, block, interval, wanted) = match message {
            ToPeer::FetchState { job: _, generation, version, block, interval } => {
                (generation, version, block, interval, Wanted::State)
            }
            ToPeer::FetchWeights { job: _, generation, version, block, interval } => {
                (generation, version, block, interval, Wanted::Weights)
            }
        };
        self.fact(HolderEvent::Asked { from, generation, version, block, interval, wanted }).await
    }

    pub(super) async fn arrived(&mut self, header: Header, buffer: Buffer) -> Result<(), ActorProcessingErr> {
        let Some(mut buffer) = self.is_current(&header, buffer) else { return Ok(()) };
        let Header { generation, from, step, .. } = header;
        match header.purpose {
            Purpose::Activation { to, micro_batch, pass } => {
                buffer.retag(Tag::Activation);
                self.deliver(to, Cargo { pass, step, micro_batch, flow: Flow::Forward }, buffer);
            }
            Purpose::ActivationGradient { to, micro_batch } => {
                buffer.retag(Tag::Activation);
                let cargo = Cargo { pass: Pass::Train, step, micro_batch, flow: Flow::Backward };
                self.deliver(to, cargo, buffer);
            }
            Purpose::GradientPartial { unit, piece, node, loss } => {
                buffer.retag(Tag::Gradient);
                let slice = Slice::whole(buffer);
                self.partial(generation, Partial { step, piece, unit, node, slice, loss });
            }
            Purpose::ShadowGradient { piece, norm, loss } => {
                buffer.retag(Tag::Gradient);
                let Some(slot) = self.slot_of(piece).filter(|slot| slot.interval.len() == buffer.len() as u64) else {
                    tracing::warn!(job = %self.args.id, step, %piece, "gradient of no shadow here");
                    return Ok(());
                };
                slot.gradients.insert(step, Slice::whole(buffer));
                return self.fact(HolderEvent::Gradient { generation, step, piece, norm, loss }).await;
            }
            Purpose::Weights { piece } => {
                let Some((block, interval)) = self.place_of(piece).filter(|(_, i)| i.len() == buffer.len() as u64)
                else {
                    tracing::warn!(job = %self.args.id, step, %piece, "weights of no piece of the plan");
                    return Ok(());
                };
                let fact = HolderEvent::WeightsArrived { generation, step, piece };
                let me = self.me.clone();
                self.hand_over(block, interval, Arc::new(buffer), move |result| {
                    // An error means that the job is over here.
                    let _ = me.cast(HolderMsg::Work(Work(WorkDone::Handed(Box::new(fact), result))));
                });
            }
            Purpose::State { block, interval, version, reason: StateReason::Recovery } => {
                let found = self.fetches.find((from, block, interval), version, Wanted::State);
                let Some((id, Target::Slot(slot))) = found.map(|(id, fetch)| (id, fetch.into)) else {
                    tracing::warn!(job = %self.args.id, %block, %interval, "state that nobody here asked for");
                    return Ok(());
                };
                let done = self.tell_copied(id, interval.len());
                if let Some(slot) = self.slots.get(&slot) {
                    self.copy_in(slot, interval, buffer, done);
                }
            }
            Purpose::State { block, interval, version, reason: StateReason::Fill } => {
                let Some((id, slot)) = self.shadow_around(block, interval) else {
                    tracing::warn!(job = %self.args.id, %block, %interval, "a fill for no shadow here");
                    return Ok(());
                };
                let me = self.me.clone();
                self.copy_in(slot, interval, buffer, move |result| {
                    let done = WorkDone::Filled { generation, slot: id, version, elements: interval.len(), result };
                    // An error means that the job is over here.
                    let _ = me.cast(HolderMsg::Work(Work(done)));
                });
            }
            Purpose::SeatWeights { block, interval, version } => {
                let Some((id, _)) = self.fetches.find((from, block, interval), version, Wanted::Weights) else {
                    tracing::warn!(job = %self.args.id, %block, %interval, "weights that nobody here asked for");
                    return Ok(());
                };
                let done = self.tell_copied(id, interval.len());
                if buffer.len() as u64 == interval.len() {
                    self.hand_over(block, interval, Arc::new(buffer), move |result| done(flatten(result.map(Ok))));
                }
            }
        }
        Ok(())
    }

    /// Copies an interval's state, kind after kind in `buffer`, into a slot.
    fn copy_in(
        &self,
        slot: &Slot,
        interval: Interval,
        buffer: Buffer,
        done: impl FnOnce(Result<(), CopyError>) + Send + 'static,
    ) {
        if buffer.len() as u64 != self.table.state_elements(slot.block, interval) {
            tracing::warn!(job = %self.args.id, block = %slot.block, %interval, "state of another length than it says");
            return;
        }
        let (thread, cell) = (self.thread(slot.role).clone(), Arc::clone(&slot.cell));
        let arena = thread.arena().clone();
        thread
            .submit(move |device| cell.write((device, &arena), interval, &buffer), move |result| done(flatten(result)));
    }

    /// The slot here of a piece of the adopted plan.
    fn slot_of(&mut self, piece: shoal_plan::ids::PieceId) -> Option<&mut Slot> {
        let id = *self.adopted.as_ref()?.slots.get(&piece)?;
        self.slots.get_mut(&id)
    }

    /// The shadow here, of the adopted plan, that these elements belong to.
    fn shadow_around(&self, block: BlockId, interval: Interval) -> Option<(SlotId, &Slot)> {
        let named = self.adopted.as_ref()?.slots.values();
        let mut held = named.filter_map(|id| self.slots.get(id).map(|slot| (*id, slot)));
        held.find(|(_, slot)| {
            slot.role == Role::Shadow && slot.block == block && slot.interval.intersection(interval) == Some(interval)
        })
    }

    /// Elements of a fill are in; with the last ones the shadow is whole.
    pub(super) async fn filled(
        &mut self,
        (generation, version): (Generation, Version),
        id: SlotId,
        elements: u64,
    ) -> Result<(), ActorProcessingErr> {
        if !self.in_force(generation) {
            return Ok(());
        }
        let Some((block, interval)) = self.slots.get(&id).map(|slot| (slot.block, slot.interval)) else {
            return Ok(());
        };
        if self.fetches.filled(id, version, elements, interval.len()) {
            self.fact(HolderEvent::StateArrived { generation, version, block, interval }).await?;
        }
        Ok(())
    }
}
