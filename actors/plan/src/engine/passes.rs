//! What happens beside stepping: validation, hashing and writing, and the end.

use std::collections::BTreeSet;

use super::face::{OrderAnswer, Record, State};
use super::phase::{Persisting, Persists, Phase, Standing, Validation};
use super::{Engine, Happening};
use crate::commit;
use crate::digest::{DigestError, PieceLeaves, assemble};
use crate::ids::{Digest, NodeId, Replica};
use crate::ledger::Version;
use crate::protocol::{LossSum, Persist, PersistMode};

impl Engine {
    /// A replica's part of a validation pass.
    pub(super) fn evaluated(&mut self, step: u64, replica: Replica, loss: LossSum) {
        let (head, Some(standing)) = (self.chain.head().step, &self.standing) else { return };
        let replicas = usize::from(standing.plan.replicas());
        let Phase::Running(running) = &mut self.phase else { return };
        let Validation::Begun(parts) = &mut running.validation else { return };
        if step != head {
            return;
        }
        if parts.insert(replica, loss).is_none() {
            self.watchdog.moved(self.now);
        }
        if parts.len() < replicas {
            return;
        }
        let loss = LossSum {
            loss: commit::total(parts.values().map(|part| part.loss)),
            tokens: parts.values().map(|part| part.tokens).sum(),
        };
        self.tally.validated(step, loss);
        self.journal(Record::Evaluated { step, loss });
        self.note(Happening::Evaluated { step });
        self.watchdog.completed(self.now);
        let mark = self.flush();
        if let Phase::Running(running) = &mut self.phase {
            running.validation = Validation::Journaled { mark };
        }
    }

    /// A validation result is durable.
    pub(super) fn validation_durable(&mut self, flushed: u64) {
        let Phase::Running(running) = &mut self.phase else { return };
        if matches!(running.validation, Validation::Journaled { mark } if mark <= flushed) {
            running.validation = Validation::Idle;
            self.side_work_done();
        }
    }

    /// Something that a commit waits for is done.
    fn side_work_done(&mut self) {
        self.commit_if_decided();
        self.finish_if_done();
        self.replan_if_idle();
    }

    /// The next thing to hash or write at a version: the operator's orders that are due, and the whole state at the end.
    pub(super) fn next_persist(&mut self, step: u64) -> Option<(Persist, Vec<u64>)> {
        let Phase::Running(running) = &self.phase else { return None };
        match running.persists {
            Persists::Idle => {}
            Persists::Begun(_) | Persists::LastWritten => return None,
        }
        let last = step == self.steps();
        let due = self.orders.persists_at(step);
        let write = last || due.iter().any(|order| order.mode == PersistMode::Write);
        if due.is_empty() && !last {
            return None;
        }
        let answers = due.iter().map(|order| order.request).collect();
        self.orders.persists_begun += 1;
        let request = u64::from(self.generation.incarnation) << 32 | self.orders.persists_begun;
        let mode = if write { PersistMode::Write } else { PersistMode::Hash };
        Some((Persist { request, mode }, answers))
    }

    /// A node hashed or wrote what it holds.
    pub(super) fn persisted(&mut self, node: NodeId, request: u64, version: Version, leaves: Vec<PieceLeaves>) {
        let head = self.chain.head();
        let Phase::Running(running) = &mut self.phase else { return };
        let Persists::Begun(persisting) = &mut running.persists else { return };
        if persisting.persist.request != request || version != head || !persisting.waiting.remove(&node) {
            return;
        }
        persisting.leaves.extend(leaves);
        self.watchdog.moved(self.now);
        if !persisting.waiting.is_empty() {
            return;
        }
        let last = head.step == self.setup.job.spec.train.steps;
        let after = if last { Persists::LastWritten } else { Persists::Idle };
        let Persists::Begun(Persisting { persist, answers, leaves, .. }) =
            std::mem::replace(&mut running.persists, after)
        else {
            return;
        };
        match assemble(&self.setup.table, &leaves) {
            Ok(digest) => {
                self.watchdog.completed(self.now);
                self.answer_persists(persist, &answers, head.step, digest);
            }
            // Holders of one piece that disagree are the one thing that must never be.
            Err(error @ DigestError::Conflict { .. }) => {
                self.fail(format!("the state of step {} is not one state: {error}", head.step));
                return;
            }
            // A holding went while it was hashed, and word of that has not come through.
            Err(error @ (DigestError::Missing { .. } | DigestError::Malformed { .. })) => {
                self.fence(&format!("the state of step {} was not hashed whole: {error}", head.step));
                return;
            }
        }
        self.side_work_done();
    }

    fn answer_persists(&mut self, persist: Persist, answers: &[u64], step: u64, digest: Digest) {
        for request in answers {
            self.orders.close_persist(*request);
        }
        self.note(Happening::Persisted { step, digest, written: persist.mode == PersistMode::Write });
        self.tally.digest = Some((step, digest));
        // Whoever reads the state back finds its step in the ledger, also after a restart of everything.
        for request in answers {
            self.answer_once_durable(*request, OrderAnswer::Persisted { persist, step, digest });
        }
    }

    /// A node cannot write. An order that wanted it is refused; at the end somebody else has to have the pieces, or everybody
    /// waits with them until there is room.
    pub(super) fn disk_trouble(&mut self, node: NodeId, cause: &str) {
        let Phase::Running(running) = &mut self.phase else { return };
        let reason = format!("{node} cannot write its pieces: {cause}");
        if !matches!(running.persists, Persists::Begun(_)) {
            self.note(Happening::Warning { reason });
            return;
        }
        if self.chain.head().step < self.setup.job.spec.train.steps {
            running.persists = Persists::Idle;
            self.refuse_due_persists(&reason);
            self.note(Happening::Warning { reason });
            self.side_work_done();
        } else if self.can_spare(node) {
            self.evict(node, &reason);
        } else {
            self.refuse_due_persists(&reason);
            self.park(&format!("{reason}; the trained state stays in memory, resume the job once there is room"));
        }
    }

    pub(super) fn finish_if_done(&mut self) {
        let Phase::Running(running) = &self.phase else { return };
        let written = matches!(running.persists, Persists::LastWritten);
        let steps = self.steps();
        if self.chain.head().step == steps && written && matches!(running.validation, Validation::Idle) {
            self.close(State::Done, format!("all {steps} steps are committed and written by all their holders"));
        }
    }
}

/// Who has to answer an order to hash or write.
pub(super) fn persisters(standing: &Standing, mode: PersistMode, step: u64) -> BTreeSet<NodeId> {
    let pieces = standing.plan.pieces();
    match mode {
        PersistMode::Hash => pieces.map(|(_, piece)| piece.owner).collect(),
        PersistMode::Write => pieces
            .flat_map(|(id, piece)| piece.holders().filter(move |node| standing.counts(id, *node, step + 1)))
            .collect(),
    }
}
