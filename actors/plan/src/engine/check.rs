//! Invariants of the engine, re-derived from what it keeps.
//!
//! ```text
//! EN-1 (no going back)   the plan in force is not of a later generation than the one in force
//! EN-2 (chain)           kept records are linked, none is beyond the last step, and no more is durable than written
//! EN-3 (members)         while training, every node of the plan is here
//! EN-4 (owners)          while training, every piece's owner counts
//! EN-5 (reports)         only nodes that owe one have reported, and only for the step in flight
//! EN-6 (one in flight)   the step in flight is the one after the last committed, and not beyond the last
//! EN-7 (shadows)         only shadows of the plan are on their way to be one
//! EN-8 (over)            a job that is over waits for nothing but its last flush
//! EN-9 (side work)       no step is committed over an open validation pass, and only one is open
//! EN-10 (marks)          open flush marks ascend, and so does what they make durable
//! EN-11 (watch)          while a step is in flight, somebody looks whether it moves
//! EN-12 (arithmetic)     the plan in force has that of the chain's beginning, and so has every member since the first plan
//! ```

use super::Engine;
use super::phase::{Phase, Running, Validation};
use crate::ledger::Head;
use crate::rules::Breach;

/// A broken invariant, named as in the module's table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {found}")]
pub struct Violation {
    /// E.g. `EN-2 (chain)`.
    pub name: &'static str,
    /// What breaks it.
    pub found: String,
}

fn broken(name: &'static str, found: impl Into<String>) -> Result<(), Violation> {
    Err(Violation { name, found: found.into() })
}

impl Engine {
    /// Re-derives every invariant.
    ///
    /// # Errors
    /// The first that does not hold.
    pub fn check(&self) -> Result<(), Violation> {
        let head = self.chain.head();
        if let Some(standing) = &self.standing {
            if standing.generation > self.generation {
                return broken("EN-1 (no going back)", format!("{} after {}", self.generation, standing.generation));
            }
            let is_shadow = |(piece, node): &(crate::ids::PieceId, crate::ids::NodeId)| {
                standing.plan.piece(*piece).shadows.contains(node)
            };
            if !standing.shadows.keys().all(is_shadow) {
                return broken("EN-7 (shadows)", format!("{:?}", standing.shadows));
            }
        }
        if let Some(arithmetic) = self.arithmetic() {
            let other = self.nodes.here().iter().find(|(_, offer)| offer.arithmetic != arithmetic);
            if let Some((node, offer)) = other.filter(|_| !self.state.is_over()) {
                return broken(
                    "EN-12 (arithmetic)",
                    format!("{node} computes {}, the job {arithmetic}", offer.arithmetic),
                );
            }
            let genesis = Head::genesis(&self.setup.job, arithmetic).version;
            if self.chain.genesis() != genesis {
                return broken(
                    "EN-12 (arithmetic)",
                    format!("{:?} is not the beginning of {arithmetic}", self.chain.genesis()),
                );
            }
        }
        if !self.chain.is_sound() || head.step > self.steps() {
            return broken("EN-2 (chain)", format!("{:?}", self.chain));
        }
        if self.in_flight.is_some_and(|step| step != head.step + 1 || step > self.steps()) {
            return broken("EN-6 (one in flight)", format!("{:?} after {}", self.in_flight, head.step));
        }
        let ascending = |pair: (&(u64, u64), &(u64, u64))| pair.0.0 < pair.1.0 && pair.0.1 <= pair.1.1;
        if !self.flush.open.iter().zip(self.flush.open.iter().skip(1)).all(ascending) {
            return broken("EN-10 (marks)", format!("{:?}", self.flush.open));
        }
        let ending = matches!(self.phase, Phase::Closing { .. } | Phase::Over);
        if self.state.is_over() != ending {
            return broken("EN-8 (over)", format!("{:?} in {:?}", self.state, self.phase));
        }
        self.phase.running().map_or(Ok(()), |running| self.check_running(running))
    }

    fn check_running(&self, running: &Running) -> Result<(), Violation> {
        let step = self.chain.head().step + 1;
        if let Some(node) = running.audience.iter().find(|node| !self.nodes.is_here(**node)) {
            return broken("EN-3 (members)", format!("{node} is not here"));
        }
        if let Some(standing) = &self.standing {
            for (id, piece) in standing.plan.pieces() {
                if !running.required.get(&piece.owner).is_some_and(|pieces| pieces.contains(&id)) {
                    return broken("EN-4 (owners)", format!("{} of {id}", piece.owner));
                }
            }
        }
        for (node, report) in &running.reports {
            if report.step != step || !running.required.contains_key(node) {
                return broken("EN-5 (reports)", format!("{node} for step {}, not {step}", report.step));
            }
        }
        let watched = self.watchdog.looks() || self.rules.breaks(Breach::NoWatchdog);
        if self.in_flight.is_some() && !matches!(running.validation, Validation::Journaled { .. }) && !watched {
            return broken("EN-11 (watch)", format!("step {step}"));
        }
        if matches!(running.validation, Validation::Begun(_)) && !self.evaluation_due(step - 1) {
            return broken("EN-9 (side work)", format!("validation of step {}", step - 1));
        }
        Ok(())
    }
}
