//! Answers to readers.

use std::collections::BTreeSet;
use std::sync::Arc;

use shoal_plan::ids::{Generation, JobId, NodeId};
use shoal_plan::ledger::Version;
use shoal_wire::api::{EventLine, JobStatus, NodeInfo};
use shoal_wire::control::{Question, ToWorker};

use super::error::RequestError;
use super::job::JobEntry;
use super::message::{NodeAnswer, Read, Reply, To};
use super::state::Coordinator;

/// Ledger lines of one answer, at most.
const LEDGER_LINES: usize = 10_000;
/// Events of one answer, at most.
const EVENTS: usize = 1_000;

impl Coordinator {
    /// Answers a reader. That it may be gone by then is no fault.
    pub(super) fn read(&mut self, read: Read) {
        match read {
            Read::Nodes(reply) => drop(reply.send(Ok(self.nodes()))),
            Read::Jobs(reply) => {
                let ids: BTreeSet<JobId> = self.intake.keys().chain(self.jobs.keys()).copied().collect();
                drop(reply.send(ids.into_iter().map(|id| self.status(id)).collect()));
            }
            Read::Status(id, reply) => drop(reply.send(self.status(id))),
            Read::Job(id, reply) => drop(reply.send(match self.intake.get(&id) {
                Some(intake) => Ok(Arc::clone(&intake.job)),
                None => self.job(id).map(|job| Arc::clone(&job.job)),
            })),
            Read::Plan(id, reply) => {
                let answer = self.job(id).map(|job| (job.engine.generation(), job.engine.plan().map(Arc::clone)));
                drop(reply.send(if self.intake.contains_key(&id) {
                    Ok((Generation::default(), None))
                } else {
                    answer
                }));
            }
            Read::Events(id, after, reply) => {
                drop(reply.send(self.events(id, after)));
            }
            Read::Ledger(id, after, reply) => {
                let answer = self.job(id).map(|job| job.log.ledger(after, LEDGER_LINES));
                drop(reply.send(if self.intake.contains_key(&id) { Ok(Vec::new()) } else { answer }));
            }
            Read::Version(id, step, reply) => drop(reply.send(self.version(id, step))),
            Read::AbsentHolders(id, reply) => drop(reply.send(self.absent_holders(id))),
            Read::Ask(to, question, reply) => self.ask(to, question, reply),
        }
    }

    /// Everyone, with what the job that nodes work for has against whom.
    fn nodes(&self) -> Vec<NodeInfo> {
        let mut nodes = self.members.infos(self.now());
        let (Some(job), Some(engine)) = (self.active, self.active_engine()) else { return nodes };
        for info in &mut nodes {
            let other = self.members.find(&info.node).and_then(|node| engine.left_out(node));
            info.left_out = other.zip(engine.arithmetic()).map(|(has, wanted)| {
                format!("left out of {job}: its products are {has} ({}), those of the job {wanted}", info.class)
            });
        }
        nodes
    }

    fn job(&self, id: JobId) -> Result<&JobEntry, RequestError> {
        self.jobs.get(&id).ok_or(RequestError::NoJob(id))
    }

    fn status(&self, id: JobId) -> Result<JobStatus, RequestError> {
        let mut status = match self.intake.get(&id) {
            Some(intake) => intake.status(id),
            None => self.job(id)?.status(id),
        };
        let reasons: Vec<String> = status.reason.into_iter().chain(self.place(id)).collect();
        status.reason = (!reasons.is_empty()).then(|| self.spelled(&reasons.join("; ")));
        status.plan = status.plan.map(|plan| self.spelled(&plan));
        status.plain = status.plain.map(|plain| self.spelled(&plain));
        Ok(status)
    }

    fn events(&self, id: JobId, after: u64) -> Result<Vec<EventLine>, RequestError> {
        let name = |node| self.name(node);
        let mut events = match self.intake.get(&id) {
            Some(intake) => intake.log().events(after, EVENTS, name),
            None => self.job(id)?.log.events(after, EVENTS, name),
        };
        for event in &mut events {
            event.reason = self.spelled(&event.reason);
        }
        Ok(events)
    }

    fn version(&self, id: JobId, step: Option<u64>) -> Result<Version, RequestError> {
        if self.intake.contains_key(&id) {
            return Err(RequestError::Unread(id));
        }
        let job = self.job(id)?;
        let step = step.unwrap_or_else(|| job.log.step());
        if step == 0 {
            return Ok(job.engine.genesis());
        }
        job.log.version(step).ok_or(RequestError::NoStep { job: id, step })
    }

    fn absent_holders(&self, id: JobId) -> Result<Vec<String>, RequestError> {
        let here: BTreeSet<String> = self.members.linked().into_iter().map(|node| self.name(node)).collect();
        let pieces = self.job(id)?.engine.plan().into_iter().flat_map(|plan| &plan.pieces);
        let holders: BTreeSet<NodeId> =
            pieces.flat_map(|piece| std::iter::once(piece.owner).chain(piece.shadows.iter().copied())).collect();
        let names: BTreeSet<String> = holders.into_iter().map(|node| self.name(node)).collect();
        Ok(names.difference(&here).cloned().collect())
    }

    fn ask(&mut self, to: To, question: Question, reply: Reply<Vec<NodeAnswer>>) {
        let linked = self.members.linked();
        let nodes = match to {
            To::All => linked,
            To::One(node) => linked.into_iter().filter(|n| *n == node).collect(),
        };
        let request = self.request();
        for node in &nodes {
            self.tell(*node, ToWorker::Ask { request, question: question.clone() });
        }
        let now = self.now();
        self.asks.open(now, request, nodes, reply);
    }
}
