//! A new slot: room for it, and what this node can put in at once. Parts from peers are fetched by later commands.

use std::sync::Arc;

use shoal_kernels::{ArenaError, JobPanic};
use shoal_model::files::FilesError;
use shoal_model::init::Initial;
use shoal_plan::holder::{HolderEvent, Part, Role, SlotId, Source};
use shoal_plan::ids::BlockId;
use shoal_plan::protocol::Trouble;
use shoal_plan::space::Interval;

use super::message::{CopyError, HolderMsg, Work, WorkDone};
use super::slot::{Slot, SlotCell};
use super::state::HolderState;

impl HolderState {
    pub(super) fn build(&mut self, id: SlotId, (block, interval): (BlockId, Interval), role: Role, parts: &[Part]) {
        let cell = match SlotCell::alloc(self.thread(role).arena(), &self.table, (block, interval)) {
            Ok(cell) => Arc::new(cell),
            Err(error) => {
                let cause = format!("{}: no room for {block} {interval}: {}", self.args.id, crate::chain(&error));
                self.find(HolderEvent::Trouble { trouble: Trouble::OverBudget { cause }, lost: vec![id] });
                return;
            }
        };
        let mut building = 0;
        for part in parts {
            match part.source {
                Source::Peer(_) => continue,
                Source::Seed => self.seed(id, &cell, role, (block, part.interval)),
                Source::Slot(source) => self.copy(id, &cell, role, (source, part.interval)),
            }
            building += 1;
        }
        let gradients = std::collections::BTreeMap::new();
        self.slots.insert(id, Slot { block, interval, role, cell, gradients, building });
    }

    fn seed(&self, id: SlotId, cell: &Arc<SlotCell>, role: Role, (block, interval): (BlockId, Interval)) {
        let (thread, cell, me) = (self.thread(role), Arc::clone(cell), self.me.clone());
        let (table, job, arena) = (Arc::clone(&self.table), Arc::clone(&self.args.job), thread.arena().clone());
        thread.submit(
            move |device| {
                // Opened each time: files that somebody replaced meanwhile are seen as they are.
                let initial = Initial::open(&job, &table).map_err(unreadable)?;
                let mut filled = Ok(());
                let seeded = cell.seed((device, &arena), interval, |out| {
                    filled = initial.fill(&table, block, interval, out);
                });
                seeded.map_err(|error| CopyError::Room(crate::chain(&error)))?;
                filled.map_err(unreadable)
            },
            move |result: Result<Result<(), CopyError>, JobPanic>| {
                let result = result.unwrap_or_else(|panic| Err(CopyError::Lost(panic.to_string())));
                // An error means that the job is over here.
                let _ = me.cast(HolderMsg::Work(Work(WorkDone::Built(id, result))));
            },
        );
    }

    /// Two hops: the source's thread holds its elements still, the target's copies them.
    fn copy(&self, id: SlotId, cell: &Arc<SlotCell>, role: Role, (source, interval): (SlotId, Interval)) {
        let me = self.me.clone();
        let done = move |result| {
            // An error means that the job is over here.
            let _ = me.cast(HolderMsg::Work(Work(WorkDone::Built(id, result))));
        };
        let Some(from) = self.slots.get(&source) else {
            done(Err(CopyError::Lost(format!("slot {} is not here", source.0))));
            return;
        };
        let (source, cell) = (Arc::clone(&from.cell), Arc::clone(cell));
        let snapshot = self.thread(from.role).run(move |_| source.snapshot());
        // The compute device alone reaches both tiers.
        let thread = match (role, from.role) {
            (Role::Shadow, Role::Shadow) => self.thread(Role::Shadow),
            (Role::Owner, Role::Owner | Role::Shadow) | (Role::Shadow, Role::Owner) => self.thread(Role::Owner),
        };
        let (thread, arena) = (thread.clone(), self.thread(role).arena().clone());
        tokio::spawn(async move {
            let copied = match snapshot.await {
                Ok(source) => flatten(thread.run(move |device| cell.copy((device, &arena), interval, &source)).await),
                Err(panic) => Err(CopyError::Lost(panic.to_string())),
            };
            done(copied);
        });
    }
}

fn unreadable(error: FilesError) -> CopyError {
    CopyError::Files(crate::chain(&error))
}

/// A panic as one more way to fail.
pub(super) fn flatten<T>(result: Result<Result<T, ArenaError>, JobPanic>) -> Result<T, CopyError> {
    match result {
        Ok(copied) => copied.map_err(|error| CopyError::Room(crate::chain(&error))),
        Err(panic) => Err(CopyError::Lost(panic.to_string())),
    }
}
