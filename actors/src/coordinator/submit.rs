//! Whether a submitted job can run at all.

use std::collections::{BTreeMap, BTreeSet};

use shoal_config::JobSpec;
use shoal_plan::blocks::ModelTable;
use shoal_plan::engine::Offer;
use shoal_plan::ids::NodeId;
use shoal_plan::job::{DataFacts, Job};
use shoal_plan::planner::{self, Held};

use super::error::RequestError;

/// The job, if a plan for it exists on the present nodes. With no node present nothing can be said, and the job waits.
pub(super) fn check(spec: JobSpec, data: DataFacts, offers: &[(NodeId, Offer)]) -> Result<Job, RequestError> {
    let job = Job { spec, data };
    if offers.is_empty() {
        return Ok(job);
    }
    let members: BTreeMap<NodeId, Offer> = offers.iter().cloned().collect();
    let table = ModelTable::of(&job.spec.model);
    match planner::make_plan(&job, &table, &members, &BTreeSet::new(), &Held::none()) {
        Ok(_) => Ok(job),
        Err(none) => Err(RequestError::Layout(none)),
    }
}
