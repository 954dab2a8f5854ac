//! The jobs that a worker takes part in: a holder for each, as long as its engine does not release it.

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef};
use shoal_plan::ids::{Generation, JobId, NodeId};
use shoal_plan::job::Job;
use shoal_plan::protocol::{FromNode, ToNode, Trouble};
use shoal_wire::control::FromWorker;

use super::NodeState;
use crate::holder::{HolderActor, HolderArgs, HolderMsg};

/// For holders to end when this worker gets another name.
const STOP_DEADLINE: Duration = Duration::from_secs(5);

/// A job on this worker.
pub(super) struct JobHere {
    pub(super) job: Arc<Job>,
    pub(super) holder: ActorRef<HolderMsg>,
    /// The newest generation that its engine has spoken under.
    generation: Generation,
}

impl NodeState {
    /// A job's holder hears its engine. With a release in force it ends, and the job is over here.
    pub(super) fn engine_says(&mut self, job: JobId, message: ToNode) {
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

    pub(super) async fn take_job(&mut self, id: JobId, job: Arc<Job>) -> Result<(), ActorProcessingErr> {
        if self.jobs.get(&id).is_some_and(|here| here.job == job) {
            return Ok(());
        }
        let Some(node) = self.links.me() else {
            tracing::warn!(job = %id, "a job came before a welcome");
            return Ok(());
        };
        if let Some(other) = self.jobs.remove(&id) {
            tracing::warn!(job = %id, "another job has this name now; what was held of the one before is freed");
            self.drop_job(id, other).await;
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

    pub(in crate::node) async fn holder_failed(
        &mut self,
        child: ActorId,
        cause: &str,
    ) -> Result<(), ActorProcessingErr> {
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

    /// What was held of every job is of no use to anyone.
    pub(super) async fn drop_all_jobs(&mut self) {
        for (id, here) in std::mem::take(&mut self.jobs) {
            self.drop_job(id, here).await;
        }
        self.expect_transfers();
    }

    async fn drop_job(&self, id: JobId, here: JobHere) {
        if let Err(error) = here.holder.stop_and_wait(None, Some(STOP_DEADLINE)).await {
            tracing::warn!(job = %id, %error, "holder did not end in time");
        }
        self.links.endpoint.forget(id);
    }

    pub(super) fn cast(&self, job: JobId, message: HolderMsg) {
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
