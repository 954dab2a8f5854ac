//! The progress watchdog: whatever is under way with other nodes is waited for with a deadline.
//!
//! ```text
//! no progress for its patience -> fence with the same members -> what everyone's threads have in hand
//!   some are stuck in one piece of work, the others hold everything:  the stuck are evicted
//!   the same were mute twice, the others hold everything:             the mute are evicted
//!   nothing moved in three attempts:                                  parked, with everything kept
//!   else:                                                             done again, with twice the patience
//! ```
//!
//! One hung device makes everyone mute who waits for its gradients, so being mute once convicts nobody, and being mute twice
//! nobody whose state is needed: a node says itself how long its threads have been in one piece of work ([`crate::protocol::InHand`]).
//!
//! The engine looks several times within a patience. By how much a look comes late, the coordinator itself was held up:
//! every deadline moves by that much.

use std::collections::{BTreeSet, VecDeque};

use super::Engine;
use super::face::Millis;
use super::phase::{Persists, Phase, Shadow, Validation};
use crate::batch::validation_windows;
use crate::blocks::BlockTable;
use crate::ids::{NodeId, Replica, Seat, StageIndex};
use crate::rules::Breach;
use crate::space::Interval;

/// Attempts without any progress after which the job is parked.
pub(super) const MOST_STALLS: u32 = 3;
/// Steps whose durations are remembered.
const RECENT: usize = 8;
/// Looks within one patience.
const LOOKS: u64 = 8;
/// Bytes that a node hashes, writes or sends in a millisecond at the very least.
const SLOWEST: u64 = 16 << 10;

/// What the watchdog remembers.
#[derive(Clone, Debug, Default)]
pub(super) struct Watchdog {
    /// How long the newest steps took, in milliseconds.
    recent: VecDeque<u64>,
    /// When the step in flight was ordered.
    begun: Millis,
    /// When steps and what commits wait for last moved, and when fills did.
    steps_moved: Millis,
    fills_moved: Millis,
    /// The next look.
    look: Option<Millis>,
    /// Attempts without progress since something was last completed, and who was mute in each of them.
    pub stalls: u32,
    pub mute: BTreeSet<NodeId>,
    /// The fence under way is to find out who is stuck: nothing moved for so many milliseconds.
    pub asked: Option<u64>,
}

/// Something that others owe.
pub(super) struct Awaited {
    pub what: String,
    pub from: BTreeSet<NodeId>,
    since: Millis,
    pub patience: u64,
}

impl Watchdog {
    /// A step was ordered.
    pub(super) fn ordered(&mut self, now: Millis) {
        (self.begun, self.steps_moved) = (now, now);
    }

    /// Somebody reported something that a commit waits for.
    pub(super) fn moved(&mut self, now: Millis) {
        self.steps_moved = now;
    }

    /// A fill was ordered or is through.
    pub(super) fn filled(&mut self, now: Millis) {
        self.fills_moved = now;
    }

    /// A step was committed.
    pub(super) fn committed(&mut self, now: Millis) {
        self.recent.push_back(now.0 - self.begun.0);
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
        self.completed(now);
    }

    /// Something that was under way is through.
    pub(super) fn completed(&mut self, now: Millis) {
        self.steps_moved = now;
        self.forgive();
    }

    /// A fence found that a step is decided: whatever stood still, the job did not.
    pub(super) fn progressed(&mut self, now: Millis) {
        self.completed(now);
        self.asked = None;
    }

    /// Attempts are counted from here on.
    pub(super) fn forgive(&mut self) {
        self.stalls = 0;
        self.mute.clear();
    }

    /// Whether a look will come.
    pub(super) fn looks(&self) -> bool {
        self.look.is_some()
    }

    pub(super) fn stalled(&mut self, mute: BTreeSet<NodeId>, waited: u64) {
        self.mute = if self.stalls == 0 { mute } else { self.mute.intersection(&mute).copied().collect() };
        self.stalls += 1;
        self.asked = Some(waited);
    }
}

impl Engine {
    /// Looks at what is overdue, if it is time. Comes before every other deadline of a tick.
    pub(super) fn look(&mut self) {
        let Some(due) = self.watchdog.look.filter(|due| *due <= self.now) else { return };
        self.watchdog.look = None;
        self.allow(self.now.0 - due.0);
        if let Phase::Running(_) = self.phase {
            let overdue = |owed: &Awaited| owed.since.0 + owed.patience <= self.now.0;
            if let Some(owed) = [self.side_work(), self.fills()].into_iter().flatten().find(overdue) {
                self.stalled(owed);
            }
        }
    }

    /// A look comes as long as there is something to look at, and soon enough for what is looked at now: how late it comes is
    /// how late the coordinator is.
    pub(super) fn keep_looking(&mut self) {
        if self.rules.breaks(Breach::NoWatchdog) {
            return;
        }
        let timing = &self.setup.timing;
        let patience = match &self.phase {
            Phase::Absent { until: Some(_), .. } => timing.absence,
            Phase::Fencing(_) => timing.answer,
            Phase::Deploying(_) => timing.deploy,
            Phase::Running(_) => {
                match [self.side_work(), self.fills()].into_iter().flatten().map(|owed| owed.patience).min() {
                    Some(patience) => patience,
                    None => return,
                }
            }
            Phase::Queued
            | Phase::Gathering { .. }
            | Phase::Absent { until: None, .. }
            | Phase::FenceJournaled { .. }
            | Phase::DeployJournaled { .. }
            | Phase::Parked
            | Phase::Closing { .. }
            | Phase::Over => return,
        };
        let within = (patience / LOOKS).max(1);
        if self.watchdog.look.is_none_or(|look| look.0 > self.now.0 + within) {
            self.watchdog.look = Some(self.after(within));
        }
    }

    /// Everyone gets so much more time.
    fn allow(&mut self, late: u64) {
        let (now, dog) = (self.now, &mut self.watchdog);
        for since in [&mut dog.begun, &mut dog.steps_moved, &mut dog.fills_moved] {
            *since = Millis((since.0 + late).min(now.0));
        }
        match &mut self.phase {
            Phase::Absent { until: Some(until), .. } => until.0 += late,
            Phase::Fencing(fencing) => fencing.until.0 += late,
            Phase::Deploying(deploying) => deploying.until.0 += late,
            Phase::Queued
            | Phase::Gathering { .. }
            | Phase::Absent { until: None, .. }
            | Phase::FenceJournaled { .. }
            | Phase::DeployJournaled { .. }
            | Phase::Running(_)
            | Phase::Parked
            | Phase::Closing { .. }
            | Phase::Over => {}
        }
    }

    /// What the next commit, or the end, waits for. A disk of the coordinator's own is nobody's debt.
    fn side_work(&self) -> Option<Awaited> {
        let (Phase::Running(running), Some(standing)) = (&self.phase, &self.standing) else { return None };
        let (step, job) = (self.chain.head().step, &self.setup.job);
        let (mut what, mut from, mut patience) = (Vec::new(), BTreeSet::new(), 0);
        if let Persists::Begun(persisting) = &running.persists {
            what.push(format!("the state of step {step}, to be hashed or written"));
            from.extend(&persisting.waiting);
            patience = self.patience_for_state();
        }
        match &running.validation {
            Validation::Begun(parts) => {
                let last = StageIndex(standing.plan.stages.len() as u16 - 1);
                let missing = (0..standing.plan.replicas()).map(Replica).filter(|replica| !parts.contains_key(replica));
                what.push(format!("validation at step {step}"));
                from.extend(missing.map(|replica| standing.plan.node_of(Seat { stage: last, replica })));
                let batches = validation_windows(job).div_ceil(u64::from(job.spec.train.global_batch).max(1));
                patience = patience.max(self.patience(batches.max(1)));
            }
            Validation::Journaled { .. } => return None,
            Validation::Idle => {}
        }
        if let Some(in_flight) = self.in_flight {
            what.push(format!("step {in_flight}"));
            from.extend(running.required.keys().filter(|node| !running.reports.contains_key(node)));
            patience = patience.max(self.patience(1));
        }
        let since = self.watchdog.steps_moved;
        (!what.is_empty()).then(|| Awaited { what: what.join(" and "), from, since, patience })
    }

    /// Shadows that are being filled.
    fn fills(&self) -> Option<Awaited> {
        let standing = self.standing.as_ref()?;
        let filling = standing.shadows.iter().filter(|(_, shadow)| matches!(shadow, Shadow::Filling { .. }));
        let from: BTreeSet<NodeId> = filling.map(|((_, node), _)| *node).collect();
        let (since, patience) = (self.watchdog.fills_moved, self.patience_for_state());
        (!from.is_empty()).then(|| Awaited { what: "filling shadows".into(), from, since, patience })
    }

    /// How long may pass without progress in something that takes as long as so many steps.
    fn patience(&self, steps: u64) -> u64 {
        let timing = &self.setup.timing;
        let usual = match self.watchdog.recent.iter().max() {
            None => timing.first_step,
            Some(longest) => timing.progress.max(longest * timing.progress_steps),
        };
        self.doubled(usual.saturating_mul(steps))
    }

    fn patience_for_state(&self) -> u64 {
        self.patience(1).max(self.doubled(self.setup.timing.first_step)) + self.time_for_all_bytes()
    }

    /// How long the whole state, of every kind, may take through one node.
    fn time_for_all_bytes(&self) -> u64 {
        let table = &self.setup.table;
        let whole = |block: &BlockTable| table.state_bytes(block.id, Interval::new(0, block.len));
        table.blocks.iter().map(whole).sum::<u64>() / SLOWEST
    }

    /// How long members may take until the next of them is ready: it may have the whole state to fetch.
    pub(super) fn patience_to_deploy(&self) -> u64 {
        self.doubled(self.setup.timing.deploy) + self.time_for_all_bytes()
    }

    fn doubled(&self, patience: u64) -> u64 {
        patience.saturating_mul(1 << self.watchdog.stalls.min(MOST_STALLS))
    }
}
