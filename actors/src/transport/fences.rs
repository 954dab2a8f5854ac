//! The oldest generation of each job whose transfers still matter.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use shoal_plan::ids::{Generation, JobId};
use tokio::sync::watch;

/// The oldest generation of each job whose transfers still matter.
#[derive(Debug, Default)]
pub(super) struct Fences {
    jobs: Mutex<HashMap<JobId, watch::Sender<Generation>>>,
}

impl Fences {
    fn jobs(&self) -> MutexGuard<'_, HashMap<JobId, watch::Sender<Generation>>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends every transfer of an older generation. Never goes back.
    pub(super) fn raise(&self, job: JobId, generation: Generation) {
        let mut jobs = self.jobs();
        let fence = jobs.entry(job).or_insert_with(|| watch::Sender::new(Generation::default()));
        fence.send_if_modified(|current| {
            let newer = generation > *current;
            if newer {
                *current = generation;
            }
            newer
        });
    }

    /// Ends every transfer of the job.
    pub(super) fn forget(&self, job: JobId) {
        self.jobs().remove(&job);
    }

    /// Returns once a transfer under `generation` is over; at once if it is already.
    pub(super) async fn passed(&self, job: JobId, generation: Generation) {
        let mut fence = {
            let mut jobs = self.jobs();
            jobs.entry(job).or_insert_with(|| watch::Sender::new(Generation::default())).subscribe()
        };
        // An error means that the job was forgotten: over as well.
        let _ = fence.wait_for(|current| *current > generation).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn generation(number: u32) -> Generation {
        Generation { incarnation: 1, number }
    }

    #[test]
    fn a_fence_ends_what_is_older_and_never_goes_back() {
        let fences = Fences::default();
        let job = JobId(1);
        let mut old = Box::pin(fences.passed(job, generation(1)));
        assert!(old.as_mut().now_or_never().is_none());
        fences.raise(job, generation(2));
        assert!(old.now_or_never().is_some());
        fences.raise(job, generation(1));
        assert!(fences.passed(job, generation(1)).now_or_never().is_some());
        assert!(fences.passed(job, generation(2)).now_or_never().is_none());
        assert!(fences.passed(JobId(2), generation(1)).now_or_never().is_none());
    }

    #[test]
    fn forgetting_a_job_ends_its_transfers() {
        let fences = Fences::default();
        let mut open = Box::pin(fences.passed(JobId(1), generation(9)));
        assert!(open.as_mut().now_or_never().is_none());
        fences.forget(JobId(1));
        assert!(open.now_or_never().is_some());
    }
}
