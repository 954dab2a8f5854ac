//! Steps that changed nothing because something in them was not finite, or too long for an update, and when they are too many in a row.
//!
//! Whether a step is skipped is in its record, so how many in a row were is a function of the ledger alone. Who reported
//! what is for people, and beside the chain.

use std::collections::BTreeMap;

use shoal_exact::ExactSum;

use super::phase::Phase;
use super::{Engine, Happening};
use crate::ids::NodeId;
use crate::ledger::{LedgerEntry, Update};
use crate::protocol::{Inventory, LossSum, Norm};

/// Findings named in an event; the rest is counted.
const NAMED: usize = 4;

/// What was not finite, and who said so.
pub(super) type Found = Vec<(NodeId, String)>;

impl Engine {
    /// What was not finite in the reports of the step in flight. Shadows say what their owner says.
    pub(super) fn not_finite_in_reports(&self) -> Found {
        let (Phase::Running(running), Some(standing)) = (&self.phase, &self.standing) else { return Found::new() };
        let mut found = Found::new();
        for (node, report) in &running.reports {
            if is_spoilt(report.loss) && found.iter().all(|(_, what)| what != LOSS) {
                found.push((*node, LOSS.into()));
            }
            for (id, _) in report.pieces.iter().filter(|(_, norm)| *norm == Norm::NotFinite) {
                let piece = standing.plan.piece(*id);
                if piece.owner == *node {
                    let stage = standing.plan.stages.iter().position(|stage| stage.blocks.contains(&piece.block.0));
                    let stage = stage.map(|stage| format!(" of stage s{stage}")).unwrap_or_default();
                    found.push((*node, format!("the gradient of block {}{stage}", piece.block)));
                }
            }
        }
        found
    }

    /// What was not finite in what holders have prepared, by block.
    pub(super) fn not_finite_in(&self, inventories: &BTreeMap<NodeId, Inventory>) -> Found {
        let head = self.chain.head();
        let mut found = Found::new();
        for (node, inventory) in inventories {
            for holding in inventory.holdings.iter().filter(|holding| holding.version == head) {
                let gradient = format!("the gradient of block {}", holding.block);
                for (spoilt, what) in
                    [(is_spoilt(holding.loss), LOSS), (holding.prepared == Some(Norm::NotFinite), gradient.as_str())]
                {
                    if spoilt && found.iter().all(|(_, named)| named != what) {
                        found.push((*node, what.to_owned()));
                    }
                }
            }
        }
        found
    }

    /// Says that a step was skipped, and why.
    pub(super) fn note_skip(&mut self, entry: &LedgerEntry, found: &Found) {
        match entry.update {
            Update::Apply(_) => return,
            Update::Skip => {}
        }
        let reason = if entry.tokens == 0 {
            "no token of it enters the loss".to_owned()
        } else if entry.norm != ExactSum::ZERO {
            "its gradient is finite, but too long for an update in 32 bits; train.clip would shorten it".to_owned()
        } else if found.is_empty() {
            "a gradient or the loss was not finite; a holder had its record".to_owned()
        } else {
            let named: Vec<String> = found.iter().take(NAMED).map(|(node, what)| format!("{what} ({node})")).collect();
            let more = found.len().saturating_sub(NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("not finite: {}{more}", named.join(", "))
        };
        let reason = match entry.loss_scale {
            None => reason,
            Some(scale) => format!("{reason}; the loss scale from here on is {}", scale.factor()),
        };
        let node = found.first().map(|(node, _)| *node);
        self.note(Happening::StepSkipped { step: entry.step, node, reason });
    }

    /// What the last steps in a row were skipped for: a step that was, is in their records.
    fn why_skipped(&self) -> &'static str {
        match self.chain.skipped_without_tokens() {
            0 => "a gradient or the loss of each was not finite, or too long for an update",
            empty if empty == self.chain.skipped() => "no token of any of them enters the loss",
            _ => "a gradient or the loss was not finite or too long for an update, or no token entered the loss",
        }
    }

    /// Fails the job if as many steps in a row as it allows were skipped. Says whether it did.
    pub(super) fn fail_if_diverged(&mut self) -> bool {
        let (train, run, step) = (&self.setup.job.spec.train, self.chain.skipped(), self.chain.head().step);
        let Some(most) = train.max_skips.filter(|most| u64::from(*most) <= run) else { return false };
        let why = self.why_skipped();
        let last = match self.tally.loss() {
            Some((at, loss)) => format!("the last loss was {loss:.4} at step {at}"),
            None => "no step ever had a finite loss".to_owned(),
        };
        let reason = format!(
            "diverged: steps {} to {step} were skipped, {why} \
             (train.max_skips = {most}); {last}; submit it anew with a lower train.learning_rate (now {:e}), more \
             train.warmup_steps (now {}) or a lower train.clip, or look at the data of those steps",
            step + 1 - run,
            train.schedule.peak,
            train.schedule.warmup,
        );
        self.fail(reason);
        true
    }
}

const LOSS: &str = "the loss";

fn is_spoilt(loss: Option<LossSum>) -> bool {
    loss.is_some_and(|loss| loss.loss == Norm::NotFinite)
}
