//! With all inventories in: what became of the step in flight, who holds what, and the next plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::face::{Command, Millis, Offer, Order, Record};
use super::phase::{Deploying, Deployment, Phase, Shadow, Standing};
use super::skips::Found;
use super::{Engine, Happening};
use crate::check;
use crate::commit::{self, StepReport};
use crate::ids::{BlockId, Generation, NodeId};
use crate::layout::Plan;
use crate::ledger::Version;
use crate::membership::{Verdict, decide};
use crate::planner::{First, Held, NoPlan, alike, first_plan, make_plan};
use crate::protocol::{Deploy, Holding, Inventory, LossSum, Norm, Resolution, ToNode};
use crate::rules::Breach;
use crate::space::Interval;

/// Nodes of the generation: those that answered its fence.
type Members = BTreeMap<NodeId, Offer>;

impl Engine {
    pub(super) fn settle(&mut self, mut inventories: BTreeMap<NodeId, Inventory>) {
        let members: Members =
            inventories.keys().filter_map(|node| Some((*node, self.nodes.here().get(node)?.clone()))).collect();
        self.refuse_the_rolled_back(&mut inventories);
        self.adopt_records(&inventories);
        let undecided = self.decide_step_in_flight(&inventories).err();
        if self.fail_if_diverged() {
            return;
        }
        let (held, behind) = self.held(&inventories);
        if self.judge_stall(&inventories, &held) {
            return;
        }
        if self.chain.head().step > 0
            && let Some(lost) = self.what_is_lost(&held, &members)
        {
            self.give_up_or_wait(&lost, &members, undecided);
            return;
        }
        let head = self.chain.head();
        let resolve = match self.chain.last() {
            None => Resolution::Initialise,
            Some(entry) if behind => Resolution::Commit(entry.clone()),
            Some(_) => Resolution::Abort,
        };
        let held = if head.step == 0 { Held::none() } else { held };
        self.plan_from(resolve, head, &held, &members, undecided);
    }

    /// A holder that never became a plan since the last rollback has state, and records, of steps that were given up. The
    /// redone steps come out as the same bits, so this is not for exactness: what was said to be lost stays lost.
    fn refuse_the_rolled_back(&self, inventories: &mut BTreeMap<NodeId, Inventory>) {
        let lax = self.rules.breaks(Breach::ZombieInventoryAccepted) || self.rules.breaks(Breach::VersionByNumberOnly);
        let Some(since) = self.rolled_back.filter(|_| !lax) else { return };
        for inventory in inventories.values_mut().filter(|inventory| inventory.adopted < since) {
            inventory.holdings.clear();
            inventory.entries.clear();
        }
    }

    /// A record that exists anywhere is reused: the tail that a restarted coordinator lost comes back from the holders.
    fn adopt_records(&mut self, inventories: &BTreeMap<NodeId, Inventory>) {
        while let Some(entry) =
            inventories.values().flat_map(|i| &i.entries).find(|entry| self.chain.follows(entry)).cloned()
        {
            let entry = if self.rules.breaks(Breach::RecordRecomputed) {
                let holdings: Vec<_> = inventories.values().flat_map(|i| &i.holdings).collect();
                let norm = commit::total(holdings.iter().filter_map(|h| h.prepared));
                let loss = Norm::Finite(entry.loss);
                let report = StepReport { norm, loss: LossSum { loss, tokens: entry.tokens } };
                commit::entry(&self.setup.job, &self.chain.tip(), &report)
            } else {
                entry
            };
            let reason = "a holder has its record".to_owned();
            self.resolved(entry.step, true, reason);
            self.append(entry, &Found::new());
            self.watchdog.progressed(self.now);
        }
    }

    /// The deployment under which a step after the head is computed: that of the last plan journaled.
    pub(super) fn planned_generation(&self) -> Generation {
        self.standing.as_ref().map(|standing| standing.generation).unwrap_or_default()
    }

    fn resolved(&mut self, step: u64, committed: bool, reason: String) {
        if self.in_flight == Some(step) {
            self.in_flight = None;
        }
        self.note(Happening::Resolved { step, committed, reason });
    }

    /// The step in flight is computed again: from a plan that was just made, so nobody has its gradients for long.
    fn redo(&mut self, reason: Option<String>) {
        if let (Some(step), Some(reason)) = (self.in_flight.take(), reason) {
            self.tally.steps_redone += 1;
            self.note(Happening::Resolved { step, committed: false, reason });
        }
    }

    /// Commits the step after the head if every interval has a prepared holder and no counted holder is unprepared; else says
    /// why not. A step that is not committed now may be so after the next fence: it is given up with the plan that follows.
    fn decide_step_in_flight(&mut self, inventories: &BTreeMap<NodeId, Inventory>) -> Result<(), String> {
        let head = self.chain.head();
        let step = head.step + 1;
        let report = self.report_of(inventories)?;
        if step <= self.steps() {
            let entry = commit::entry(&self.setup.job, &self.chain.tip(), &report);
            let found = self.not_finite_in(inventories);
            self.append(entry, &found);
            self.watchdog.progressed(self.now);
            let reason = "every interval has a prepared holder and no counted holder is unprepared".to_owned();
            self.resolved(step, true, reason);
        }
        Ok(())
    }

    /// What the holders report of the step after the head, or why that is not enough to commit it.
    fn report_of(&self, inventories: &BTreeMap<NodeId, Inventory>) -> Result<StepReport, String> {
        let head = self.chain.head();
        if self.evaluation_due(head.step) {
            return Err(format!("validation of step {} comes first", head.step));
        }
        if self.orders.persist_due(head.step) {
            return Err(format!("the state of step {} is to be hashed or written first", head.step));
        }
        let one_for_all = self.rules.breaks(Breach::OnePreparedCopyForAll);
        let mut norms: BTreeMap<(BlockId, Interval), Norm> = BTreeMap::new();
        let mut loss = None;
        for (node, inventory) in inventories {
            // A gradient of another attempt is none: a node may come back with one after the step was given up without it.
            let of_this_attempt = inventory.adopted == self.planned_generation();
            for holding in &inventory.holdings {
                // From a fork of the ledger: it is refused, so nobody waits for its gradient.
                if holding.version.step >= head.step && !self.is_at(holding.version, head) {
                    continue;
                }
                let at_head = of_this_attempt && self.is_at(holding.version, head);
                match holding.prepared.filter(|_| at_head) {
                    Some(norm) => {
                        norms.insert((holding.block, holding.interval), norm);
                        loss = loss.or(holding.loss);
                    }
                    // One that has not even applied the step before would be left behind for good.
                    None if self.counts(*node, holding) && !one_for_all => {
                        return Err(format!("{node} is not prepared for {} {}", holding.block, holding.interval));
                    }
                    None => {}
                }
            }
        }
        if !one_for_all || norms.is_empty() {
            self.tiles(norms.keys())?;
        }
        let loss = loss.or(one_for_all.then_some(LossSum { loss: commit::total([]), tokens: 1 }));
        let loss = loss.ok_or("nobody has the loss")?;
        Ok(StepReport { norm: commit::total(norms.into_values()), loss })
    }

    /// Whether these intervals are the whole state, each element once.
    fn tiles<'a>(&self, intervals: impl Iterator<Item = &'a (BlockId, Interval)>) -> Result<(), String> {
        let mut at: Vec<u64> = vec![0; self.setup.table.blocks.len()];
        for (block, interval) in intervals {
            let end = at.get_mut(block.0 as usize).ok_or_else(|| format!("there is no {block}"))?;
            if *end != interval.start {
                return Err(format!("nobody is prepared for {block} from {end} on"));
            }
            *end = interval.end;
        }
        match self.setup.table.blocks.iter().zip(at).find(|(table, end)| table.len != *end) {
            Some((table, end)) => Err(format!("nobody is prepared for {} from {end} on", table.id)),
            None => Ok(()),
        }
    }

    /// Whether the plan in force counts a holding: without its gradient the step was never decided.
    fn counts(&self, node: NodeId, holding: &Holding) -> bool {
        let Some(standing) = &self.standing else { return false };
        let step = self.chain.head().step + 1;
        standing.plan.pieces().any(|(id, piece)| {
            piece.block == holding.block
                && piece.interval == holding.interval
                && piece.holders().any(|holder| holder == node)
                && standing.counts(id, node, step)
        })
    }

    fn is_at(&self, version: Version, wanted: Version) -> bool {
        version == wanted || (self.rules.breaks(Breach::VersionByNumberOnly) && version.step == wanted.step)
    }

    /// Who holds what at the head, after a last update if need be; and whether one is needed.
    fn held(&self, inventories: &BTreeMap<NodeId, Inventory>) -> (Held, bool) {
        let (head, before) = (self.chain.head(), self.chain.before_head());
        let stale_too = self.rules.breaks(Breach::StaleSource);
        let mut held = Held::none();
        let mut any_behind = false;
        for (node, inventory) in inventories {
            for holding in &inventory.holdings {
                let follows = before.is_some_and(|before| self.is_at(holding.version, before));
                let behind = follows && holding.prepared.is_some() && inventory.adopted == self.chain.attempt();
                if behind || self.is_at(holding.version, head) || (stale_too && holding.version.step < head.step) {
                    held.insert(*node, holding.block, holding.interval);
                    any_behind |= behind;
                }
            }
        }
        (held, any_behind)
    }

    /// Names what nobody holds.
    fn what_is_lost(&self, held: &Held, members: &Members) -> Option<String> {
        if held.is_empty() {
            return Some("the whole state".into());
        }
        held.lost(&self.setup.table, members).map(|(block, missing)| format!("{block} {missing}"))
    }

    fn give_up_or_wait(&mut self, lost: &str, members: &Members, undecided: Option<String>) {
        let holders = self.standing.as_ref().map(Standing::nodes).unwrap_or_default();
        if let Some(node) = self.members().into_iter().find(|node| !members.contains_key(node)) {
            self.fence(&format!("{lost} is held by nobody asked, but {node} has come since"));
            return;
        }
        let on_loss = self.setup.job.spec.elastic.on_loss;
        let (verdict, reason) = decide(&self.nodes, &holders, self.waited, on_loss, lost);
        match verdict {
            Verdict::Wait(expected) => {
                self.decided(reason);
                self.waited = true;
                let until = Some(self.after(self.setup.timing.absence));
                self.phase = Phase::Absent { until, expected };
            }
            Verdict::Rollback => {
                self.redo(undecided);
                self.roll_back(reason, members);
            }
            Verdict::Halt => {
                self.fail(format!("steps 1 to {} cannot be gone on from: {reason}", self.chain.head().step))
            }
        }
    }

    /// Back to the initial state, the newest that is durable.
    fn roll_back(&mut self, reason: String, members: &Members) {
        let from = self.chain.head().step;
        let held = self.orders.holds_at(self.in_flight.unwrap_or(from));
        self.journal(Record::RolledBack { from, to: 0 });
        if held {
            // A job that was told to hold goes on only when it is told to.
            self.orders.pause_at = Some(0);
            self.journal(Record::Ordered(Order::Pause { at: Some(0) }));
        }
        self.note(Happening::StepsLost { from, to: 0, reason });
        self.tally.rolled_back(from);
        self.chain.cut();
        for (_, step) in &mut self.flush.open {
            *step = 0;
        }
        self.rolled_back = Some(self.generation);
        self.plan_from(Resolution::Initialise, self.chain.head(), &Held::none(), members, None);
    }

    fn plan_from(
        &mut self,
        resolve: Resolution,
        version: Version,
        held: &Held,
        members: &Members,
        undecided: Option<String>,
    ) {
        let (job, table) = (Arc::clone(&self.setup.job), Arc::clone(&self.setup.table));
        let leaving = self.nodes.leaving();
        let planned = match self.arithmetic() {
            None => first_plan(&job, &table, members, &leaving).map(|First { planned, plain }| (planned, plain)),
            Some(_) => make_plan(&job, &table, members, &leaving, held).map(|planned| (planned, None)),
        };
        let (planned, plain) = match planned {
            Ok(planned) => planned,
            Err(none) => {
                let reason = none.to_string();
                match none {
                    NoPlan::Memory { .. } | NoPlan::Impossible { .. } if !self.tally.started => self.fail(reason),
                    NoPlan::Memory { .. }
                    | NoPlan::Impossible { .. }
                    | NoPlan::NoNodes { .. }
                    | NoPlan::StateLost { .. } => self.park(&reason),
                }
                return;
            }
        };
        let arithmetic = planned.plan.arithmetic;
        let members = &alike(members, arithmetic);
        let violations = check::check(&planned.plan, &job, &table, members);
        if let Some(violation) = violations.first() {
            self.fail(format!("the planner made a plan that does not hold: {violation}"));
            return;
        }
        self.redo(undecided);
        let version = match self.arithmetic() {
            Some(_) => version,
            None => {
                self.fix(arithmetic);
                self.chain.head()
            }
        };
        let (generation, plan) = (self.generation, Arc::new(planned.plan));
        self.decided(format!("plan {generation}: {}", planned.reason));
        if let Some(why) = plain {
            self.warn_of_plain(&why);
        }
        self.warn_if_short(&plan, members.len());
        let unfilled = planned.unfilled;
        let attempt = self.chain.attempt();
        self.journal(Record::Planned { generation, plan: Arc::clone(&plan), unfilled: unfilled.clone() });
        let shadows = unfilled.iter().map(|at| (*at, Shadow::Unfilled)).collect();
        self.standing = Some(Standing { generation, plan, shadows });
        let members = members.keys().copied().collect();
        let deployment =
            Deployment { members, resolve, attempt, version, fetches: planned.fetches, unfilled, held: held.clone() };
        let mark = self.flush();
        self.phase = Phase::DeployJournaled { mark, deployment };
    }

    /// Says so when the plan has fewer shadows than were asked for: until more nodes come, a loss may cost steps.
    fn warn_if_short(&mut self, plan: &Plan, nodes: usize) {
        if let Some(reason) = plan.shortfall(self.setup.job.spec.elastic.redundancy, nodes) {
            self.note(Happening::Warning { reason });
        }
    }

    pub(super) fn send_deploy(&mut self) {
        let phase = std::mem::replace(&mut self.phase, Phase::Parked);
        let (Phase::DeployJournaled { deployment, .. }, Some(standing)) = (phase, &self.standing) else { return };
        let deploy = Deploy {
            generation: self.generation,
            resolve: deployment.resolve.clone(),
            attempt: deployment.attempt,
            version: deployment.version,
            plan: Arc::clone(&standing.plan),
            fetches: deployment.fetches.clone(),
            unfilled: deployment.unfilled.clone(),
        };
        for node in &deployment.members {
            self.send(*node, ToNode::Deploy(Box::new(deploy.clone())));
        }
        let until = self.after(self.patience_to_deploy());
        self.phase = Phase::Deploying(Deploying { deployment, ready: BTreeSet::new(), until });
    }

    pub(super) fn ready(&mut self, node: NodeId) {
        let early = self.rules.breaks(Breach::StartBeforeAllReady);
        let until = Millis(self.now.0 + self.patience_to_deploy());
        let Phase::Deploying(deploying) = &mut self.phase else { return };
        if deploying.ready.insert(node) && deploying.until < until {
            deploying.until = until;
            self.out.push(Command::WakeAt(until));
        }
        let Phase::Deploying(deploying) = &self.phase else { return };
        if early || deploying.deployment.members.iter().all(|member| deploying.ready.contains(member)) {
            self.start();
        }
    }
}
