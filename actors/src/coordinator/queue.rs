//! What a job waits for that no node works for yet, and who waits for one that holds the nodes without using them.

use shoal_plan::engine::State;
use shoal_plan::ids::JobId;

use super::state::Coordinator;

impl Coordinator {
    /// What is to be said of a job's place in the queue, behind the reason that it gives itself.
    pub(super) fn place(&self, id: JobId) -> Option<String> {
        match self.active {
            Some(active) if active == id => self.holds_up(id),
            Some(active) => self.is_behind(id, active),
            None => self.waiting().any(|other| other == id).then(|| "its turn comes next".to_owned()),
        }
    }

    fn is_behind(&self, id: JobId, active: JobId) -> Option<String> {
        let coming = self.intake.contains_key(&id);
        if !coming && self.jobs.get(&id).is_none_or(|job| job.has_ended()) {
            return None;
        }
        let status = self.jobs.get(&active)?.engine.status();
        let step = status.step;
        let doing = match status.state {
            State::Queued => "which waits for a first node".to_owned(),
            State::Planning => "which is being planned".to_owned(),
            State::Training => format!("which is training, at step {step}"),
            State::Recovering => format!("which is recovering, at step {step}"),
            State::Paused { step } => {
                format!("which is paused at step {step} and keeps its nodes: {}", self.way_on(active))
            }
            State::Parked => {
                let reason = status.reason.unwrap_or_else(|| "parked".to_owned());
                format!("which is {reason}; {}", self.way_on(active))
            }
            State::Done | State::Failed { .. } | State::Cancelled => "which is ending".to_owned(),
        };
        let before = self.waiting().filter(|other| *other < id).count();
        let others = match before {
            0 => String::new(),
            1 => "one more job and ".to_owned(),
            more => format!("{more} more jobs and "),
        };
        Some(format!("it is behind {others}{active}, {doing}"))
    }

    /// A job that keeps its nodes without working, while others wait for them.
    fn holds_up(&self, id: JobId) -> Option<String> {
        let status = self.jobs.get(&id)?.engine.status();
        match status.state {
            State::Queued if self.members.offers().is_empty() => {
                Some("there is no node yet; `shoalctl up --nodes N` starts some".to_owned())
            }
            State::Queued => Some("its turn has come; it waits a moment for more nodes".to_owned()),
            State::Paused { .. } | State::Parked => {
                let waiting: Vec<String> = self.waiting().map(|job| job.to_string()).collect();
                let wait = if waiting.len() == 1 { "waits" } else { "wait" };
                (!waiting.is_empty()).then(|| format!("{} {wait} behind it: {}", waiting.join(", "), self.way_on(id)))
            }
            State::Planning
            | State::Training
            | State::Recovering
            | State::Done
            | State::Failed { .. }
            | State::Cancelled => None,
        }
    }

    /// Jobs that could have a turn: their data is read.
    fn waiting(&self) -> impl Iterator<Item = JobId> {
        let queued = self.jobs.iter().filter(|(_, job)| !job.has_ended()).map(|(id, _)| *id);
        queued.filter(|id| self.active != Some(*id))
    }

    fn way_on(&self, job: JobId) -> String {
        let goes_on = match self.members.offers().as_slice() {
            [] => "it goes on when a worker joins".to_owned(),
            [_, ..] => {
                match self.jobs.get(&job).map(|job| (job.engine.members().is_empty(), job.engine.arithmetic())) {
                    // Those who live compute something else, and an order does not change that.
                    Some((true, Some(arithmetic))) => {
                        format!("it goes on when a worker whose arithmetic is {arithmetic} joins")
                    }
                    Some((true, None)) => "it goes on when a worker joins".to_owned(),
                    Some((false, _)) | None => format!("`shoalctl resume {job}` lets it go on"),
                }
            }
        };
        format!("{goes_on}, `shoalctl cancel {job}` ends it")
    }
}
