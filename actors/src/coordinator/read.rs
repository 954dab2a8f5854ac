//! Answers to readers.

use std::sync::Arc;

use shoal_plan::ids::JobId;
use shoal_plan::ledger::Version;
use shoal_wire::control::{Question, ToWorker};

use super::error::RequestError;
use super::job::JobEntry;
use super::message::{NodeAnswer, Read, Reply, To};
use super::state::Coordinator;

/// Ledger lines of one answer, at most.
const LEDGER_LINES: usize = 10_000;

impl Coordinator {
    /// Answers a reader. That it may be gone by then is no fault.
    pub(super) fn read(&mut self, read: Read) {
        match read {
            Read::Nodes(reply) => drop(reply.send(Ok(self.members.infos(self.now())))),
            Read::Jobs(reply) => drop(reply.send(Ok(self.jobs.iter().map(|(id, job)| job.status(*id)).collect()))),
            Read::Status(id, reply) => drop(reply.send(self.job(id).map(|job| job.status(id)))),
            Read::Job(id, reply) => drop(reply.send(self.job(id).map(|job| Arc::clone(&job.job)))),
            Read::Plan(id, reply) => {
                drop(reply.send(self.job(id).map(|job| (job.engine.generation(), job.engine.plan().map(Arc::clone)))))
            }
            Read::Events(id, after, reply) => {
                drop(reply.send(self.job(id).map(|job| job.log.events(after, |node| self.name(node)))));
            }
            Read::Ledger(id, after, reply) => {
                drop(reply.send(self.job(id).map(|job| job.log.ledger(after, LEDGER_LINES))));
            }
            Read::Version(id, step, reply) => drop(reply.send(self.version(id, step))),
            Read::Ask(to, question, reply) => self.ask(to, question, reply),
        }
    }

    fn job(&self, id: JobId) -> Result<&JobEntry, RequestError> {
        self.jobs.get(&id).ok_or(RequestError::NoJob(id))
    }

    fn version(&self, id: JobId, step: Option<u64>) -> Result<Version, RequestError> {
        let job = self.job(id)?;
        let step = step.unwrap_or_else(|| job.log.step());
        if step == 0 {
            return Ok(Version { step, chain: job.job.genesis() });
        }
        job.log.version(step).ok_or(RequestError::NoStep { job: id, step })
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
