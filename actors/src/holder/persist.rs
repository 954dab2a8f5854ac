//! Hashing and writing pieces: slots are held still, files are touched on the blocking pool.

use std::sync::Arc;

use shoal_kernels::Buffer;
use shoal_plan::digest::PieceLeaves;
use shoal_plan::holder::{HolderEvent, SlotId};
use shoal_plan::ids::Generation;
use shoal_plan::ledger::Version;
use shoal_plan::protocol::{Persist, PersistMode};
use shoal_wire::api::NodeReport;

use super::message::{HolderMsg, Work, WorkDone};
use super::slot::Snapshot;
use super::state::HolderState;
use crate::transport::BulkSource;
use crate::written::{KindData, PieceData};

impl HolderState {
    pub(super) fn persist(&self, generation: Generation, persist: Persist, version: Version, slots: &[SlotId]) {
        let held: Vec<_> = slots
            .iter()
            .filter_map(|id| self.slots.get(id))
            .map(|slot| {
                let (cell, block, interval) = (Arc::clone(&slot.cell), slot.block, slot.interval);
                let snapshot = self.thread(slot.role).run(move |_| cell.snapshot());
                async move {
                    let snapshot = snapshot.await.map_err(|panic| panic.to_string())?;
                    Ok(PieceData { block, interval, kinds: sources(&snapshot) })
                }
            })
            .collect();
        let (shelf, table, job, me) = (self.args.shelf.clone(), Arc::clone(&self.table), self.args.id, self.me.clone());
        let report = self.report();
        tokio::spawn(async move {
            let write = move |pieces: Vec<PieceData>| match persist.mode {
                PersistMode::Hash => Ok(pieces.iter().flat_map(|p| p.leaves(&table)).collect()),
                PersistMode::Write => {
                    let leaves = shelf.write(job, &table, version, &pieces);
                    let kept = leaves.and_then(|leaves| shelf.write_report(job, &report).map(|()| leaves));
                    kept.map_err(|error| crate::chain(&error))
                }
            };
            let message = match persisted(held, write).await {
                Ok(leaves) => HolderMsg::Fact(HolderEvent::Persisted { generation, request: persist.request, leaves }),
                Err(cause) => HolderMsg::Work(Work(WorkDone::Unwritten { generation, cause })),
            };
            // An error means that the job is over here.
            let _ = me.cast(message);
        });
    }

    /// Keeps the counters on disk, for whoever asks when no arena holds the job any more.
    pub(super) async fn keep_report(&self, report: NodeReport) {
        let (shelf, job) = (self.args.shelf.clone(), self.args.id);
        let cause = match tokio::task::spawn_blocking(move || shelf.write_report(job, &report)).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => crate::chain(&error),
            Err(error) => error.to_string(),
        };
        tracing::warn!(%job, cause, "report is not kept");
    }
}

/// What `write` makes of pieces held still, or what went wrong.
async fn persisted(
    held: Vec<impl Future<Output = Result<PieceData, String>>>,
    write: impl FnOnce(Vec<PieceData>) -> Result<Vec<PieceLeaves>, String> + Send + 'static,
) -> Result<Vec<PieceLeaves>, String> {
    let mut pieces = Vec::with_capacity(held.len());
    for piece in held {
        pieces.push(piece.await?);
    }
    tokio::task::spawn_blocking(move || write(pieces)).await.map_err(|error| error.to_string())?
}

fn sources(snapshot: &Snapshot) -> Vec<KindData> {
    let source = |buffer: &Arc<Buffer>| -> Arc<dyn BulkSource> { buffer.clone() };
    snapshot.parts().map(|(kind, interval, buffer)| KindData { kind, interval, data: source(buffer) }).collect()
}
