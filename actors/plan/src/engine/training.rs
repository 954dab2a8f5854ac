//! Stepping: collect reports, commit, order what comes next.

use std::collections::{BTreeMap, BTreeSet};

use super::face::{Record, State};
use super::passes::persisters;
use super::phase::{Persisting, Persists, Phase, Running, Shadow, Standing, Validation};
use super::{Engine, Happening};
use crate::commit::{self, StepReport};
use crate::draw;
use crate::ids::{Generation, NodeId, PieceId};
use crate::layout::Plan;
use crate::ledger::Version;
use crate::planner::make_plan;
use crate::protocol::{Fill, Next, Norm, Persist, Prepared, ToNode};
use crate::rules::Breach;

/// What to do at a version.
struct Ahead {
    next: Next,
    fills: Vec<Fill>,
    persist: Option<Persist>,
    /// A new generation follows at once, for this reason.
    replan: Option<String>,
}

impl Engine {
    /// Everyone is ready.
    pub(super) fn start(&mut self) {
        let Some(standing) = &self.standing else { return };
        let audience: Vec<NodeId> = standing.nodes().into_iter().collect();
        let plan = draw::line(&standing.plan);
        let head = self.chain.head();
        self.phase = Phase::Running(Box::new(Running {
            required: required(standing, head.step + 1),
            audience,
            reports: BTreeMap::new(),
            validation: Validation::Idle,
            persists: Persists::Idle,
        }));
        self.tally.started = true;
        self.waited = false;
        self.note(Happening::Started { step: head.step, plan });
        let everyone = self.members();
        self.go_on(head, &everyone);
        self.let_leave();
        self.note_full_redundancy();
    }

    /// Orders what comes next at the version that everyone is at already.
    pub(super) fn go_on(&mut self, version: Version, to: &[NodeId]) {
        let ahead = self.ahead(version.step);
        let (generation, loss_scale) = (self.generation, self.chain.tip().loss_scale);
        for node in to {
            let (next, fills, persist) = (ahead.next, ahead.fills.clone(), ahead.persist);
            self.send(*node, ToNode::Start { generation, version, loss_scale, next, fills, persist });
        }
        self.after_ordering(version.step, ahead.replan);
    }

    /// A node reports that every piece it holds has its gradient.
    pub(super) fn prepared(&mut self, node: NodeId, prepared: Prepared) {
        let step = self.chain.head().step + 1;
        let Phase::Running(running) = &mut self.phase else { return };
        if prepared.step == step && running.required.contains_key(&node) {
            if running.reports.insert(node, prepared).is_none() {
                self.watchdog.moved(self.now);
            }
            self.commit_if_decided();
        }
    }

    /// Commits the step in flight when nothing is missing.
    pub(super) fn commit_if_decided(&mut self) {
        let Some(report) = self.complete_report() else { return };
        let entry = commit::entry(&self.setup.job, &self.chain.tip(), &report);
        let found = self.not_finite_in_reports();
        self.append(entry.clone(), &found);
        self.in_flight = None;
        self.watchdog.committed(self.now);
        if self.fail_if_diverged() {
            return;
        }
        self.flush_soon();
        let version = self.chain.head();
        let was_full = self.is_full();
        if let Some(standing) = &mut self.standing {
            standing.committed(version.step);
        }
        let (Phase::Running(running), Some(standing)) = (&mut self.phase, &self.standing) else { return };
        running.reports.clear();
        running.required = required(standing, version.step + 1);
        let audience = running.audience.clone();
        let ahead = self.ahead(version.step);
        let (generation, flushed) = (self.generation, self.watermark());
        for node in audience {
            let (entry, next, fills, persist) = (entry.clone(), ahead.next, ahead.fills.clone(), ahead.persist);
            self.send(node, ToNode::Commit { generation, entry, next, fills, persist, flushed });
        }
        if !was_full {
            self.note_full_redundancy();
        }
        self.after_ordering(version.step, ahead.replan);
    }

    /// The report of the step in flight, if every counted holder has sent its part and nothing else comes first.
    fn complete_report(&self) -> Option<StepReport> {
        let (Phase::Running(running), Some(standing)) = (&self.phase, &self.standing) else { return None };
        self.in_flight?;
        let tolerated = usize::from(self.rules.breaks(Breach::CommitBeforeAllPrepared));
        let late = self.rules.breaks(Breach::ShadowAcknowledgesLate);
        let first = !matches!(running.validation, Validation::Idle) || matches!(running.persists, Persists::Begun(_));
        if first || (!late && running.reports.len() + tolerated < running.required.len()) {
            return None;
        }
        let mut norms: Vec<Option<Norm>> = vec![None; standing.plan.pieces.len()];
        let mut loss = None;
        let mut missing = 0;
        for (node, pieces) in &running.required {
            let Some(report) = running.reports.get(node) else {
                missing += usize::from(!late);
                continue;
            };
            loss = loss.or(report.loss);
            let reported = |piece: &PieceId| report.pieces.iter().any(|(id, _)| id == piece);
            if !late && !pieces.iter().all(reported) {
                missing += 1;
            }
            for (id, norm) in report.pieces.iter().filter(|(id, _)| pieces.contains(id)) {
                norms[id.0 as usize] = Some(*norm);
            }
        }
        if missing > tolerated {
            return None;
        }
        let norm = if tolerated > 0 { commit::total(norms.into_iter().flatten()) } else { sum(norms)? };
        Some(StepReport { norm, loss: loss? })
    }

    /// What to do at a version. Everything in it is bookkept when it is ordered.
    fn ahead(&mut self, step: u64) -> Ahead {
        let last = step == self.steps();
        let replan = if last { None } else { self.reason_to_replan() };
        let evaluate = replan.is_none() && self.evaluation_due(step);
        let hold = last || replan.is_some() || self.orders.holds_at(step);
        let next = match (evaluate, hold) {
            (false, true) => Next::Hold,
            (true, true) => Next::Evaluate,
            (false, false) => Next::Train,
            (true, false) => Next::EvaluateThenTrain,
        };
        let persist = if replan.is_some() { None } else { self.next_persist(step) };
        let fills = if replan.is_some() || last { Vec::new() } else { self.order_fills() };
        let Phase::Running(running) = &mut self.phase else {
            return Ahead { next: Next::Hold, fills: Vec::new(), persist: None, replan: None };
        };
        if evaluate && matches!(running.validation, Validation::Idle) {
            running.validation = Validation::Begun(BTreeMap::new());
        }
        if let (Some((persist, answers)), Some(standing)) = (&persist, &self.standing) {
            let waiting = persisters(standing, persist.mode, step);
            let (persist, answers, leaves) = (*persist, answers.clone(), Vec::new());
            running.persists = Persists::Begun(Persisting { persist, answers, waiting, leaves });
        }
        self.in_flight = (!hold).then_some(step + 1);
        self.watchdog.ordered(self.now);
        Ahead { next, fills, persist: persist.map(|(persist, _)| persist), replan }
    }

    fn after_ordering(&mut self, step: u64, replan: Option<String>) {
        if let Some(reason) = replan {
            self.fence(&reason);
            return;
        }
        let paused = self.in_flight.is_none() && step < self.steps();
        self.show(if paused { State::Paused { step } } else { State::Training });
        if paused {
            self.flush_soon();
        }
        self.finish_if_done();
    }

    /// Shadows to fill at this version: one at a time from each source and to each target.
    fn order_fills(&mut self) -> Vec<Fill> {
        let step = self.chain.head().step;
        let Some(standing) = &mut self.standing else { return Vec::new() };
        let mut busy: BTreeSet<NodeId> = BTreeSet::new();
        for ((_, to), shadow) in &standing.shadows {
            if let Shadow::Filling { from } = shadow {
                busy.extend([*to, *from]);
            }
        }
        let mut fills = Vec::new();
        let open: Vec<(PieceId, NodeId)> =
            standing.shadows.iter().filter(|(_, s)| **s == Shadow::Unfilled).map(|(at, _)| *at).collect();
        for (piece, to) in open {
            let sources = standing.plan.piece(piece).holders();
            let from = sources.filter(|n| standing.counts(piece, *n, step)).find(|n| !busy.contains(n));
            let Some(from) = from.filter(|_| !busy.contains(&to)) else { continue };
            busy.extend([from, to]);
            standing.shadows.insert((piece, to), Shadow::Filling { from });
            fills.push(Fill { piece, from, to });
        }
        if !fills.is_empty() {
            self.watchdog.filled(self.now);
        }
        fills
    }

    /// A shadow is complete.
    pub(super) fn filled(&mut self, node: NodeId, piece: PieceId, version: Version) {
        let head = self.chain.head();
        let step = head.step;
        let Some(standing) = &mut self.standing else { return };
        if !matches!(standing.shadows.get(&(piece, node)), Some(Shadow::Filling { .. })) {
            return;
        }
        // With a step in flight, or one behind, it may lack a gradient that is already decided: it counts from the next on.
        if self.in_flight.is_none() && version == head {
            standing.shadows.remove(&(piece, node));
            if let Phase::Running(running) = &mut self.phase {
                running.required.entry(node).or_default().insert(piece);
            }
        } else {
            let counts_from = self.in_flight.map_or(step + 1, |in_flight| in_flight + 1);
            standing.shadows.insert((piece, node), Shadow::Filled { counts_from });
        }
        self.watchdog.filled(self.now);
        self.journal(Record::Restored { generation: self.generation, piece, node });
        self.flush_soon();
        self.note_full_redundancy();
        if self.in_flight.is_none() && step < self.steps() {
            let fills = self.order_fills();
            self.send_fills(&fills);
        }
    }

    /// Fills while nobody steps.
    fn send_fills(&mut self, fills: &[Fill]) {
        let Phase::Running(running) = &self.phase else { return };
        if fills.is_empty() {
            return;
        }
        let (generation, version, loss_scale) = (self.generation, self.chain.head(), self.chain.tip().loss_scale);
        for node in running.audience.clone() {
            let (next, fills, persist) = (Next::Hold, fills.to_vec(), None);
            self.send(node, ToNode::Start { generation, version, loss_scale, next, fills, persist });
        }
    }

    /// A boundary between two steps: whether another plan is worth a new generation.
    pub(super) fn reason_to_replan(&mut self) -> Option<String> {
        if !std::mem::take(&mut self.reconsider) {
            return None;
        }
        let standing = self.standing.as_ref()?;
        let held = standing.held();
        let leaving = self.nodes.leaving();
        let planned = make_plan(&self.setup.job, &self.setup.table, self.nodes.here(), &leaving, &held);
        let in_use = standing.plan.nodes();
        let planned = match planned {
            Ok(planned) => planned,
            Err(none) => {
                let reason = format!("the plan stays as it is: {none}");
                self.note(Happening::Warning { reason });
                return None;
            }
        };
        if let Some(node) = leaving.iter().find(|node| in_use.contains(node)) {
            return Some(format!("{node} wishes to leave; {}", planned.reason));
        }
        let shadows = |plan: &Plan| plan.pieces.iter().map(|piece| piece.shadows.len()).min().unwrap_or(0);
        let (now, then) = (shadows(&standing.plan), shadows(&planned.plan));
        if then > now {
            return Some(format!("{then} shadow(s) of every interval instead of {now}; {}", planned.reason));
        }
        let shape = |plan: &Plan| {
            let seated: BTreeSet<NodeId> = plan.seats().map(|(_, node)| node).collect();
            (plan.stages.len(), plan.lanes.len(), seated.len())
        };
        if shape(&planned.plan) != shape(&standing.plan) {
            return Some(format!("{}; before: {}", planned.reason, draw::line(&standing.plan)));
        }
        let spare = self.members().into_iter().filter(|node| !in_use.contains(node));
        let names: Vec<String> = spare.map(|node| node.to_string()).collect();
        if !names.is_empty() {
            self.decided(format!("{} stays spare: the plan in force is as good as any", names.join(", ")));
        }
        None
    }

    pub(super) fn is_full(&self) -> bool {
        let want = self.setup.job.spec.elastic.redundancy;
        self.standing.as_ref().is_some_and(|standing| standing.full_shadows() >= want)
    }

    fn note_full_redundancy(&mut self) {
        let full = self.is_full();
        if full && !self.tally.full {
            self.note(Happening::RedundancyFull);
        }
        self.tally.full = full;
    }

    /// Whether a message belongs to the generation in force.
    pub(super) fn is_current(&self, generation: Generation) -> bool {
        generation == self.generation || self.rules.breaks(Breach::OldGenerationObeyed)
    }
}

/// All norms, each piece once; none if one is missing.
fn sum(norms: Vec<Option<Norm>>) -> Option<Norm> {
    Some(commit::total(norms.into_iter().collect::<Option<Vec<_>>>()?))
}

/// Pieces that each node has to report before a step is committed.
fn required(standing: &Standing, step: u64) -> BTreeMap<NodeId, BTreeSet<PieceId>> {
    let mut required: BTreeMap<NodeId, BTreeSet<PieceId>> = BTreeMap::new();
    for (id, piece) in standing.plan.pieces() {
        for node in piece.holders().filter(|node| standing.counts(id, *node, step)) {
            required.entry(node).or_default().insert(id);
        }
    }
    required
}
