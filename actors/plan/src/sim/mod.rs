//! A cluster in virtual time: the real engine and real holders, with links, disks and processes that fail.
//!
//! [`run`] plays one history from its seed: a job of twenty-odd steps on four to eight nodes, with faults struck at named
//! points of the protocol ([`Fault`], [`Point`]). Tensors are hashes (`model`), so the oracle knows the only right content of
//! every slot at every version, and the only right records. After each event the engine's invariants are derived anew.
//!
//! What the oracle demands is in [`Oracle`].

mod actor;
mod brief;
mod bulk;
mod coordinator;
mod faults;
mod hang;
mod jobs;
mod model;
mod moves;
mod oracle;
mod queue;
mod rng;
mod seats;
mod strike;
#[cfg(test)]
mod tests;
mod world;

pub use faults::{Fault, Point};
pub use oracle::{Finding, Oracle};

use std::collections::BTreeMap;

use crate::rules::Rules;

/// What came of one history.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How often each fault struck at each point.
    pub hits: BTreeMap<(Fault, Point), u32>,
    /// What the oracle found wrong, if anything.
    pub finding: Option<Finding>,
    /// Nodes at the start.
    pub nodes: usize,
    /// Steps of the job.
    pub steps: u64,
    /// Faults struck.
    pub faults: u32,
    /// Steps that the engine said were lost.
    pub steps_lost: u64,
    /// Steps that the engine said were redone.
    pub steps_redone: u64,
    /// Events handled by the engine.
    pub events: u64,
    /// What happened, one line each; empty unless asked for.
    pub trace: Vec<String>,
}

/// Plays one history.
#[must_use]
pub fn run(seed: u64, rules: Rules) -> Outcome {
    world::World::new(seed, rules, false).play()
}

/// Plays one history and tells what happened.
#[must_use]
pub fn run_traced(seed: u64, rules: Rules) -> Outcome {
    world::World::new(seed, rules, true).play()
}
