//! The ledger as the engine needs it: its newest records, and how far they are durable.

use std::collections::VecDeque;

use crate::ids::Generation;
use crate::ledger::{Head, LedgerEntry, Update, Version};

/// Records kept beyond those that are not durable yet.
const KEPT: usize = 8;

/// The newest end of the chain.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    genesis: Head,
    /// Where the first kept record follows.
    base: Head,
    kept: VecDeque<(LedgerEntry, Version)>,
    /// The deployment under which the last record's step was computed.
    attempt: Generation,
    flushed: u64,
    /// Records at the end of the chain that change nothing.
    skipped: u64,
    /// Those of them that no token of the batch entered.
    empty: u64,
}

impl Chain {
    pub(super) fn new(genesis: Head) -> Self {
        let attempt = Generation::default();
        Self { genesis, base: genesis, kept: VecDeque::new(), attempt, flushed: 0, skipped: 0, empty: 0 }
    }

    /// What nodes compute is known: the chain starts from what holds that, too.
    pub(super) fn begin(&mut self, genesis: Head) {
        assert!(
            self.kept.is_empty() && self.base == self.genesis,
            "EN-12 (arithmetic): fixed after step {}",
            self.head().step
        );
        (self.genesis, self.base) = (genesis, genesis);
    }

    /// The version before the first step.
    pub(super) fn genesis(&self) -> Version {
        self.genesis.version
    }

    /// The last committed version.
    pub(super) fn head(&self) -> Version {
        self.kept.back().map_or(self.base.version, |(_, version)| *version)
    }

    /// What the next record follows from.
    pub(super) fn tip(&self) -> Head {
        self.kept.back().map_or(self.base, |(entry, version)| tip(entry, *version))
    }

    /// The version before the last record, if there is one.
    pub(super) fn before_head(&self) -> Option<Version> {
        let (last, _) = self.kept.back()?;
        Some(Version { step: last.step - 1, chain: last.previous })
    }

    pub(super) fn attempt(&self) -> Generation {
        self.attempt
    }

    pub(super) fn last(&self) -> Option<&LedgerEntry> {
        self.kept.back().map(|(entry, _)| entry)
    }

    /// Whether a record follows the head.
    pub(super) fn follows(&self, entry: &LedgerEntry) -> bool {
        let head = self.head();
        entry.step == head.step + 1 && entry.previous == head.chain
    }

    /// Adds the next record. A step is decided before another plan is made, so it was computed under the last one.
    pub(super) fn push(&mut self, entry: LedgerEntry, attempt: Generation) {
        assert!(self.follows(&entry), "EN-2 (chain): {} after {}", entry.step, self.head().step);
        (self.skipped, self.empty) = match entry.update {
            Update::Apply(_) => (0, 0),
            Update::Skip => (self.skipped + 1, self.empty + u64::from(entry.tokens == 0)),
        };
        let version = entry.version();
        self.kept.push_back((entry, version));
        self.attempt = attempt;
        self.trim();
    }

    /// Back to the start.
    pub(super) fn cut(&mut self) {
        self.base = self.genesis;
        self.kept.clear();
        (self.flushed, self.skipped, self.empty) = (0, 0, 0);
    }

    /// How many of the last records in a row change nothing.
    pub(super) fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Those of them that no token of the batch entered.
    pub(super) fn skipped_without_tokens(&self) -> u64 {
        self.empty
    }

    /// Records up to here are durable.
    pub(super) fn flushed(&self) -> u64 {
        self.flushed
    }

    pub(super) fn set_flushed(&mut self, step: u64) {
        self.flushed = self.flushed.max(step.min(self.head().step));
        self.trim();
    }

    /// Whether the kept records are linked, end at or after what is durable, and start where they should.
    pub(super) fn is_sound(&self) -> bool {
        let mut at = self.base.version;
        for (entry, version) in &self.kept {
            if entry.step != at.step + 1 || entry.previous != at.chain || version.step != entry.step {
                return false;
            }
            at = *version;
        }
        self.flushed <= at.step
    }

    fn trim(&mut self) {
        while self.kept.len() > KEPT && self.kept.front().is_some_and(|(entry, _)| entry.step <= self.flushed) {
            if let Some((entry, version)) = self.kept.pop_front() {
                self.base = tip(&entry, version);
            }
        }
    }
}

/// [`Head::after`] a record whose version is known.
fn tip(entry: &LedgerEntry, version: Version) -> Head {
    Head { version, time: entry.optimizer_time, loss_scale: entry.loss_scale }
}
