//! Root actor of a worker. Supervises one holder a job; owns the transport's inbound side and the worker's standing with
//! the coordinator. Sends what the coordinator says about a job to its holder, and what peers send to whom it is for.
//!
//! A handler never waits for a peer: dialling, answering and files have tasks of their own.

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::{mpsc, watch};

use super::config::NodeConfig;
use super::handle::{NodeEnd, Wish};
use super::heartbeat::Heart;
use super::links::Links;
use super::sink::{ArenaSink, Overflow};
use super::state::NodeState;
use crate::device::Devices;
use crate::transport::{ConnectError, Inbound};
use crate::written::Shelf;

/// What a worker's root is told.
#[derive(Debug)]
pub(super) enum NodeMsg {
    /// By the transport.
    Inbound(Box<Inbound>),
    /// The coordinator was dialled: it let this worker in, or not.
    Dialled(Result<(), ConnectError>),
    /// Dial the coordinator (again).
    Dial,
    /// It wishes to leave: look whether there is still a coordinator to leave.
    Alone,
    /// By the daemon.
    Wish(Wish),
    /// A transfer did not fit.
    Overflow(Overflow),
}

/// What a worker's root is given.
pub(super) struct NodeArgs {
    pub(super) config: NodeConfig,
    pub(super) links: Links,
    pub(super) devices: Devices,
    pub(super) shelf: Shelf,
    pub(super) sink: ArenaSink,
    pub(super) heart: Heart,
    pub(super) inbound: mpsc::Receiver<Inbound>,
    pub(super) wishes: mpsc::UnboundedReceiver<Wish>,
    pub(super) overflows: mpsc::UnboundedReceiver<Overflow>,
    pub(super) end: watch::Sender<Option<NodeEnd>>,
}

/// A worker's root actor.
#[derive(Debug)]
pub(super) struct NodeActor;

impl Actor for NodeActor {
    type Msg = NodeMsg;
    type State = NodeState;
    type Arguments = NodeArgs;

    async fn pre_start(&self, me: ActorRef<NodeMsg>, args: NodeArgs) -> Result<NodeState, ActorProcessingErr> {
        let NodeArgs { config, links, devices, shelf, sink, heart, mut inbound, mut wishes, mut overflows, end } = args;
        let root = me.clone();
        tokio::spawn(async move {
            loop {
                let message = tokio::select! {
                    Some(inbound) = inbound.recv() => NodeMsg::Inbound(Box::new(inbound)),
                    Some(overflow) = overflows.recv() => NodeMsg::Overflow(overflow),
                    wish = wishes.recv() => NodeMsg::Wish(wish.unwrap_or(Wish::Stop)),
                    else => break,
                };
                if root.cast(message).is_err() {
                    break;
                }
            }
        });
        me.cast(NodeMsg::Dial)?;
        Ok(NodeState::new(me, (config, links, devices, shelf), (sink, heart), end))
    }

    async fn handle(
        &self,
        me: ActorRef<NodeMsg>,
        message: NodeMsg,
        state: &mut NodeState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            NodeMsg::Inbound(inbound) => state.inbound(*inbound).await?,
            NodeMsg::Dialled(outcome) => state.dialled(outcome),
            NodeMsg::Dial => state.dial(),
            NodeMsg::Alone => state.leave_if_alone(),
            NodeMsg::Wish(wish) => state.wish(wish),
            NodeMsg::Overflow(overflow) => state.overflow(overflow),
        }
        if state.has_ended() {
            me.stop(None);
        }
        Ok(())
    }

    /// A holder that fails takes its slots with it: an empty one takes its place and the engine is told.
    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<NodeMsg>,
        event: SupervisionEvent,
        state: &mut NodeState,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorFailed(child, error) => {
                state.holder_failed(child.get_id(), &crate::chain(error.as_ref())).await
            }
            SupervisionEvent::ActorStarted(_)
            | SupervisionEvent::ActorTerminated(..)
            | SupervisionEvent::ProcessGroupChanged(_) => Ok(()),
        }
    }

    async fn post_stop(&self, _: ActorRef<NodeMsg>, state: &mut NodeState) -> Result<(), ActorProcessingErr> {
        state.close().await;
        Ok(())
    }
}
