//! Records applied to slots, each on its slot's thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ractor::ActorProcessingErr;
use shoal_kernels::JobPanic;
use shoal_plan::holder::{HolderEvent, SlotId};
use shoal_plan::ledger::LedgerEntry;
use shoal_plan::protocol::Trouble;

use super::message::{HolderMsg, Work, WorkDone};
use super::state::{HolderState, over_budget};
use super::update::{UpdateError, UpdateJob, Updating};

/// An update that panics between two strokes is taken up again, this often in all.
const UPDATE_ATTEMPTS: u32 = 3;

impl HolderState {
    /// Applies a record to a slot.
    pub(super) fn apply(&mut self, id: SlotId, entry: &LedgerEntry) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        let gradient = slot.gradients.remove(&entry.step);
        slot.gradients.retain(|step, _| *step > entry.step);
        let job = UpdateJob::new(entry, &self.optimizer, (slot.block, slot.interval));
        let job = match (job, gradient) {
            (None, _) => None,
            (Some(job), Some(gradient)) => Some((job, gradient)),
            (Some(_), None) => {
                let cause = format!("{} {} has no gradient of step {}", slot.block, slot.interval, entry.step);
                self.find(HolderEvent::Trouble { trouble: Trouble::HoldingLost { cause }, lost: vec![id] });
                return;
            }
        };
        let (cell, attempts) = (Arc::clone(&slot.cell), AtomicU32::new(0));
        let (step, role) = (entry.step, slot.role);
        self.update(Arc::new(Updating { slot: id, step, role, cell, job, attempts }));
    }

    fn update(&self, update: Arc<Updating>) {
        let thread = self.thread(update.role).clone();
        let (arena, me, work) = (thread.arena().clone(), self.me.clone(), Arc::clone(&update));
        thread.submit(
            move |device| match &work.job {
                None => Ok(()),
                Some((job, gradient)) => job.apply((device, &arena), &work.cell, gradient, |_| ()),
            },
            move |result| {
                // An error means that the job is over here.
                let _ = me.cast(HolderMsg::Work(Work(WorkDone::Updated(update, result))));
            },
        );
    }

    pub(super) async fn updated(
        &mut self,
        update: Arc<Updating>,
        result: Result<Result<(), UpdateError>, JobPanic>,
    ) -> Result<(), ActorProcessingErr> {
        let Updating { slot, step, .. } = *update;
        match result {
            Ok(Ok(())) => self.fact(HolderEvent::Applied { slot, step }).await,
            Ok(Err(error @ UpdateError::Room(_))) => self.fact(over_budget(crate::chain(&error))).await,
            Err(panic) if update.attempts.fetch_add(1, Ordering::Relaxed) + 1 < UPDATE_ATTEMPTS => {
                tracing::warn!(job = %self.args.id, step, %panic, "update panicked and is taken up again");
                self.update(update);
                Ok(())
            }
            Ok(Err(error @ UpdateError::Torn { .. })) => self.lost(slot, crate::chain(&error)).await,
            Err(panic) => self.lost(slot, panic.to_string()).await,
        }
    }

    async fn lost(&mut self, slot: SlotId, cause: String) -> Result<(), ActorProcessingErr> {
        tracing::error!(job = %self.args.id, cause, "holding lost");
        self.slots.remove(&slot);
        self.fact(HolderEvent::Trouble { trouble: Trouble::HoldingLost { cause }, lost: vec![slot] }).await
    }
}
