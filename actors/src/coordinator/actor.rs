//! The coordinator's actor. Root of its process; owns the links to workers, the journal, and one engine a job (data, not an
//! actor). Sends [`ToWorker`] messages over the transport; nothing else is told.
//!
//! A handler never waits: disks are waited for by `flusher` and the blocking pool, workers by deadlines in [`Sight::Time`].

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use shoal_wire::control::{Control, ToWorker};
use tokio::sync::{mpsc, watch};

use super::journal::{Journal, Restored};
use super::members::{HEARTBEAT_MS, Patience};
use super::message::{CoordinatorMsg, Sight};
use super::state::Coordinator;
use crate::transport::{Endpoint, Inbound, PeerId};

/// What the coordinator is given at its start.
pub struct CoordinatorArgs {
    /// Its transport.
    pub endpoint: Endpoint,
    /// What comes out of the transport.
    pub inbound: mpsc::Receiver<Inbound>,
    /// Its store.
    pub journal: Arc<dyn Journal>,
    /// Raised at every change that a reader may wait for.
    pub changes: watch::Sender<u64>,
    /// How long silent workers are waited for.
    pub patience: Patience,
}

/// The coordinator's actor.
#[derive(Debug)]
pub struct CoordinatorActor;

impl Actor for CoordinatorActor {
    type Msg = CoordinatorMsg;
    type State = Coordinator;
    type Arguments = CoordinatorArgs;

    /// Restores every job from the journal under the next incarnation, which is durable before anything else happens.
    async fn pre_start(
        &self,
        me: ActorRef<CoordinatorMsg>,
        args: CoordinatorArgs,
    ) -> Result<Coordinator, ActorProcessingErr> {
        let CoordinatorArgs { endpoint, inbound, journal, changes, patience } = args;
        let restored = {
            let journal = Arc::clone(&journal);
            tokio::task::spawn_blocking(move || {
                let restored = Restored::from_entries(journal.load()?);
                journal.append(&restored.next_incarnation())?;
                journal.flush()?;
                Ok::<_, super::journal::JournalError>(restored)
            })
            .await??
        };
        let state = Coordinator::restore(me.clone(), endpoint, journal, changes, patience, restored);
        pump(me, inbound);
        Ok(state)
    }

    async fn post_start(
        &self,
        me: ActorRef<CoordinatorMsg>,
        state: &mut Coordinator,
    ) -> Result<(), ActorProcessingErr> {
        me.send_interval(Duration::from_millis(HEARTBEAT_MS), || CoordinatorMsg::Watch(Sight::Time));
        Ok(state.resume()?)
    }

    async fn handle(
        &self,
        me: ActorRef<CoordinatorMsg>,
        message: CoordinatorMsg,
        state: &mut Coordinator,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            CoordinatorMsg::Inbound(inbound) => state.inbound(*inbound)?,
            CoordinatorMsg::Flushed(outcome) => {
                if state.flushed(outcome?)? {
                    me.stop(None);
                }
            }
            CoordinatorMsg::Watch(Sight::Time) => state.watch()?,
            CoordinatorMsg::Watch(Sight::Refused(node)) => state.refused(node)?,
            CoordinatorMsg::Wake(job) => state.wake(job)?,
            CoordinatorMsg::Submit(spec, repeat, reply) => state.submit(spec, repeat, reply),
            CoordinatorMsg::Intake(news) => state.intake(news)?,
            CoordinatorMsg::Order(job, order, reply) => state.order(job, order, reply)?,
            CoordinatorMsg::Node(order) => state.node_order(order)?,
            CoordinatorMsg::Read(read) => state.read(read),
            CoordinatorMsg::Shutdown(reply) => state.shutdown(reply),
        }
        Ok(())
    }

    /// Children: none.
    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<CoordinatorMsg>,
        _: SupervisionEvent,
        _: &mut Coordinator,
    ) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    /// Nothing is lost by stopping: what is journaled becomes durable, and workers are told.
    async fn post_stop(&self, _: ActorRef<CoordinatorMsg>, state: &mut Coordinator) -> Result<(), ActorProcessingErr> {
        let journal = state.journal();
        tokio::task::spawn_blocking(move || journal.flush()).await??;
        state.endpoint().shutdown("the coordinator stops").await;
        Ok(())
    }
}

/// Hands everything that arrives to the actor, in order. The transport stops reading when the actor is gone.
fn pump(me: ActorRef<CoordinatorMsg>, mut inbound: mpsc::Receiver<Inbound>) {
    tokio::spawn(async move {
        while let Some(message) = inbound.recv().await {
            if me.cast(CoordinatorMsg::Inbound(Box::new(message))).is_err() {
                break;
            }
        }
    });
}

/// A message to a worker.
pub(super) fn tell(
    endpoint: &Endpoint,
    node: shoal_plan::ids::NodeId,
    message: ToWorker,
) -> Result<(), crate::transport::SendError> {
    endpoint.send(PeerId::Worker(node), &Control::ToWorker(Box::new(message)))
}
