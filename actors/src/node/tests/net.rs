//! A coordinator and workers in one process, over real loopback transport.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ractor::rpc::CallResult;
use ractor::{Actor, ActorRef};
use shoal_config::spec::Auto;
use shoal_plan::blocks::ModelTable;
use shoal_plan::engine::Record;
use shoal_plan::ids::{Digest, JobId, NodeId, PieceId};
use shoal_plan::job::Job;
use shoal_plan::layout::Plan;
use shoal_wire::api::{JobState, JobStatus, LedgerLine, NodeReport, RedundancyState};
use shoal_wire::control::{Answer, Question};
use shoal_wire::journal::Entry;
use tempfile::TempDir;
use tokio::sync::watch;

use crate::coordinator::written::Catalogue;
use crate::coordinator::{
    CoordinatorActor, CoordinatorArgs, CoordinatorMsg, Journal, MemoryJournal, NodeAnswer, Patience, Read, Repeat,
    Reply, To,
};
use crate::node::{self, NodeConfig, NodeEnd, NodeHandle};
use crate::transport::{ClusterCa, Endpoint, EndpointConfig, NoBulk};

const LOOK_AGAIN: Duration = Duration::from_millis(50);
const DEADLINE: Duration = Duration::from_secs(120);
const CALL: Duration = Duration::from_secs(10);
const VALIDITY: Duration = Duration::from_secs(3600);

/// A whole cluster.
pub(super) struct Net {
    ca: ClusterCa,
    dirs: TempDir,
    journal: Arc<MemoryJournal>,
    coordinator: ActorRef<CoordinatorMsg>,
    /// Counts up with whatever a reader of the coordinator of the moment might see.
    changes: watch::Receiver<u64>,
    /// Where the coordinator of the moment listens.
    address: Arc<Mutex<SocketAddr>>,
    pub(super) nodes: BTreeMap<String, NodeHandle>,
}

/// What two runs of one job must agree on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ending {
    pub(super) ledger: String,
    pub(super) state: Digest,
}

/// A plan that was deployed, with the shadows that were to be filled behind training.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) plan: Arc<Plan>,
    pub(super) unfilled: Vec<(PieceId, NodeId)>,
}

impl Net {
    pub(super) async fn up(workers: &[&str]) -> Self {
        let ca = ClusterCa::generate().expect("a CA");
        let journal = Arc::new(MemoryJournal::default());
        let (coordinator, changes, at) = coordinator(&ca, &journal).await;
        let address = Arc::new(Mutex::new(at));
        let dirs = TempDir::new().expect("a temp dir");
        let mut net = Self { ca, dirs, journal, coordinator, changes, address, nodes: BTreeMap::new() };
        for name in workers {
            net.start(name).await;
        }
        net.until_living(workers.len()).await;
        net
    }

    /// A worker process, as far as it goes within one.
    pub(super) async fn start(&mut self, name: &str) {
        let address = Arc::clone(&self.address);
        let config = NodeConfig {
            name: name.to_owned(),
            identity: self.ca.identity(name, VALIDITY).expect("an identity"),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            coordinator: Arc::new(move || Some(*address.lock().unwrap_or_else(PoisonError::into_inner))),
            data_dir: self.dirs.path().join(name),
            budget_bytes: 256 << 20,
            threads: 1,
            class: Auto::Auto,
        };
        self.nodes.insert(name.to_owned(), node::run(config).await.expect("the worker starts"));
    }

    /// Ends a worker at once.
    pub(super) async fn stop(&mut self, name: &str) {
        let mut node = self.nodes.remove(name).expect("it runs");
        node.stop();
        assert_eq!(node.ended().await, NodeEnd::Stopped);
    }

    /// The only worker of a running job is asked to leave, which nobody can allow; then the coordinator dies for good.
    /// How long the worker stays after that.
    pub(super) async fn abandon(&mut self, name: &str) -> Duration {
        let mut node = self.nodes.remove(name).expect("it runs");
        node.leave();
        self.until("it wishes to leave", |net| {
            Box::pin(async move {
                let nodes = net.ask(|reply| CoordinatorMsg::Read(Read::Nodes(reply))).await;
                nodes.iter().any(|node| node.state == shoal_wire::api::NodeState::Draining)
            })
        })
        .await;
        self.coordinator.kill_and_wait(Some(CALL)).await.expect("it ends");
        let since = std::time::Instant::now();
        let end = tokio::time::timeout(DEADLINE, node.ended()).await.expect("one request is enough");
        assert_eq!(end, NodeEnd::Left);
        since.elapsed()
    }

    /// Asks a worker to leave in peace and waits until it has.
    pub(super) async fn leave(&mut self, name: &str) {
        let mut node = self.nodes.remove(name).expect("it runs");
        node.leave();
        let end = tokio::time::timeout(DEADLINE, node.ended()).await.expect("it is let go");
        assert_eq!(end, NodeEnd::Left);
    }

    /// The coordinator dies and another one takes over from its journal, at another address.
    pub(super) async fn replace_coordinator(&mut self) {
        self.coordinator.kill_and_wait(Some(CALL)).await.expect("it ends");
        let (coordinator, changes, at) = coordinator(&self.ca, &self.journal).await;
        (self.coordinator, self.changes) = (coordinator, changes);
        *self.address.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }

    async fn ask<T>(&self, message: impl FnOnce(Reply<T>) -> CoordinatorMsg) -> T
    where
        T: Send + 'static,
    {
        match self.coordinator.call(message, Some(CALL)).await {
            Ok(CallResult::Success(Ok(answer))) => answer,
            Ok(CallResult::Success(Err(error))) => panic!("refused: {error}"),
            Ok(CallResult::Timeout | CallResult::SenderError) | Err(_) => panic!("the coordinator does not answer"),
        }
    }

    /// Waits until so many workers are members.
    pub(super) async fn until_living(&self, want: usize) {
        self.until("every worker is a member", move |net| Box::pin(async move { net.living().await == want })).await;
    }

    async fn living(&self) -> usize {
        let nodes = self.ask(|reply| CoordinatorMsg::Read(Read::Nodes(reply))).await;
        nodes.iter().filter(|node| node.state == shoal_wire::api::NodeState::Ready).count()
    }

    /// Bytes in the arenas of each worker, by its last heartbeat.
    pub(super) async fn used_bytes(&self) -> Vec<u64> {
        let nodes = self.ask(|reply| CoordinatorMsg::Read(Read::Nodes(reply))).await;
        nodes.iter().map(|node| node.used_bytes).collect()
    }

    pub(super) async fn submit(&self, job: &Job) -> JobId {
        self.ask(|reply| CoordinatorMsg::Submit(Box::new(job.spec.clone()), Repeat::Join, reply)).await.job()
    }

    pub(super) async fn status(&self, job: JobId) -> JobStatus {
        self.ask(|reply| CoordinatorMsg::Read(Read::Status(job, reply))).await
    }

    pub(super) async fn until(
        &self,
        what: &str,
        is_so: impl for<'a> Fn(&'a Self) -> futures_util::future::BoxFuture<'a, bool>,
    ) {
        let mut changes = self.changes.clone();
        let wait = async {
            // Not all that is asked for is a change at the coordinator: a worker's actors end by themselves.
            while !is_so(self).await {
                let changed = tokio::time::timeout(LOOK_AGAIN, changes.changed()).await;
                changed.ok().transpose().expect("the coordinator lives");
            }
        };
        tokio::time::timeout(DEADLINE, wait).await.unwrap_or_else(|_| panic!("{what}: did not come true"));
    }

    pub(super) async fn until_step(&self, job: JobId, step: u64) {
        self.until(&format!("step {step}"), move |net| {
            Box::pin(async move {
                let status = net.status(job).await;
                assert!(status.state != JobState::Failed, "{:?}", status.reason);
                status.step >= step
            })
        })
        .await;
    }

    /// Runs to the end; the state as the workers have written it.
    pub(super) async fn ending(&self, job: JobId, what: &Job) -> Ending {
        self.until("the job is done", move |net| {
            Box::pin(async move {
                let status = net.status(job).await;
                assert!(status.state != JobState::Failed, "{:?}", status.reason);
                status.state == JobState::Done
            })
        })
        .await;
        let lines: Vec<LedgerLine> = self.ask(|reply| CoordinatorMsg::Read(Read::Ledger(job, 0, reply))).await;
        assert_eq!(lines.len() as u64, what.spec.train.steps, "every step is committed once");
        Ending { ledger: lines.last().expect("there are steps").hash.clone(), state: self.written(job, what).await }
    }

    /// Digest of what the workers that are here have written.
    pub(super) async fn written(&self, job: JobId, what: &Job) -> Digest {
        let version = self.ask(|reply| CoordinatorMsg::Read(Read::Version(job, None, reply))).await;
        let question = Question::Manifest { job };
        let answers: Vec<NodeAnswer> =
            self.ask(|reply| CoordinatorMsg::Read(Read::Ask(To::All, question, reply))).await;
        let table = ModelTable::of_job(&what.spec);
        Catalogue::new(version, answers).digest(&table).expect("everything is written, and agrees")
    }

    pub(super) async fn reports(&self, job: JobId) -> Vec<NodeReport> {
        let question = Question::Report { job };
        let answers: Vec<NodeAnswer> =
            self.ask(|reply| CoordinatorMsg::Read(Read::Ask(To::All, question, reply))).await;
        answers
            .into_iter()
            .filter_map(|answer| match answer.answer {
                Answer::Report(report) => Some(*report),
                Answer::Manifest(_) | Answer::Written(_) | Answer::Refused(_) => None,
            })
            .collect()
    }

    /// Every plan that a job's journal has.
    pub(super) fn plans(&self, job: JobId) -> Vec<Planned> {
        let entries = self.journal.load().expect("it is memory");
        let records = entries.into_iter().filter_map(|entry| match entry {
            Entry::Line { job: of, line, .. } if of == job => Some(line.record),
            _ => None,
        });
        let planned = records.filter_map(|record| match record {
            Record::Planned { plan, unfilled, .. } => Some(Planned { plan, unfilled }),
            _ => None,
        });
        planned.collect()
    }

    /// Every node id that was given out, with the worker's name.
    pub(super) fn names(&self) -> BTreeMap<NodeId, String> {
        let entries = self.journal.load().expect("it is memory");
        let nodes = entries.into_iter().filter_map(|entry| match entry {
            Entry::Node { id, name, .. } => Some((id, name)),
            _ => None,
        });
        nodes.collect()
    }

    /// Waits until every shadow is there.
    pub(super) async fn until_filled(&self, job: JobId) {
        self.until("full redundancy", move |net| {
            Box::pin(async move {
                let status = net.status(job).await;
                assert!(status.state != JobState::Failed, "{:?}", status.reason);
                status.redundancy.state == RedundancyState::Full
            })
        })
        .await;
    }

    pub(super) async fn events(&self, job: JobId) -> String {
        let lines = self.ask(|reply| CoordinatorMsg::Read(Read::Events(job, 0, reply))).await;
        lines.into_iter().map(|l| format!("{} {} {}: {}\n", l.generation, l.step, l.kind, l.reason)).collect()
    }
}

async fn coordinator(
    ca: &ClusterCa,
    journal: &Arc<MemoryJournal>,
) -> (ActorRef<CoordinatorMsg>, watch::Receiver<u64>, SocketAddr) {
    let identity = ca.identity("coordinator", VALIDITY).expect("an identity");
    let listen = EndpointConfig::new(SocketAddr::from(([127, 0, 0, 1], 0)), identity);
    let (endpoint, inbound) = Endpoint::bind(listen, Arc::new(NoBulk)).expect("a port");
    let address = endpoint.local_address();
    let (changes, seen) = watch::channel(0);
    let journal: Arc<MemoryJournal> = Arc::clone(journal);
    let args = CoordinatorArgs { endpoint, inbound, journal, changes, patience: Patience::default() };
    let (actor, _) = Actor::spawn(None, CoordinatorActor, args).await.expect("the coordinator starts");
    (actor, seen, address)
}
