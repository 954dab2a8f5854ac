//! What the coordinator actor keeps, and how it comes back from the journal.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use ractor::ActorRef;
use shoal_plan::engine::{Event, LossCause, Millis, OrderAnswer};
use shoal_plan::ids::{JobId, NodeId};
use shoal_wire::control::ToWorker;
use shoal_wire::journal::Counter;
use tokio::sync::watch;
use tokio::time::Instant;

use super::absent::Absent;
use super::asks::Asks;
use super::flusher::{After, Flusher};
use super::intake::{self, Coming, Intake};
use super::job::JobEntry;
use super::journal::{Journal, JournalError, Restored};
use super::links::Door;
use super::members::{HEARTBEAT_MS, Members, Patience};
use super::message::{CoordinatorMsg, Reply};
use crate::transport::{Endpoint, PeerId};

/// What the coordinator actor keeps.
pub struct Coordinator {
    pub(super) me: ActorRef<CoordinatorMsg>,
    pub(super) endpoint: Endpoint,
    pub(super) journal: Arc<dyn Journal>,
    pub(super) flusher: Flusher,
    pub(super) incarnation: u32,
    pub(super) members: Members,
    /// Names of every node id ever given out.
    pub(super) names: BTreeMap<NodeId, String>,
    pub(super) door: Door,
    pub(super) absent: Absent,
    pub(super) jobs: BTreeMap<JobId, JobEntry>,
    /// Jobs whose data is being read.
    pub(super) intake: BTreeMap<JobId, Intake>,
    /// The one job that nodes work for; the others are queued.
    pub(super) active: Option<JobId>,
    /// Turns that jobs had so far, to the one that nodes work for.
    pub(super) turns: u64,
    pub(super) last_job: u64,
    /// Orders that an engine has not answered yet.
    pub(super) orders: BTreeMap<u64, Reply<OrderAnswer>>,
    pub(super) last_request: u64,
    pub(super) asks: Asks,
    changes: watch::Sender<u64>,
    started: Instant,
    watched: Instant,
}

impl Coordinator {
    /// The coordinator as its journal left it, one incarnation later.
    pub(super) fn restore(
        me: ActorRef<CoordinatorMsg>,
        endpoint: Endpoint,
        journal: Arc<dyn Journal>,
        changes: watch::Sender<u64>,
        patience: Patience,
        restored: Restored,
    ) -> Self {
        let incarnation = restored.incarnation();
        let now = Instant::now();
        let (mut jobs, mut intake) = (BTreeMap::new(), BTreeMap::new());
        for (id, job) in restored.jobs {
            tracing::info!(job = %id, lines = job.lines.len(), "job restored");
            match intake::restore(job) {
                Coming::Unread(unread) => drop(intake.insert(id, unread)),
                Coming::Known(job, lines) => {
                    drop(jobs.insert(id, JobEntry::restore(job, lines, incarnation, patience.jobs)))
                }
            }
        }
        Self {
            flusher: Flusher::new(Arc::clone(&journal)),
            last_job: restored.counters.get(&Counter::Jobs).copied().unwrap_or(0),
            members: Members::new(patience, restored.gone),
            names: restored.nodes,
            door: Door::default(),
            absent: Absent::new(restored.addresses),
            orders: BTreeMap::new(),
            asks: Asks::default(),
            active: restored.turn.1.filter(|job| jobs.get(job).is_some_and(|job| !job.is_over())),
            turns: restored.turn.0,
            last_request: 0,
            started: now,
            watched: now,
            me,
            endpoint,
            journal,
            incarnation,
            jobs,
            intake,
            changes,
        }
    }

    /// Goes on with the job that had its turn, and asks after the workers that were there.
    pub(super) fn resume(&mut self) -> Result<(), JournalError> {
        tracing::info!(incarnation = self.incarnation, jobs = self.jobs.len(), "coordinator is up");
        self.read_again();
        match self.active {
            Some(job) => self.begin_turn(job)?,
            None => self.next_job()?,
        }
        self.absent.ask(&self.me);
        Ok(())
    }

    /// The transport.
    pub(super) fn endpoint(&self) -> Endpoint {
        self.endpoint.clone()
    }

    /// The store.
    pub(super) fn journal(&self) -> Arc<dyn Journal> {
        Arc::clone(&self.journal)
    }

    /// Milliseconds since this coordinator started.
    pub(super) fn now(&self) -> Millis {
        Millis(self.started.elapsed().as_millis() as u64)
    }

    /// Milliseconds since 1970.
    pub(super) fn wall_ms() -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
    }

    /// Wakes readers that wait for something new.
    pub(super) fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// The operator's name for a node.
    pub(super) fn name(&self, node: NodeId) -> String {
        self.names.get(&node).cloned().unwrap_or_else(|| node.to_string())
    }

    /// A number that names one request of this coordinator.
    pub(super) fn request(&mut self) -> u64 {
        self.last_request += 1;
        self.last_request
    }

    /// Looks at every deadline. A watcher that was held up itself gives everyone that much more time.
    pub(super) fn watch(&mut self) -> Result<(), JournalError> {
        let elapsed = self.watched.elapsed().as_millis() as u64;
        self.watched = Instant::now();
        let late = elapsed.saturating_sub(HEARTBEAT_MS);
        let now = self.now();
        for node in self.members.overdue(now, late) {
            tracing::warn!(%node, "no heartbeat, taken as lost");
            self.endpoint.disconnect(PeerId::Worker(node), "no heartbeat came; start the daemon anew");
            self.lost(node, LossCause::Silent)?;
        }
        self.open_door(HEARTBEAT_MS)?;
        self.asks.expire(now);
        if !self.intake.is_empty() {
            // How far they are.
            self.changed();
        }
        Ok(())
    }

    /// Everything queued before a flush is durable now. True if the coordinator should stop.
    pub(super) fn flushed(&mut self, after: Vec<After>) -> Result<bool, JournalError> {
        let me = self.me.clone();
        self.flusher.finished(&me);
        let mut stop = false;
        for after in after {
            match after {
                After::Engine { job, mark } => self.drive(job, Event::Flushed { mark })?,
                After::Admit(node, caller) => self.admit(node, caller),
                After::Submitted(submitted, reply) => {
                    tracing::info!(job = %submitted.job(), ?submitted, "job submitted");
                    // An error means that the client is gone; the job is submitted all the same.
                    let _ = reply.send(Ok(submitted));
                }
                After::Answered(answer, reply) => {
                    // An error means that whoever asked is gone.
                    let _ = reply.send(Ok(answer));
                }
                After::Stop(reply) => {
                    let _ = reply.send(Ok(()));
                    stop = true;
                }
            }
        }
        Ok(stop)
    }

    /// Tells every worker to stop, and stops once the journal is durable.
    pub(super) fn shutdown(&mut self, reply: Reply<()>) {
        tracing::info!("the cluster is told to stop");
        for node in self.members.linked() {
            self.tell(node, ToWorker::Shutdown);
        }
        let me = self.me.clone();
        self.flusher.request(&me, After::Stop(reply));
    }
}
