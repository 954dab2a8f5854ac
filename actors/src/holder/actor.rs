//! The holder of one job on one worker. Child of the node actor; supervises the job's seats and loader. Owns the books
//! (`plan::holder`) and the slots' handles; sends [`shoal_plan::protocol::FromNode`] to the engine and bulk transfers to peers
//! through [`super::Outside`].
//!
//! A handler never computes: elements are touched on the devices' threads and files on the blocking pool, and what they
//! have done comes back as a message. If this actor fails, its node actor reports the holdings lost.

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use shoal_plan::holder::HolderEvent;

use super::message::{HolderArgs, HolderMsg};
use super::state::HolderState;

/// The holder's actor.
#[derive(Debug)]
pub struct HolderActor;

impl Actor for HolderActor {
    type Msg = HolderMsg;
    type State = HolderState;
    type Arguments = HolderArgs;

    async fn pre_start(&self, me: ActorRef<HolderMsg>, args: HolderArgs) -> Result<HolderState, ActorProcessingErr> {
        HolderState::new(me, args).await
    }

    async fn handle(
        &self,
        _: ActorRef<HolderMsg>,
        message: HolderMsg,
        state: &mut HolderState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            HolderMsg::Engine(message) => state.fact(HolderEvent::Engine(message)).await,
            HolderMsg::Arrived(header, buffer) => state.arrived(header, buffer).await,
            HolderMsg::Asked(from, message) => state.asked(from, message).await,
            HolderMsg::Fact(event) => state.fact(event).await,
            HolderMsg::Work(work) => state.worked(work).await,
            HolderMsg::Seat(generation, seat, news) => state.seat_news(generation, seat, news).await,
            HolderMsg::Link(news) => state.link_news(news).await,
            HolderMsg::Report(reply) => {
                // An error means that the asker has given up.
                let _ = reply.send(state.adopted.is_some().then(|| Box::new(state.report())));
                Ok(())
            }
            HolderMsg::FailStage(fault) => state.fail_stage(fault),
        }
    }

    /// A seat or loader that fails is told to the engine, which raises a fence; after it the seats are built anew.
    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<HolderMsg>,
        event: SupervisionEvent,
        state: &mut HolderState,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorFailed(child, error) => {
                state.child_failed(child.get_id(), &crate::chain(error.as_ref())).await
            }
            SupervisionEvent::ActorStarted(_)
            | SupervisionEvent::ActorTerminated(..)
            | SupervisionEvent::ProcessGroupChanged(_) => Ok(()),
        }
    }

    async fn post_stop(&self, _: ActorRef<HolderMsg>, state: &mut HolderState) -> Result<(), ActorProcessingErr> {
        state.dismantle();
        Ok(())
    }
}
