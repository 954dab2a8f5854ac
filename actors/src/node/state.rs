//! A worker's standing with the coordinator, and the jobs it takes part in.

mod dial;
mod jobs;
mod leave;

use std::collections::BTreeMap;

use ractor::{ActorProcessingErr, ActorRef};
use shoal_kernels::Buffer;
use shoal_plan::holder::HolderEvent;
use shoal_plan::ids::{JobId, NodeId};
use shoal_plan::protocol::Trouble;
use shoal_wire::control::{Chaos, Control, FromWorker, Question, ToPeer, ToWorker};
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
use crate::holder::{HolderMsg, LinkNews};
use crate::stage::StageFault;
use crate::transport::{Inbound, PeerId};
use crate::written::Shelf;

use jobs::JobHere;

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
        self.drop_all_jobs().await;
        self.links.part(REASON);
    }
}
