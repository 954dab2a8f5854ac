//! The job's state machine: `handle(now, event) -> commands`. The coordinator actor and the simulator both run it.

pub mod face;
pub mod happening;
pub mod status;

use std::sync::Arc;

pub use face::{Command, Event, LossCause, Millis, Offer, Order, OrderAnswer, Record, State};
pub use happening::Happening;
pub use status::{Redundancy, RedundancyState, Status};

use crate::blocks::ModelTable;
use crate::ids::{Generation, NodeId};
use crate::job::Job;
use crate::layout::Plan;

/// What an engine starts from.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The job.
    pub job: Arc<Job>,
    /// Its block table.
    pub table: Arc<ModelTable>,
    /// This start of the coordinator. The engine goes beyond any that its records or a holder report.
    pub incarnation: u32,
    /// How long it waits for what.
    pub timing: Timing,
}

/// How long the engine waits for what, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// After a node joined, for others that join at the same time.
    pub gather: u64,
    /// From a commit to the flush of its record, at most.
    pub flush: u64,
    /// After a coordinator restart, or when only absent nodes hold an interval, for nodes to come back.
    pub absence: u64,
}

impl Default for Timing {
    fn default() -> Self {
        Self { gather: 30, flush: 500, absence: 10_000 }
    }
}

/// The state machine of one job.
#[derive(Debug)]
pub struct Engine {
    setup: Setup,
    state: State,
    plan: Option<Arc<Plan>>,
    generation: Generation,
}

impl Engine {
    /// A job that was just submitted: queued until a node joins. The caller journals nothing of its own into the records.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        Self { setup, state: State::Queued, plan: None, generation: Generation::default() }
    }

    /// The job as its journal left it. The caller then sends [`Event::Tick`] once, and [`Event::Joined`] for every node
    /// that is or comes back, under the id it had.
    #[must_use]
    pub fn restore(setup: Setup, records: impl IntoIterator<Item = Record>) -> Self {
        let _ = records.into_iter();
        Self::new(setup)
    }

    /// Takes one fact in; says what to do, in order.
    pub fn handle(&mut self, now: Millis, event: Event) -> Vec<Command> {
        let _ = (&self.setup, now, event);
        Vec::new()
    }

    /// Where the job stands.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            state: self.state.clone(),
            step: 0,
            loss: None,
            val_loss: None,
            generation: self.generation,
            redundancy: Redundancy { have: 0, want: 0, state: RedundancyState::Short },
            steps_lost: 0,
            steps_redone: 0,
            tokens_per_second: None,
            plan: None,
            reason: None,
        }
    }

    /// The plan in force, if any.
    #[must_use]
    pub fn plan(&self) -> Option<&Arc<Plan>> {
        self.plan.as_ref()
    }

    /// Nodes that take part, or would.
    #[must_use]
    pub fn members(&self) -> Vec<NodeId> {
        Vec::new()
    }
}
