//! A job's journal, folded for people: events and ledger with their stamps.

use shoal_plan::engine::{Happening, Record};
use shoal_plan::ids::{Generation, NodeId};
use shoal_plan::ledger::{LedgerEntry, Version};
use shoal_wire::api::{EventLine, LedgerLine};
use shoal_wire::journal::Line;

/// Events and ledger of one job, in the order in which its engine said them.
#[derive(Debug, Default)]
pub(super) struct JobLog {
    generation: Generation,
    lines: u64,
    events: Vec<Stamped>,
    ledger: Vec<Committed>,
    /// Mean loss of the last validation pass.
    validation: Option<f64>,
}

#[derive(Debug)]
struct Stamped {
    at_ms: u64,
    generation: Generation,
    step: u64,
    kind: &'static str,
    reason: String,
    node: Option<NodeId>,
}

#[derive(Debug)]
struct Committed {
    entry: LedgerEntry,
    version: Version,
    generation: Generation,
    at_ms: u64,
}

impl JobLog {
    /// Takes the next line in; returns its number.
    pub(super) fn push(&mut self, line: &Line) -> u64 {
        match &line.record {
            Record::Fenced { generation, .. } | Record::Planned { generation, .. } => self.generation = *generation,
            Record::Committed(entry) => self.ledger.push(Committed {
                version: entry.version(),
                entry: entry.clone(),
                generation: self.generation,
                at_ms: line.at_ms,
            }),
            Record::RolledBack { to, .. } => self.ledger.retain(|committed| committed.entry.step <= *to),
            Record::Happened(happening) => self.happened(line.at_ms, happening),
            Record::Evaluated { loss, .. } => self.validation = loss.mean(),
            Record::Restored { .. } | Record::Ordered(_) | Record::State(_) => {}
        }
        self.lines += 1;
        self.lines - 1
    }

    fn happened(&mut self, at_ms: u64, happening: &Happening) {
        let mut reason = happening.to_string();
        if let (Happening::Evaluated { .. }, Some(loss)) = (happening, self.validation) {
            reason = format!("{reason}: loss {loss:.4}");
        }
        self.events.push(Stamped {
            at_ms,
            generation: self.generation,
            step: self.step(),
            kind: happening.kind(),
            reason,
            node: happening.node(),
        });
    }

    /// Committed steps.
    pub(super) fn step(&self) -> u64 {
        self.ledger.last().map_or(0, |committed| committed.entry.step)
    }

    /// The version after a committed step.
    pub(super) fn version(&self, step: u64) -> Option<Version> {
        self.ledger.iter().rev().map(|committed| committed.version).find(|version| version.step == step)
    }

    /// Events with a number above `after`, at most `limit`.
    pub(super) fn events(&self, after: u64, limit: usize, name: impl Fn(NodeId) -> String) -> Vec<EventLine> {
        let skipped = (after as usize).min(self.events.len());
        let rest = self.events.iter().enumerate().skip(skipped).take(limit);
        rest.map(|(i, event)| EventLine {
            time: rfc3339(event.at_ms),
            number: i as u64 + 1,
            generation: event.generation.to_string(),
            step: event.step,
            kind: event.kind.to_owned(),
            reason: event.reason.clone(),
            node: event.node.map(&name),
        })
        .collect()
    }

    /// Ledger lines of steps above `after`, at most `limit`.
    pub(super) fn ledger(&self, after: u64, limit: usize) -> Vec<LedgerLine> {
        let rest = self.ledger.iter().skip_while(|committed| committed.entry.step <= after).take(limit);
        rest.map(|committed| LedgerLine {
            entry: committed.entry.clone(),
            hash: committed.version.chain.to_hex(),
            mean_loss: committed.entry.mean_loss(),
            generation: committed.generation.to_string(),
            committed_at_ms: committed.at_ms,
        })
        .collect()
    }

    /// Training tokens a second over the newest `window` steps that were committed under one generation, if there are two.
    pub(super) fn tokens_per_second(&self, window: usize) -> Option<f64> {
        let newest = self.ledger.last()?;
        let run = self.ledger.iter().rev().take(window).take_while(|c| c.generation == newest.generation);
        let run: Vec<_> = run.collect();
        let oldest = run.last()?;
        let tokens: u64 = run[..run.len() - 1].iter().map(|committed| committed.entry.tokens).sum();
        let ms = newest.at_ms.saturating_sub(oldest.at_ms);
        (ms > 0).then(|| tokens as f64 * 1e3 / ms as f64)
    }
}

/// Milliseconds since 1970 as RFC 3339 in UTC; empty beyond the year 9999.
fn rfc3339(at_ms: u64) -> String {
    let time = i64::try_from(at_ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    time.map_or_else(String::new, |time| format!("{time:.3}"))
}

#[cfg(test)]
mod tests;
