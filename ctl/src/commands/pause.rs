//! `pause`: hold a job after a committed step.

use serde::Serialize;
use shoal_wire::api::{JobState, JobStatus};

use super::Context;
use crate::cli::Pause;
use crate::failure::{Failure, Verdict};
use crate::output::Show;
use crate::output::table::word;

/// The order is taken; the job may still be on its way to where it holds.
#[derive(Serialize)]
struct Taken {
    #[serde(flatten)]
    status: JobStatus,
    #[serde(skip)]
    at: Option<u64>,
}

pub(super) fn run(context: &Context, args: &Pause) -> Result<Verdict, Failure> {
    let at = args.at.map(|at| at.0);
    context.client.pause(&args.job, at)?;
    context.format.print(&Taken { status: context.client.status(&args.job)?, at })?;
    Ok(Verdict::True)
}

impl Show for Taken {
    fn show(&self) -> String {
        let JobStatus { job, state, step, .. } = &self.status;
        let holds = |when: &str| format!("{job} holds {when}; `shoalctl wait {job} --until paused` waits for that");
        let said = match (state, self.at) {
            (JobState::Paused, _) => format!("{job} is paused at step {step}; `shoalctl resume {job}` lets it go on"),
            (JobState::Done | JobState::Failed | JobState::Cancelled, _) => {
                format!("{job} is {} at step {step} and holds nowhere", word(state))
            }
            (
                JobState::Queued | JobState::Planning | JobState::Training | JobState::Recovering | JobState::Parked,
                Some(at),
            ) => holds(&format!("after step {at}")),
            (JobState::Training, None) => holds("after the step in flight"),
            (JobState::Queued | JobState::Planning | JobState::Recovering | JobState::Parked, None) => {
                holds("before its next step")
            }
        };
        format!("{said}\n{}", self.status.show())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::table::fixture;

    #[test]
    fn the_answer_says_where_the_job_holds() {
        let said = |state, at| Taken { status: JobStatus { state, ..fixture::status() }, at }.show();
        for (state, at, first) in [
            (
                JobState::Training,
                Some(1300),
                "j1 holds after step 1300; `shoalctl wait j1 --until paused` waits for that\n",
            ),
            (JobState::Training, None, "j1 holds after the step in flight; "),
            (JobState::Parked, None, "j1 holds before its next step; "),
            (JobState::Cancelled, None, "j1 is cancelled at step 1200 and holds nowhere\n"),
            (JobState::Paused, None, "j1 is paused at step 1200; `shoalctl resume j1` lets it go on\n"),
        ] {
            let said = said(state, at);
            assert!(said.starts_with(first) && said.contains("j1 (demo)"), "{said}");
        }
        let taken = Taken { status: fixture::status(), at: Some(1300) };
        let json = serde_json::to_value(&taken).expect("plain data");
        assert_eq!(json, serde_json::to_value(fixture::status()).expect("plain data"), "programs get the status");
    }
}
