//! `wait`: until a job has come so far, or cannot any more.

use std::time::{Duration, Instant};

use shoal_wire::api::{JobState, JobStatus, RedundancyState};

use super::Context;
use crate::cli::{Condition, Wait};
use crate::failure::{Failure, Verdict};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// What a status says about a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Prospect {
    /// It is so.
    True,
    /// It is not so yet.
    Open,
    /// It can no longer come true, and why.
    Never(String),
}

pub(super) fn run(context: &Context, args: &Wait) -> Result<Verdict, Failure> {
    let give_up = args.timeout.map(|timeout| Instant::now() + timeout);
    loop {
        let status = context.client.status(&args.job)?;
        match prospect(args.until, &status) {
            Prospect::True => {
                context.format.print(&status)?;
                return Ok(Verdict::True);
            }
            Prospect::Never(why) => {
                return Err(Failure::No(format!("{} will not reach {}: {why}", args.job, args.until)));
            }
            Prospect::Open => {}
        }
        if give_up.is_some_and(|give_up| Instant::now() >= give_up) {
            return Err(Failure::Timeout(format!(
                "{} has not reached {} in time; it is {} at step {} of {}",
                args.job,
                args.until,
                crate::output::table::word(&status.state),
                status.step,
                status.steps
            )));
        }
        std::thread::sleep(LOOK);
    }
}

pub(super) fn prospect(condition: Condition, status: &JobStatus) -> Prospect {
    let reached = match condition {
        Condition::Step(step) => status.step >= step,
        Condition::Done => status.state == JobState::Done,
        Condition::Failed => status.state == JobState::Failed,
        Condition::Paused => status.state == JobState::Paused,
        // Before the first plan nothing is held, so nothing can be fully held.
        Condition::RedundancyFull => {
            status.redundancy.state == RedundancyState::Full
                && !matches!(status.state, JobState::Queued | JobState::Planning)
        }
    };
    if reached {
        return Prospect::True;
    }
    if let Condition::Step(step) = condition
        && step > status.steps
    {
        return Prospect::Never(format!("the job has {} steps", status.steps));
    }
    if !status.state.is_over() {
        return Prospect::Open;
    }
    let reason = status.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
    Prospect::Never(format!("it is {} at step {}{reason}", crate::output::table::word(&status.state), status.step))
}

#[cfg(test)]
mod tests {
    use shoal_wire::api::Redundancy;

    use super::*;

    fn status(state: JobState, step: u64, redundancy: RedundancyState) -> JobStatus {
        JobStatus {
            job: "j1".into(),
            name: "x".into(),
            optimizer: "adamw".to_owned(),
            precision: "fp32".to_owned(),
            arithmetic: None,
            wire: "fp32".to_owned(),
            state,
            step,
            steps: 10,
            loss: None,
            loss_step: None,
            val_loss: None,
            loss_scale: None,
            generation: "1.1".into(),
            redundancy: Redundancy { have: 0, want: 1, state: redundancy },
            steps_lost: 0,
            steps_redone: 0,
            tokens_per_second: None,
            plan: None,
            plain: None,
            reason: (state == JobState::Failed).then(|| "out of luck".into()),
            fault: None,
            reading: None,
            tokenizer: None,
        }
    }

    #[test]
    fn a_condition_is_true_open_or_never() {
        use JobState::{Cancelled, Done, Failed, Paused, Planning, Training};
        use RedundancyState::{Full, Restoring, Short};
        let never = |why: &str| Prospect::Never(why.to_owned());
        let cases = [
            (Condition::Step(5), status(Training, 5, Full), Prospect::True),
            (Condition::Step(5), status(Training, 4, Full), Prospect::Open),
            (Condition::Step(5), status(Paused, 4, Full), Prospect::Open),
            (Condition::Step(11), status(Training, 4, Full), never("the job has 10 steps")),
            (Condition::Step(5), status(Failed, 4, Full), never("it is failed at step 4: out of luck")),
            (Condition::Step(5), status(Done, 10, Full), Prospect::True),
            (Condition::Done, status(Done, 10, Short), Prospect::True),
            (Condition::Done, status(Cancelled, 3, Full), never("it is cancelled at step 3")),
            (Condition::Failed, status(Failed, 3, Full), Prospect::True),
            (Condition::Failed, status(Done, 10, Full), never("it is done at step 10")),
            (Condition::Paused, status(Paused, 3, Full), Prospect::True),
            (Condition::Paused, status(Training, 3, Full), Prospect::Open),
            (Condition::Paused, status(Done, 10, Full), never("it is done at step 10")),
            (Condition::RedundancyFull, status(Planning, 0, Full), Prospect::Open),
            (Condition::RedundancyFull, status(Training, 0, Full), Prospect::True),
            (Condition::RedundancyFull, status(Training, 3, Restoring), Prospect::Open),
            (Condition::RedundancyFull, status(Training, 3, Short), Prospect::Open),
            (Condition::RedundancyFull, status(Done, 10, Short), never("it is done at step 10")),
        ];
        for (condition, status, expected) in cases {
            assert_eq!(prospect(condition, &status), expected, "{condition} at {:?} {}", status.state, status.step);
        }
    }
}
