//! `why`: the reasons that led a job to where it is.

use serde::Serialize;
use shoal_wire::api::{EventLine, JobState};

use super::Context;
use crate::cli::JobName;
use crate::failure::{Failure, Verdict};
use crate::output::Show;
use crate::output::table::word;

/// Kinds of events that are reasons: losses, decisions, faults, ends. The others only say that it went on.
const REASONS: [&str; 12] = [
    "submitted",
    "node_lost",
    "node_joined",
    "node_left_out",
    "decided",
    "resolved",
    "steps_lost",
    "step_skipped",
    "stalled",
    "stage_failed",
    "warning",
    "ended",
];
/// Most reasons shown, newest last.
const MOST: usize = 20;

#[derive(Serialize)]
struct Why {
    job: String,
    state: JobState,
    step: u64,
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plain: Option<String>,
    plan: Option<String>,
    /// The order that holds a paused job.
    #[serde(skip_serializing_if = "Option::is_none")]
    held_by: Option<EventLine>,
    because: Vec<EventLine>,
    /// Older reasons that are not shown.
    older: usize,
}

pub(super) fn run(context: &Context, args: &JobName) -> Result<Verdict, Failure> {
    let status = context.client.status(&args.job)?;
    let mut because = context.client.all_events(&args.job)?;
    let held_by = held_by(status.state, &because);
    because.retain(|event| REASONS.contains(&event.kind.as_str()));
    let older = because.len().saturating_sub(MOST);
    because.drain(..older);
    context.format.print(&Why {
        job: status.job,
        state: status.state,
        step: status.step,
        reason: status.reason,
        plain: status.plain,
        plan: status.plan,
        held_by,
        because,
        older,
    })?;
    Ok(Verdict::True)
}

/// The newest order to pause, if the job is paused.
fn held_by(state: JobState, events: &[EventLine]) -> Option<EventLine> {
    let is_pause = |event: &&EventLine| event.kind == "ordered" && event.reason.starts_with("pause");
    events.iter().rev().find(is_pause).filter(|_| state == JobState::Paused).cloned()
}

impl Show for Why {
    fn show(&self) -> String {
        let reason = self.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
        let mut lines = vec![format!("{} is {} at step {}{reason}", self.job, word(&self.state), self.step)];
        lines.extend(self.held_by.as_ref().map(|order| {
            format!(
                "held by the operator's order of {}: {}; `shoalctl resume {}` lets it go on",
                order.time, order.reason, self.job
            )
        }));
        lines.extend(self.plain.as_ref().map(|warning| format!("warning: {warning}")));
        lines.extend(self.plan.as_ref().map(|plan| format!("plan: {plan}")));
        lines.push(match self.older {
            0 => "because:".to_owned(),
            older => format!("because (newest {MOST}; {older} older: `shoalctl events {}` shows all):", self.job),
        });
        lines.extend(self.because.iter().map(Show::show));
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paused_job_names_the_order_that_holds_it() {
        let event = |number, kind: &str, reason: &str| EventLine {
            time: format!("2026-01-01T00:00:0{number}.000Z"),
            number,
            generation: "1.1".into(),
            step: 3,
            kind: kind.into(),
            reason: reason.into(),
            node: None,
        };
        let events = [
            event(1, "ordered", "pause at step 1"),
            event(2, "ordered", "resume"),
            event(3, "ordered", "pause at step 3"),
            event(4, "ordered", "hash the state at step 3"),
        ];
        assert_eq!(held_by(JobState::Training, &events), None);
        let why = Why {
            job: "j1".into(),
            state: JobState::Paused,
            step: 3,
            reason: None,
            plain: None,
            plan: None,
            held_by: held_by(JobState::Paused, &events),
            because: Vec::new(),
            older: 7,
        };
        assert!(why.show().contains("because (newest 20; 7 older: `shoalctl events j1` shows all):"), "{}", why.show());
        let said = "held by the operator's order of 2026-01-01T00:00:03.000Z: pause at step 3; `shoalctl resume j1`";
        assert!(why.show().contains(said), "{}", why.show());
    }
}
