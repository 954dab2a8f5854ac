//! Root of the coordinator process's tree: supervises the coordinator actor and reports how it ended. It restarts nothing;
//! that is the respawner's work, with a clean process.

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use shoal_actors::chain;
use shoal_actors::coordinator::{CoordinatorActor, CoordinatorArgs, CoordinatorMsg};
use tokio::sync::oneshot;

/// How the coordinator actor ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It was told to.
    Stopped,
    /// It failed, with this error.
    Failed(String),
}

/// What the root is given.
pub(crate) struct RootArgs {
    pub(crate) coordinator: CoordinatorArgs,
    pub(crate) started: oneshot::Sender<ActorRef<CoordinatorMsg>>,
    pub(crate) ended: oneshot::Sender<End>,
}

/// Root of the coordinator process's tree.
pub(crate) struct Root;

impl Actor for Root {
    type Msg = ();
    type State = Option<oneshot::Sender<End>>;
    type Arguments = RootArgs;

    async fn pre_start(&self, me: ActorRef<()>, args: RootArgs) -> Result<Self::State, ActorProcessingErr> {
        let (actor, _) = Actor::spawn_linked(None, CoordinatorActor, args.coordinator, me.get_cell()).await?;
        // An error means that the daemon is ending already.
        let _ = args.started.send(actor);
        Ok(Some(args.ended))
    }

    async fn handle_supervisor_evt(
        &self,
        me: ActorRef<()>,
        event: SupervisionEvent,
        ended: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let end = match event {
            SupervisionEvent::ActorTerminated(..) => End::Stopped,
            SupervisionEvent::ActorFailed(_, error) => End::Failed(chain(error.as_ref())),
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => return Ok(()),
        };
        if let Some(ended) = ended.take() {
            let _ = ended.send(end);
        }
        me.stop(None);
        Ok(())
    }
}
