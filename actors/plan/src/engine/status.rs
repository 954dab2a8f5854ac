//! Where a job stands, for people.

use shoal_exact::Arithmetic;

use super::Engine;
use super::face::State;
use super::phase::Phase;
use crate::draw;
use crate::ids::{Digest, Generation};
use crate::ledger::LedgerEntry;
use crate::loss_scale::LossScale;
use crate::protocol::LossSum;

/// Everything that `wire::api::JobStatus` shows and the engine knows.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// Where it stands.
    pub state: State,
    /// What its nodes compute, once that is fixed.
    pub arithmetic: Option<Arithmetic>,
    /// Committed steps.
    pub step: u64,
    /// The last step that was not skipped, and its mean training loss per token.
    pub loss: Option<(u64, f64)>,
    /// Mean validation loss per token of the last pass.
    pub val_loss: Option<f64>,
    /// What gradients of the next step are scaled by, if they are.
    pub loss_scale: Option<LossScale>,
    /// Current generation.
    pub generation: Generation,
    /// Copies of the state.
    pub redundancy: Redundancy,
    /// Committed steps given up.
    pub steps_lost: u64,
    /// Steps begun, aborted and begun again.
    pub steps_redone: u64,
    /// The plan in a line.
    pub plan: Option<String>,
    /// Step and digest of the state when it was last hashed.
    pub digest: Option<(u64, Digest)>,
    /// The last decision: why it failed, parked, or runs as it does.
    pub reason: Option<String>,
    /// Of a job that computes plain products: what that costs, and what to do about it.
    pub plain: Option<String>,
}

/// Copies of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redundancy {
    /// Full shadows of the worst-off interval.
    pub have: u32,
    /// Shadows asked for.
    pub want: u32,
    /// Whether that is all, will be all, or cannot be all.
    pub state: RedundancyState,
}

/// Copies of the state, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedundancyState {
    /// Every interval has all its shadows.
    Full,
    /// Shadows are being filled.
    Restoring,
    /// Too few nodes or too little memory for them.
    Short,
    /// The job failed or was cancelled: its nodes have let go of its state.
    Gone,
}

/// What is counted along the way. None of it decides anything about the state.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub steps_lost: u64,
    pub steps_redone: u64,
    /// Training started once.
    pub started: bool,
    /// Redundancy was full when last looked at.
    pub full: bool,
    /// The last step that a validation pass was done for.
    pub evaluated: u64,
    /// Since the last commit.
    pub stage_failures: u32,
    pub digest: Option<(u64, Digest)>,
    pub reason: Option<String>,
    loss: Option<(u64, f64)>,
    val_loss: Option<f64>,
}

impl Tally {
    pub(super) fn committed(&mut self, entry: &LedgerEntry) {
        if let Some(loss) = entry.mean_loss() {
            self.loss = Some((entry.step, loss));
        }
        self.stage_failures = 0;
    }

    pub(super) fn loss(&self) -> Option<(u64, f64)> {
        self.loss
    }

    pub(super) fn validated(&mut self, step: u64, loss: LossSum) {
        self.evaluated = step;
        self.val_loss = loss.mean();
    }

    pub(super) fn rolled_back(&mut self, from: u64) {
        self.steps_lost += from;
        (self.evaluated, self.loss, self.val_loss, self.digest) = (0, None, None, None);
    }
}

impl Engine {
    /// Where the job stands.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            state: self.state.clone(),
            arithmetic: self.arithmetic(),
            step: self.chain.head().step,
            loss: self.tally.loss,
            val_loss: self.tally.val_loss,
            loss_scale: self.chain.tip().loss_scale,
            generation: self.generation,
            redundancy: self.redundancy(),
            steps_lost: self.tally.steps_lost,
            steps_redone: self.tally.steps_redone,
            plan: self.plan().map(|plan| draw::line(plan)),
            digest: self.tally.digest,
            reason: self.reason(),
            plain: self.slowness(),
        }
    }

    /// The last decision, and what the operator has ordered since.
    fn reason(&self) -> Option<String> {
        let decided = self.tally.reason.clone();
        match (&self.state, self.orders.pause_at) {
            (State::Paused { step }, _) => Some(format!("the operator holds it at step {step}")),
            (State::Queued | State::Planning | State::Training | State::Recovering, Some(at)) => {
                let holds = format!("the operator holds it at step {at}");
                Some(decided.map_or_else(|| holds.clone(), |decided| format!("{decided}; {holds}")))
            }
            (State::Queued | State::Planning | State::Training | State::Recovering, None)
            | (State::Parked | State::Done | State::Failed { .. } | State::Cancelled, _) => decided,
        }
    }

    /// Copies of the state. Full only while all holders of the plan in force are known to be complete.
    #[must_use]
    pub fn redundancy(&self) -> Redundancy {
        let want = self.setup.job.spec.elastic.redundancy;
        if matches!(self.state, State::Failed { .. } | State::Cancelled) {
            return Redundancy { have: 0, want, state: RedundancyState::Gone };
        }
        let (full, planned) = match (&self.phase, &self.standing) {
            (phase, Some(s)) if matches!(phase, Phase::Running(_)) || self.state == State::Done => {
                (s.full_shadows(), s.planned_shadows())
            }
            (_, Some(s)) => (0, s.planned_shadows()),
            (_, None) => (0, want),
        };
        let have = full.min(want);
        let state = match (have >= want, planned >= want) {
            (true, _) => RedundancyState::Full,
            (false, true) => RedundancyState::Restoring,
            (false, false) => RedundancyState::Short,
        };
        Redundancy { have, want, state }
    }
}
