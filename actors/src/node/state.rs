//! A worker's standing with the coordinator, and the jobs it takes part in.

mod leave;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef};
use shoal_kernels::Buffer;
use shoal_plan::holder::HolderEvent;
use shoal_plan::ids::{Generation, JobId, NodeId};
use shoal_plan::job::Job;
use shoal_plan::protocol::{FromNode, ToNode, Trouble};
use shoal_wire::control::{Chaos, Control, FromWorker, Hello, Introduction, Question, ToPeer, ToWorker, VERSION, Who};
use tokio::sync::watch;
use tokio::time::Instant;

use super::actor::NodeMsg;
use super::config::NodeConfig;
use super::door::Door;
use super::ending::Ending;
use super::handle::NodeEnd;
use super::heartbeat::Heart;
use super::links::Links;
use super::questions;
use super::sink::{ArenaSink, Overflow};
use crate::device::Devices;
use crate::holder::{HolderActor, HolderArgs, HolderMsg, LinkNews};
use crate::stage::StageFault;
use crate::transport::{Callee, ConnectError, Inbound, PeerId};
use crate::written::Shelf;

/// Between two attempts to reach the coordinator: this at first, doubled each time.
const BACKOFF: Duration = Duration::from_millis(25);
/// At most this.
const BACKOFF_MAX: Duration = Duration::from_millis(800);
/// For holders to end when this worker gets another name.
const STOP_DEADLINE: Duration = Duration::from_secs(5);

/// What a worker's root owns.
pub(super) struct NodeState {
    me: ActorRef<NodeMsg>,
    config: NodeConfig,
    links: Links,
    devices: Devices,
    shelf: Shelf,
    sink: ArenaSink,
    /// Beats as long as this worker lives.
    _heart: Heart,
    standing: Standing,
    /// When the coordinator last said something.
    heard: Option<Instant>,
    intent: Intent,
    door: Door,
    jobs: BTreeMap<JobId, JobHere>,
    ending: Ending,
    end: watch::Sender<Option<NodeEnd>>,
}

/// How this worker stands with the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// No link; attempts so far.
    Apart { attempts: u32 },
    /// Let in, not yet welcomed.
    Admitted,
    /// Welcomed.
    Member,
}

/// What it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Intent {
    Stay,
    Leave,
}

/// A job on this worker.
struct JobHere {
    job: Arc<Job>,
    holder: ActorRef<HolderMsg>,
    /// The newest generation that its engine has spoken under.
    generation: Generation,
}

impl NodeState {
    pub(super) fn new(
        me: ActorRef<NodeMsg>,
        (config, links, devices, shelf): (NodeConfig, Links, Devices, Shelf),
        (sink, heart): (ArenaSink, Heart),
        end: watch::Sender<Option<NodeEnd>>,
    ) -> Self {
        Self {
            me,
            config,
            links,
            devices,
            shelf,
            sink,
            _heart: heart,
            standing: Standing::Apart { attempts: 0 },
            heard: None,
            intent: Intent::Stay,
            door: Door::default(),
            jobs: BTreeMap::new(),
            ending: Ending::default(),
            end,
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.end.borrow().is_some()
    }

    fn end(&self, end: NodeEnd) {
        self.end.send_if_modified(|ended| {
            let first = ended.is_none();
            if first {
                tracing::info!(name = self.config.name, ?end, "worker ends");
                *ended = Some(end);
            }
            first
        });
    }

    /// Says goodbye to everyone.
    pub(super) async fn close(&mut self) {
        self.links.endpoint.shutdown("the worker ends").await;
        self.end(NodeEnd::Failed { reason: "the worker's root actor failed".to_owned() });
    }

    /// Dials the coordinator, in a task of its own.
    pub(super) fn dial(&mut self) {
        let Standing::Apart { .. } = self.standing else { return };
        let address = (self.config.coordinator)();
        let (me, endpoint, introduce) = (self.me.clone(), self.links.endpoint.clone(), self.introduction());
        let Some(address) = address else {
            self.me.send_after(BACKOFF_MAX, || NodeMsg::Dial);
            return;
        };
        tokio::spawn(async move {
            let hello = introduce.await;
            let outcome = endpoint.connect(Callee::coordinator(), address, hello).await;
            // An error means that the worker is ending.
            let _ = me.cast(NodeMsg::Dialled(outcome));
        });
    }

    /// What this worker says of itself.
    fn introduction(&self) -> impl Future<Output = Hello> + Send + use<> {
        let shelf = self.shelf.clone();
        let introduction = Introduction {
            node: self.links.me(),
            name: self.config.name.clone(),
            address: self.links.endpoint.local_address(),
            pid: std::process::id(),
            budget_bytes: self.config.budget_bytes,
            threads: self.config.threads,
            class: self.devices.compute.class().to_owned(),
            arithmetic: self.devices.compute.arithmetic(),
            written: Vec::new(),
        };
        async move {
            let written = tokio::task::spawn_blocking(move || shelf.jobs()).await;
            let written = written.ok().and_then(Result::ok).unwrap_or_default();
            Hello { protocol: VERSION, who: Who::Worker(Introduction { written, ..introduction }) }
        }
    }

    pub(super) fn dialled(&mut self, outcome: Result<(), ConnectError>) {
        let Standing::Apart { attempts } = self.standing else { return };
        match outcome {
            Ok(()) => self.standing = Standing::Admitted,
            Err(error @ (ConnectError::Certificate { .. } | ConnectError::Protocol { .. })) => {
                self.end(NodeEnd::Failed { reason: crate::chain(&error) });
            }
            Err(error @ ConnectError::Refused { .. }) if self.links.me().is_none() => {
                self.end(NodeEnd::Failed { reason: crate::chain(&error) });
            }
            Err(ConnectError::ShutDown) => self.end(NodeEnd::Stopped),
            Err(
                error @ (ConnectError::NobodyListens { .. }
                | ConnectError::NoAnswer { .. }
                | ConnectError::WrongPeer { .. }
                | ConnectError::Impostor { .. }
                | ConnectError::Refused { .. }
                | ConnectError::Broken { .. }),
            ) => {
                if attempts == 0 {
                    tracing::warn!(%error, "the coordinator cannot be reached; trying on");
                }
                self.standing = Standing::Apart { attempts: attempts + 1 };
                let wait = BACKOFF.saturating_mul(1 << attempts.min(10)).min(BACKOFF_MAX);
                self.me.send_after(wait, || NodeMsg::Dial);
            }
        }
    }

    pub(super) fn overflow(&mut self, overflow: Overflow) {
        let Overflow { job, cause } = overflow;
        tracing::warn!(%job, cause, "a transfer did not fit");
        let trouble = Trouble::OverBudget { cause };
        self.cast(job, HolderMsg::Fact(HolderEvent::Trouble { trouble, lost: Vec::new() }));
    }

    pub(super) async fn inbound(&mut self, inbound: Inbound) -> Result<(), ActorProcessingErr> {
        if let Inbound::PeerUp { peer: PeerId::Coordinator, .. } | Inbound::Control { from: PeerId::Coordinator, .. } =
            inbound
        {
            self.heard = Some(Instant::now());
        }
        match inbound {
            Inbound::Knock(caller) => self.door.knock(&self.links, caller),
            Inbound::PeerUp { peer: PeerId::Coordinator, hello: _ } => self.standing = Standing::Admitted,
            Inbound::PeerUp { peer: PeerId::Worker(peer), hello: _ } => tracing::debug!(%peer, "link is up"),
            Inbound::Control { from: PeerId::Coordinator, message: Control::ToWorker(message) } => {
                return self.told(*message).await;
            }
            Inbound::Control { from: PeerId::Worker(peer), message: Control::ToPeer(message) } => {
                let (ToPeer::FetchState { job, .. } | ToPeer::FetchWeights { job, .. }) = message;
                self.cast(job, HolderMsg::Asked(peer, message));
            }
            Inbound::Control { from, message } => tracing::warn!(%from, ?message, "not something to say to a worker"),
            Inbound::Bulk { from: _, header, buffer } => match buffer.into_any().downcast::<Buffer>() {
                Ok(buffer) => self.cast(header.job, HolderMsg::Arrived(header, *buffer)),
                Err(_) => tracing::error!("a transfer came in a buffer that is not this worker's"),
            },
            Inbound::PeerDown { peer: PeerId::Coordinator, cause } => {
                tracing::warn!(%cause, "the link to the coordinator is down");
                match cause {
                    // The transport dials again by itself.
                    crate::transport::DownCause::LinkReset => {}
                    crate::transport::DownCause::Died
                    | crate::transport::DownCause::Silent
                    | crate::transport::DownCause::Closed(_) => {
                        self.standing = Standing::Apart { attempts: 0 };
                        self.dial();
                    }
                }
            }
            Inbound::PeerDown { peer: PeerId::Worker(peer), cause } => {
                tracing::debug!(%peer, %cause, "link is down");
                for job in self.jobs.keys().copied().collect::<Vec<_>>() {
                    self.cast(job, HolderMsg::Link(LinkNews::Down { peer, cause: cause.to_string() }));
                }
            }
            Inbound::Rejected { address, cause } => tracing::warn!(%address, %cause, "a connection was turned away"),
        }
        Ok(())
    }

    async fn told(&mut self, message: ToWorker) -> Result<(), ActorProcessingErr> {
        match message {
            ToWorker::Welcome { node } => self.welcomed(node).await,
            ToWorker::Peers(peers) => {
                self.links.peers(&peers);
                self.door.look_again(&self.links);
            }
            ToWorker::Job { id, job } => return self.take_job(id, job).await,
            ToWorker::Holder { job, message } => self.engine_says(job, message),
            ToWorker::Ask { request, question } => {
                let (Question::Report { job } | Question::Manifest { job } | Question::Written { job, .. }) = question;
                let holder = self.jobs.get(&job).map(|here| &here.holder).or_else(|| self.ending.of(job));
                questions::answer(self.links.clone(), self.shelf.clone(), holder.cloned(), request, question);
            }
            ToWorker::Chaos(Chaos::PanicStage { job }) => self.cast(job, HolderMsg::FailStage(StageFault::Panic)),
            ToWorker::Chaos(Chaos::HangStage { job }) => self.cast(job, HolderMsg::FailStage(StageFault::Hang)),
            ToWorker::Chaos(Chaos::PoisonStage { job }) => self.cast(job, HolderMsg::FailStage(StageFault::Poison)),
            ToWorker::Shutdown => match self.intent {
                Intent::Stay => self.end(NodeEnd::Shutdown),
                Intent::Leave => self.end(NodeEnd::Left),
            },
            ToWorker::HeartbeatAck { number: _ } => {}
        }
        Ok(())
    }

    /// The coordinator names this worker. Another name than before means that the worker it was is lost: whatever was held
    /// under that name is of no use to anyone.
    async fn welcomed(&mut self, node: NodeId) {
        self.standing = Standing::Member;
        match self.links.me() {
            Some(before) if before != node => {
                tracing::warn!(%before, now = %node, "the cluster has gone on without this worker; it starts afresh");
                self.forget_everything().await;
            }
            Some(_) => {}
            None => tracing::info!(%node, name = self.config.name, "worker is registered"),
        }
        self.links.named(node);
        let (endpoint, introduce) = (self.links.endpoint.clone(), self.introduction());
        tokio::spawn(async move { endpoint.set_hello(PeerId::Coordinator, introduce.await) });
        if self.intent == Intent::Leave {
            self.links.tell(FromWorker::Leaving);
        }
    }

    /// Links go first: whoever waits for one wakes, and one that was opened under the old name, perhaps only just again,
    /// must not stand for the new one.
    async fn forget_everything(&mut self) {
        const REASON: &str = "this worker has another name now";
        self.links.part(REASON);
        for (job, here) in std::mem::take(&mut self.jobs) {
            if let Err(error) = here.holder.stop_and_wait(None, Some(STOP_DEADLINE)).await {
                tracing::warn!(%job, %error, "holder did not end in time");
            }
            self.links.endpoint.forget(job);
        }
        self.expect_transfers();
        self.links.part(REASON);
    }

    /// A job's holder hears its engine. With a release in force it ends, and the job is over here.
    fn engine_says(&mut self, job: JobId, message: ToNode) {
        let (generation, release) = (message.generation(), matches!(message, ToNode::Release { .. }));
        self.cast(job, HolderMsg::Engine(message));
        let Some(here) = self.jobs.get_mut(&job) else { return };
        here.generation = here.generation.max(generation);
        if release && here.generation == generation {
            self.ending.add(job, here.holder.clone());
            self.jobs.remove(&job);
            self.links.endpoint.forget(job);
            self.expect_transfers();
        }
    }

    /// Transfers of the jobs that are here are wanted, and no others.
    fn expect_transfers(&self) {
        self.sink.expect(self.jobs.iter().map(|(id, here)| (*id, &here.job.spec)));
    }

    async fn take_job(&mut self, id: JobId, job: Arc<Job>) -> Result<(), ActorProcessingErr> {
        if self.jobs.get(&id).is_some_and(|here| here.job == job) {
            return Ok(());
        }
        let Some(node) = self.links.me() else {
            tracing::warn!(job = %id, "a job came before a welcome");
            return Ok(());
        };
        if let Some(other) = self.jobs.remove(&id) {
            tracing::warn!(job = %id, "another job has this name now; what was held of the one before is freed");
            if let Err(error) = other.holder.stop_and_wait(None, Some(STOP_DEADLINE)).await {
                tracing::warn!(job = %id, %error, "holder did not end in time");
            }
            self.links.endpoint.forget(id);
        }
        let holder = self.holder(node, id, &job).await?;
        self.jobs.insert(id, JobHere { job, holder, generation: Generation::default() });
        self.expect_transfers();
        Ok(())
    }

    async fn holder(&self, node: NodeId, id: JobId, job: &Arc<Job>) -> Result<ActorRef<HolderMsg>, ActorProcessingErr> {
        let args = HolderArgs {
            node,
            id,
            job: Arc::clone(job),
            devices: self.devices.clone(),
            outside: Arc::new(self.links.clone()),
            shelf: self.shelf.clone(),
        };
        let (holder, _) = Actor::spawn_linked(None, HolderActor, args, self.me.get_cell()).await?;
        Ok(holder)
    }

    pub(super) async fn holder_failed(&mut self, child: ActorId, cause: &str) -> Result<(), ActorProcessingErr> {
        let Some(node) = self.links.me() else { return Ok(()) };
        let failed = self.jobs.iter().find(|(_, here)| here.holder.get_id() == child);
        let Some((id, job, generation)) = failed.map(|(id, here)| (*id, Arc::clone(&here.job), here.generation)) else {
            return Ok(());
        };
        tracing::error!(job = %id, gen = %generation, cause, "holder failed");
        let holder = self.holder(node, id, &job).await?;
        self.jobs.insert(id, JobHere { job, holder, generation });
        let trouble = Trouble::HoldingLost { cause: cause.to_owned() };
        self.links.tell(FromWorker::Holder { job: id, message: FromNode::Trouble { generation, trouble } });
        Ok(())
    }

    fn cast(&self, job: JobId, message: HolderMsg) {
        match self.jobs.get(&job) {
            Some(here) => {
                if here.holder.cast(message).is_err() {
                    tracing::debug!(%job, "holder is gone");
                }
            }
            None => tracing::debug!(%job, "not a job of this worker"),
        }
    }
}
