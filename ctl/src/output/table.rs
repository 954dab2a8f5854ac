//! The form for people.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use shoal_wire::api::{
    EventLine, JobState, JobStatus, NodeInfo, Redundancy, RedundancyState, StateDigest, SubmitAnswer,
};

use super::units::{bytes, count, loss, loss_at, printable, rate, short};

mod report;

/// Has a form for people.
pub trait Show {
    /// Sentences and tables, without a line end.
    fn show(&self) -> String;
}

/// A table without frame: a header and one row each. Columns named in `right` are numbers.
#[must_use]
pub fn table<const N: usize>(
    header: [&str; N],
    right: &[usize],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled).set_header(header);
    for row in rows {
        table.add_row(row.map(|cell| printable(&cell)));
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if right.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    trim(&table.to_string())
}

/// Pairs of a name and a value, aligned.
#[must_use]
pub fn facts(rows: impl IntoIterator<Item = (&'static str, String)>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    for (name, value) in rows {
        table.add_row([name.to_owned(), printable(&value)]);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    trim(&table.to_string())
}

fn trim(text: &str) -> String {
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// A serde enum of ours, as its JSON word.
#[must_use]
pub fn word(value: &impl serde::Serialize) -> String {
    super::json::line(value).trim_matches('"').to_owned()
}

impl Show for [NodeInfo] {
    fn show(&self) -> String {
        if self.is_empty() {
            return "no workers; `shoalctl up --nodes N` starts some".to_owned();
        }
        let mut out = table(
            ["NODE", "STATE", "PID", "ADDRESS", "USED", "BUDGET", "CLASS"],
            &[2, 4, 5],
            self.iter().map(|node| {
                [
                    node.node.clone(),
                    word(&node.state),
                    node.pid.to_string(),
                    node.address.clone(),
                    bytes(node.used_bytes),
                    bytes(node.budget_bytes),
                    node.class.clone(),
                ]
            }),
        );
        for node in self {
            if let Some(reason) = &node.left_out {
                out.push_str(&format!("\n{}: {reason}", node.node));
            }
        }
        out
    }
}

impl Show for Vec<NodeInfo> {
    fn show(&self) -> String {
        self.as_slice().show()
    }
}

impl Show for Vec<JobStatus> {
    fn show(&self) -> String {
        if self.is_empty() {
            return "no jobs; `shoalctl submit JOB.toml` adds one".to_owned();
        }
        table(
            ["JOB", "NAME", "STATE", "STEP", "LOSS", "SPEED"],
            &[3, 4, 5],
            self.iter().map(|job| {
                [
                    job.job.clone(),
                    job.name.clone(),
                    word(&job.state),
                    format!("{} / {}", count(job.step), count(job.steps)),
                    loss(job.loss),
                    rate(job.tokens_per_second),
                ]
            }),
        )
    }
}

impl Show for JobStatus {
    fn show(&self) -> String {
        let mut rows = vec![
            ("job", format!("{} ({})", self.job, self.name)),
            ("state", word(&self.state)),
            ("step", format!("{} of {}", count(self.step), count(self.steps))),
            ("optimizer", self.optimizer.clone()),
            ("precision", format!("{}, {} on the wire", self.precision, self.wire)),
            ("arithmetic", self.arithmetic.clone().unwrap_or_else(|| "not fixed yet".to_owned())),
            ("loss", loss_at(self.loss, self.loss_step, self.step)),
            ("validation loss", loss(self.val_loss)),
            ("speed", rate(self.tokens_per_second)),
            ("plan", self.plan.clone().unwrap_or_else(|| "none yet".to_owned())),
            ("generation", self.generation.clone()),
            ("redundancy", shadows(self)),
            ("steps lost", count(self.steps_lost)),
            ("steps redone", count(self.steps_redone)),
        ];
        rows.extend(self.loss_scale.map(|scale| ("loss scale", format!("{scale}"))));
        rows.extend(self.tokenizer.as_ref().map(|made| {
            let digest = short(&made.blake3);
            ("tokenizer", format!("{} ({digest}...), vocabulary {}", made.kind, count(made.vocab.into())))
        }));
        rows.extend(self.reason.clone().map(|reason| ("reason", reason)));
        rows.extend(self.plain.clone().map(|warning| ("warning", warning)));
        facts(rows)
    }
}

fn shadows(JobStatus { state, redundancy: Redundancy { state: how, have, want }, .. }: &JobStatus) -> String {
    match (how, want) {
        (RedundancyState::Gone, _) => "none: the job is over, and its nodes have let go of its state".to_owned(),
        (RedundancyState::Full, 0) => "none asked for".to_owned(),
        (RedundancyState::Full | RedundancyState::Restoring | RedundancyState::Short, _)
            if *state == JobState::Queued =>
        {
            format!("none yet, {want} wanted")
        }
        (RedundancyState::Full | RedundancyState::Restoring | RedundancyState::Short, _) => {
            format!("{}: {have} of {want} shadows", word(how))
        }
    }
}

impl Show for EventLine {
    fn show(&self) -> String {
        format!(
            "{}  {:>5}  gen {:<6} step {:<6} {:<16} {}",
            self.time,
            self.number,
            self.generation,
            self.step,
            self.kind,
            printable(&self.reason)
        )
    }
}

impl Show for SubmitAnswer {
    fn show(&self) -> String {
        if self.known {
            return format!(
                "{job} is this very job and is not over, so nothing was submitted; `shoalctl status {job}` shows it, and \
                 `shoalctl submit --again` makes a second one of it",
                job = self.job
            );
        }
        let warning = self.warning.as_ref().map_or_else(String::new, |warning| format!("\nwarning: {warning}"));
        format!(
            "submitted as {job}; `shoalctl status {job}` shows it, `shoalctl wait {job} --until done` waits{warning}",
            job = self.job
        )
    }
}

impl Show for StateDigest {
    fn show(&self) -> String {
        format!("{}  state at step {}", self.state_blake3, count(self.step))
    }
}

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;
