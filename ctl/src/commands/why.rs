//! `why`: the reasons that led a job to where it is.

use serde::Serialize;
use shoal_wire::api::{EventLine, JobState};

use super::Context;
use crate::cli::JobName;
use crate::failure::{Failure, Verdict};
use crate::output::Show;
use crate::output::table::word;

/// Kinds of events that are reasons: losses, decisions, faults, ends. The others only say that it went on.
const REASONS: [&str; 9] =
    ["submitted", "node_lost", "node_joined", "decided", "resolved", "steps_lost", "stage_failed", "warning", "ended"];
/// Most reasons shown, newest last.
const MOST: usize = 20;

#[derive(Serialize)]
struct Why {
    job: String,
    state: JobState,
    step: u64,
    reason: Option<String>,
    plan: Option<String>,
    because: Vec<EventLine>,
}

pub(super) fn run(context: &Context, args: &JobName) -> Result<Verdict, Failure> {
    let status = context.client.status(&args.job)?;
    let mut because = context.client.all_events(&args.job)?;
    because.retain(|event| REASONS.contains(&event.kind.as_str()));
    because.drain(..because.len().saturating_sub(MOST));
    context.format.print(&Why {
        job: status.job,
        state: status.state,
        step: status.step,
        reason: status.reason,
        plan: status.plan,
        because,
    })?;
    Ok(Verdict::True)
}

impl Show for Why {
    fn show(&self) -> String {
        let reason = self.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
        let mut lines = vec![format!("{} is {} at step {}{reason}", self.job, word(&self.state), self.step)];
        lines.extend(self.plan.as_ref().map(|plan| format!("plan: {plan}")));
        lines.push("because:".to_owned());
        lines.extend(self.because.iter().map(Show::show));
        lines.join("\n")
    }
}
