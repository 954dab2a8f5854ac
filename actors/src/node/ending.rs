//! Holders that were released and have not ended yet: until then, only they can say what their jobs have counted.

use std::collections::BTreeMap;

use ractor::{ActorRef, ActorStatus};
use shoal_plan::ids::JobId;

use crate::holder::HolderMsg;

/// By job.
#[derive(Default)]
pub(super) struct Ending(BTreeMap<JobId, ActorRef<HolderMsg>>);

impl Ending {
    /// One more; those that have ended meanwhile are forgotten.
    pub(super) fn add(&mut self, job: JobId, holder: ActorRef<HolderMsg>) {
        self.0.retain(|_, holder| holder.get_status() < ActorStatus::Stopping);
        self.0.insert(job, holder);
    }

    /// That of a job.
    pub(super) fn of(&self, job: JobId) -> Option<&ActorRef<HolderMsg>> {
        self.0.get(&job)
    }
}
