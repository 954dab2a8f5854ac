//! What is demanded of every history.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::actor::Life;
use super::world::{MILLI, World, offer};
use crate::digest::assemble;
use crate::engine::{LossCause, RedundancyState, State};
use crate::holder::SlotId;
use crate::ids::{Digest, Generation, NodeId, PieceId};
use crate::ledger::{LedgerEntry, Update, Version};
use crate::planner::Held;
use crate::space::Interval;

/// One demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Oracle {
    /// The engine's own invariants hold after each event.
    Invariant,
    /// A holder's orders make sense: nothing is updated twice or without a gradient, freed twice, served when absent.
    Contract,
    /// Every committed record is what one attempt at its step computes, and uses that step's samples once.
    Record,
    /// A step once committed keeps its record, unless its loss is reported.
    Committed,
    /// Every slot has the content that its version says.
    Content,
    /// Every digest that is answered is that of the undisturbed state.
    Digest,
    /// Steps are given up only beyond the promise, and all that are lost are reported.
    Lost,
    /// No two starts of the coordinator tell of one generation.
    Generation,
    /// The job ends once faults stop.
    Liveness,
}

impl fmt::Display for Oracle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}"))
    }
}

/// A demand that was not met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which.
    pub oracle: Oracle,
    /// What was seen.
    pub found: String,
}

/// What the oracle keeps in mind.
#[derive(Debug)]
pub(super) struct Judge {
    pub finding: Option<Finding>,
    redundancy: u32,
    /// Nodes lost since redundancy was last full; more than the promise until it was full once.
    losses: u32,
    lost: BTreeSet<NodeId>,
    /// Records of the ledger, as they were decided.
    records: BTreeMap<u64, LedgerEntry>,
    /// Steps after this one were known to a coordinator that died before they were on disk.
    doubtful_after: Option<u64>,
    lost_steps: u64,
    /// When a device was last seen to hang, of those that do so no more.
    pub last_hung: Option<u64>,
}

impl Judge {
    pub(super) fn new(redundancy: u32) -> Self {
        let (lost, records) = (BTreeSet::new(), BTreeMap::new());
        Self {
            finding: None,
            redundancy,
            losses: u32::MAX / 2,
            lost,
            records,
            doubtful_after: None,
            lost_steps: 0,
            last_hung: None,
        }
    }

    /// A node, or part of what it holds, is gone.
    pub(super) fn harm(&mut self, node: NodeId) {
        if self.lost.insert(node) {
            self.losses += 1;
        }
    }

    /// Whether nothing was lost since redundancy was full.
    pub(super) fn is_full(&self) -> bool {
        self.losses == 0
    }

    /// Part of what a node holds is gone.
    pub(super) fn holding_lost(&mut self) {
        self.losses += 1;
    }

    /// The coordinator died; its journal ends with this step.
    pub(super) fn journal_ends(&mut self, step: u64) {
        self.doubtful_after = Some(self.doubtful_after.map_or(step, |sure| sure.min(step)));
    }

    pub(super) fn node_lost(&mut self, node: NodeId, cause: LossCause) {
        match cause {
            // Whoever leaves on request may take the promise along; it holds again once redundancy is full without it.
            LossCause::Left
            | LossCause::Died
            | LossCause::Silent
            | LossCause::NotReturned
            | LossCause::Evicted
            | LossCause::Stalled
            | LossCause::Mute => self.harm(node),
        }
    }

    pub(super) fn node_back(&mut self, node: NodeId) {
        self.lost.remove(&node);
    }
}

impl World {
    pub(super) fn accuse(&mut self, oracle: Oracle, found: String) {
        if self.judge.finding.is_none() {
            self.trace(|| format!("WRONG ({oracle}): {found}"));
            self.judge.finding = Some(Finding { oracle, found });
        }
    }

    /// The engine says that redundancy is full: from here on the promise holds, for what is still there.
    pub(super) fn see_redundancy(&mut self) {
        let Some(engine) = &self.coordinator.engine else { return };
        // Where no shadows are asked for, it is full with whatever there is.
        let settled = matches!(engine.status().state, State::Training | State::Paused { .. } | State::Done);
        if engine.redundancy().state != RedundancyState::Full || !settled {
            return;
        }
        let Some(plan) = engine.plan() else { return };
        let holders: BTreeSet<NodeId> = plan.pieces.iter().flat_map(|piece| piece.holders()).collect();
        let gone = |node: &&NodeId| {
            let actor = &self.nodes[node];
            self.judge.lost.contains(node) || actor.hurt || !matches!(actor.life, Life::Up)
        };
        self.judge.losses = holders.iter().filter(gone).count() as u32;
    }

    pub(super) fn judge_record(&mut self, entry: &LedgerEntry) {
        match self.judge.records.get(&entry.step) {
            Some(before) if before != entry => {
                self.accuse(
                    Oracle::Committed,
                    format!("step {} is committed by another record than before", entry.step),
                );
            }
            Some(_) => {}
            None => {
                if self.judge.records.last_key_value().map_or(0, |(step, _)| *step) + 1 != entry.step {
                    self.accuse(Oracle::Record, format!("record {} does not follow the last", entry.step));
                }
                self.judge.records.insert(entry.step, entry.clone());
            }
        }
        let time = match entry.update {
            Update::Apply(_) => entry.optimizer_time - 1,
            Update::Skip => entry.optimizer_time,
        };
        let attempts = if self.computation.salted { &self.coordinator.attempts[..] } else { &[Generation::default()] };
        if let Err(found) = self.references.follow(&self.computation, entry, time, attempts) {
            self.accuse(Oracle::Record, found);
        }
    }

    pub(super) fn judge_rollback(&mut self, from: u64, to: u64) {
        if self.judge.losses <= self.judge.redundancy {
            let found =
                format!("steps up to {from} are given up after {} losses of full redundancy", self.judge.losses);
            self.accuse(Oracle::Lost, found);
        }
        let known = self.judge.records.last_key_value().map_or(0, |(step, _)| *step);
        let doubtful = self.judge.doubtful_after.take().is_some_and(|sure| (sure..=known).contains(&from));
        if known != from && !doubtful {
            self.accuse(Oracle::Lost, format!("{known} steps were committed, and {from} are reported as given up"));
        }
        self.judge.lost_steps += from - to;
        self.judge.records.retain(|step, _| *step <= to);
    }

    /// The engine never sends away whoever holds what nobody else does. What it cannot know of yet is not its fault.
    pub(super) fn judge_eviction(&mut self, evicted: NodeId, cause: LossCause) {
        let sent_away = match cause {
            LossCause::Evicted | LossCause::Stalled => true,
            LossCause::Died | LossCause::Silent | LossCause::NotReturned | LossCause::Left | LossCause::Mute => false,
        };
        let Some(engine) = self.coordinator.engine.as_ref().filter(|_| sent_away) else { return };
        let (head, others) = (engine.version(), engine.members());
        if head.step == 0 || others.iter().any(|node| self.nodes[node].hurt) {
            return;
        }
        let before = self.judge.records.get(&head.step).map(|entry| entry.previous);
        let mut held = Held::none();
        let mut members = BTreeMap::new();
        for node in others {
            members.insert(node, offer(self.computation.arithmetic_of(node)));
            for holding in self.nodes[&node].holder.holdings() {
                let behind = holding.version.step + 1 == head.step && Some(holding.version.chain) == before;
                if holding.version == head || (behind && holding.prepared.is_some()) {
                    held.insert(node, holding.block, holding.interval);
                }
            }
        }
        if let Some((block, missing)) = held.lost(&self.computation.table, &members) {
            let found = format!("{evicted} is sent away ({cause}), and nobody else holds {block} {missing}");
            self.accuse(Oracle::Lost, found);
        }
    }

    /// The watchdog is there for what hangs. Where nothing hung for all the time it waited, everybody comes to hear what they wait
    /// for, or that they wait in vain.
    pub(super) fn judge_stall(&mut self, what: &str, waited: u64) {
        let hangs = self.nodes.values().any(|actor| actor.hung.is_some());
        let hung = self.judge.last_hung.is_some_and(|until| until + waited * MILLI >= self.now);
        if !hangs && !hung {
            self.accuse(Oracle::Liveness, format!("nothing hangs, and yet: no progress for {waited} ms in {what}"));
        }
    }

    /// A shadow that counts from now on has to be whole.
    pub(super) fn judge_restored(&mut self, generation: Generation, piece: PieceId, node: NodeId) {
        let Some(actor) = self.nodes.get(&node).filter(|actor| actor.generation == generation) else { return };
        let slot = actor.pieces.get(&piece).and_then(|slot| actor.slots.get(slot));
        if slot.is_some_and(|data| !data.expects.is_empty()) {
            self.accuse(Oracle::Content, format!("{node} is counted as a holder of {piece}, and has not all of it"));
        }
    }

    /// A slot has to have the content of its version.
    pub(super) fn judge_slot(&mut self, node: NodeId, slot: SlotId, version: &Version) {
        let Some(data) = self.nodes.get(&node).and_then(|actor| actor.slots.get(&slot)) else { return };
        let (range, values) = (data.first..data.first + data.atoms.len(), data.atoms.clone());
        self.judge_values(node, version, range, &values);
    }

    pub(super) fn judge_values(
        &mut self,
        node: NodeId,
        version: &Version,
        range: std::ops::Range<usize>,
        values: &[u64],
    ) {
        match self.references.at(version) {
            Some(reference) => {
                if reference.atoms[range.clone()] != *values {
                    let found = format!("{node} has other bits than step {} in atoms {range:?}", version.step);
                    self.accuse(Oracle::Content, found);
                }
            }
            None => {
                self.accuse(Oracle::Content, format!("{node} has a version of step {} that never was", version.step))
            }
        }
    }

    fn digest_of(&self, version: &Version) -> Option<Digest> {
        let reference = self.references.at(version)?;
        let mut reports = Vec::new();
        for block in &self.computation.table.blocks {
            let range = self.computation.atoms(block.id, Interval::new(0, block.len));
            let interval = Interval::new(0, block.len);
            reports.extend(self.computation.leaves(block.id, interval, &reference.atoms[range]));
        }
        assemble(&self.computation.table, &reports).ok()
    }

    pub(super) fn judge_digest(&mut self, step: u64, digest: Digest) {
        let version = match self.judge.records.get(&step) {
            Some(entry) => entry.version(),
            None => match &self.coordinator.engine {
                Some(engine) => engine.genesis(),
                None => return,
            },
        };
        if version.step != step || self.digest_of(&version) != Some(digest) {
            self.accuse(Oracle::Digest, format!("the digest of step {step} is not the undisturbed one"));
        }
    }

    /// The job is over: how?
    pub(super) fn judge_the_end(&mut self) {
        let Some(status) = self.coordinator.engine.as_ref().map(|engine| engine.status()) else { return };
        let diverges = self.computation.diverges_at();
        match status.state {
            State::Failed { reason } if diverges == Some(status.step) && reason.starts_with("diverged") => {}
            State::Done if diverges.is_some() => {
                self.accuse(Oracle::Record, "the job is done though too many steps in a row were skipped".into());
            }
            State::Done => match status.digest {
                Some((step, digest)) if step == self.outcome.steps => self.judge_digest(step, digest),
                _ => self.accuse(Oracle::Digest, "the job is done without a digest of its last step".into()),
            },
            State::Failed { reason } => {
                if self.judge.losses <= self.judge.redundancy || !reason.contains("on_loss = halt") {
                    let losses = self.judge.losses;
                    self.accuse(Oracle::Lost, format!("the job failed after {losses} losses: {reason}"));
                }
            }
            other => self.accuse(Oracle::Liveness, format!("the job is over as {other:?}")),
        }
        if status.steps_lost != self.judge.lost_steps {
            let found = format!("{} steps are reported lost, not {}", status.steps_lost, self.judge.lost_steps);
            self.accuse(Oracle::Lost, found);
        }
    }
}
