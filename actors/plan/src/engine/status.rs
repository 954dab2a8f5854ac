//! Where a job stands, for people.

use super::State;
use crate::ids::Generation;

/// Everything that `wire::api::JobStatus` shows and the engine knows.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// Where it stands.
    pub state: State,
    /// Committed steps.
    pub step: u64,
    /// Mean training loss per token of the last committed step.
    pub loss: Option<f64>,
    /// Mean validation loss per token of the last pass.
    pub val_loss: Option<f64>,
    /// Current generation.
    pub generation: Generation,
    /// Copies of the state.
    pub redundancy: Redundancy,
    /// Committed steps given up.
    pub steps_lost: u64,
    /// Steps begun, aborted and begun again.
    pub steps_redone: u64,
    /// Over the last committed steps.
    pub tokens_per_second: Option<f64>,
    /// The plan in a line.
    pub plan: Option<String>,
    /// Why it failed, parked or warns.
    pub reason: Option<String>,
}

/// Copies of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redundancy {
    /// Counted shadows of the worst-off interval.
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
}
