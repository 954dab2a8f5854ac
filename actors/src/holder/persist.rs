//! Hashing and writing pieces: slots are held still, files are touched on the blocking pool.

use std::sync::Arc;

use shoal_plan::digest::PieceLeaves;
use shoal_plan::holder::{HolderEvent, SlotId};
use shoal_plan::ids::Generation;
use shoal_plan::ledger::Version;
use shoal_plan::protocol::{Persist, PersistMode, Trouble};

use super::message::HolderMsg;
use super::slot::Kinds;
use super::state::HolderState;
use crate::transport::BulkSource;
use crate::written::PieceData;

impl HolderState {
    pub(super) fn persist(&self, generation: Generation, persist: Persist, version: Version, slots: &[SlotId]) {
        let held: Vec<_> = slots
            .iter()
            .filter_map(|id| self.slots.get(id))
            .map(|slot| {
                let cell = Arc::clone(&slot.cell);
                (slot.block, slot.interval, self.thread(slot.role).run(move |_| cell.snapshot()))
            })
            .collect();
        let (shelf, table, job, me) = (self.args.shelf.clone(), Arc::clone(&self.table), self.args.id, self.me.clone());
        let report = self.report();
        tokio::spawn(async move {
            let mut pieces = Vec::with_capacity(held.len());
            for (block, interval, snapshot) in held {
                match snapshot.await {
                    Ok(kinds) => pieces.push(PieceData { block, interval, kinds: sources(kinds) }),
                    Err(panic) => tracing::error!(%panic, "slot could not be read"),
                }
            }
            let hashed = tokio::task::spawn_blocking(move || -> Result<Vec<PieceLeaves>, String> {
                match persist.mode {
                    PersistMode::Hash => Ok(pieces.iter().flat_map(|p| p.leaves(table.block(p.block))).collect()),
                    PersistMode::Write => {
                        let leaves = shelf.write(job, &table, version, &pieces);
                        let kept = leaves.and_then(|leaves| shelf.write_report(job, &report).map(|()| leaves));
                        kept.map_err(|error| crate::stage::chain(&error))
                    }
                }
            });
            let fact = match hashed.await {
                Ok(Ok(leaves)) => HolderEvent::Persisted { generation, request: persist.request, leaves },
                Ok(Err(cause)) => HolderEvent::Trouble { trouble: Trouble::Disk { cause }, lost: Vec::new() },
                Err(error) => {
                    let cause = error.to_string();
                    HolderEvent::Trouble { trouble: Trouble::Disk { cause }, lost: Vec::new() }
                }
            };
            // An error means that the job is over here.
            let _ = me.cast(HolderMsg::Fact(fact));
        });
    }

    /// Keeps the counters on disk, for whoever asks when no arena holds the job any more.
    pub(super) fn keep_report(&self) {
        if self.adopted.is_none() {
            return;
        }
        let (shelf, job, report) = (self.args.shelf.clone(), self.args.id, self.report());
        tokio::task::spawn_blocking(move || {
            if let Err(error) = shelf.write_report(job, &report) {
                tracing::warn!(%job, %error, "report is not kept");
            }
        });
    }
}

fn sources(kinds: Kinds) -> [Arc<dyn BulkSource>; 3] {
    kinds.map(|kind| -> Arc<dyn BulkSource> { kind })
}
