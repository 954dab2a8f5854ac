//! The job's state machine: `handle(now, event) -> commands`. The coordinator actor and the simulator both run it.
//!
//! ```text
//! Queued -> Gathering -> fence -> settle -> deploy -> Running --(commit)--> Running ... -> Closing -> Over
//!                          ^         |                   |
//!                          |         +-> Absent, Parked  |
//!                          +----- loss, reset, trouble --+
//! ```
//!
//! [`check`](Engine::check) re-derives the invariants named there.

mod alike;
mod chain;
mod check;
pub mod face;
mod fencing;
pub mod happening;
mod orders;
mod passes;
mod phase;
mod presence;
mod restore;
mod settling;
mod skips;
mod stall;
pub mod status;
mod training;
mod watchdog;

use std::collections::VecDeque;
use std::sync::Arc;

pub use check::Violation;
pub use face::{Command, Event, LossCause, Millis, Offer, Order, OrderAnswer, Record, Setup, State, Timing};
pub use happening::Happening;
pub use shoal_exact::Arithmetic;
pub use status::{Redundancy, RedundancyState, Status};

use crate::batch::validation_windows;
use crate::ids::{Generation, NodeId};
use crate::layout::Plan;
use crate::ledger::{Head, LedgerEntry, Version};
use crate::membership::Nodes;
use crate::protocol::ToNode;
use crate::rules::Rules;

use chain::Chain;
use orders::Orders;
use phase::{Durable, Overdue, Phase, Standing};
use skips::Found;
use status::Tally;
use watchdog::Watchdog;

/// The state machine of one job.
#[derive(Debug)]
pub struct Engine {
    setup: Setup,
    rules: Rules,
    /// Time of the event in hand.
    now: Millis,
    /// Commands of the event in hand.
    out: Vec<Command>,
    chain: Chain,
    nodes: Nodes,
    generation: Generation,
    /// The last plan journaled, with what its shadows lack.
    standing: Option<Standing>,
    phase: Phase,
    state: State,
    orders: Orders,
    tally: Tally,
    /// The step that seats were told to compute and that is not committed.
    in_flight: Option<u64>,
    /// Holders that last became a plan of an older generation than this have state from before a rollback.
    rolled_back: Option<Generation>,
    /// Absent holders were waited for since training last started.
    waited: bool,
    /// Somebody joined or wishes to leave: the next boundary between two steps has to think about it.
    reconsider: bool,
    flush: Flush,
    watchdog: Watchdog,
}

/// What is written and not yet durable.
#[derive(Clone, Debug, Default)]
struct Flush {
    last_mark: u64,
    /// Marks not answered, with the committed step each makes durable.
    open: VecDeque<(u64, u64)>,
    /// A record waits for a flush until then.
    due: Option<Millis>,
}

impl Engine {
    /// A job that was just submitted: queued until a node joins.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        Self::with_rules(setup, Rules::SOUND)
    }

    /// An engine for which not every rule holds: for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn with_rules(setup: Setup, rules: Rules) -> Self {
        // Until the first plan says who computes.
        let genesis = Head::genesis(&setup.job, Arithmetic::Fused);
        Self {
            generation: Generation { incarnation: setup.incarnation, number: 0 },
            setup,
            rules,
            now: Millis(0),
            out: Vec::new(),
            chain: Chain::new(genesis),
            nodes: Nodes::default(),
            standing: None,
            phase: Phase::Queued,
            state: State::Queued,
            orders: Orders::default(),
            tally: Tally::default(),
            in_flight: None,
            rolled_back: None,
            waited: false,
            reconsider: false,
            flush: Flush::default(),
            watchdog: Watchdog::default(),
        }
    }

    /// Takes one fact in; says what to do, in order. What is journaled before a send in the same answer need not be
    /// durable before it is sent; where it must be, the engine asks for a flush and waits for its mark.
    pub fn handle(&mut self, now: Millis, event: Event) -> Vec<Command> {
        self.now = now;
        match event {
            Event::Joined { node, offer } => self.joined(node, offer),
            Event::Lost { node, cause } => self.lost(node, cause),
            Event::LinkReset { node } => self.link_reset(node),
            Event::Draining { node } => self.draining(node),
            Event::From { node, message } => {
                if self.nodes.is_here(node) {
                    self.said(node, message);
                } else {
                    self.speaks_again(node);
                }
            }
            Event::Operator { request, order } => self.ordered(request, order),
            Event::Flushed { mark } => self.flushed(mark),
            Event::Tick => self.tick(),
        }
        self.keep_looking();
        std::mem::take(&mut self.out)
    }

    /// The plan in force, if any.
    #[must_use]
    pub fn plan(&self) -> Option<&Arc<Plan>> {
        self.standing.as_ref().map(|standing| &standing.plan)
    }

    /// The version before the first step.
    #[must_use]
    pub fn genesis(&self) -> Version {
        self.chain.genesis()
    }

    /// The generation in force.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// The last committed version.
    #[must_use]
    pub fn version(&self) -> Version {
        self.chain.head()
    }

    /// Whether the job is over, durably, and its nodes are released.
    #[must_use]
    pub fn has_released(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    /// Nodes that take part, or would.
    #[must_use]
    pub fn members(&self) -> Vec<NodeId> {
        self.nodes.here().keys().copied().collect()
    }

    /// Whether a living node that is no member should be one, if the job is to go on with whoever there is.
    #[must_use]
    pub fn may_try(&self, node: NodeId) -> bool {
        self.nodes.may_try(node)
    }

    fn steps(&self) -> u64 {
        self.setup.job.spec.train.steps
    }

    /// Whether a validation pass belongs to a step and is not done.
    fn evaluation_due(&self, step: u64) -> bool {
        let Some(evaluate) = self.setup.job.spec.train.evaluate else { return false };
        let on_step = step > 0 && (step.is_multiple_of(evaluate.every) || step == self.steps());
        on_step && self.tally.evaluated != step && validation_windows(&self.setup.job) > 0
    }

    fn tick(&mut self) {
        if self.flush.due.is_some_and(|due| due <= self.now) {
            self.flush();
        }
        self.look();
        match self.phase.overdue(self.now) {
            Some(Overdue::Members) => self.fence("members are gathered"),
            Some(Overdue::Return) => self.absence_over(),
            Some(Overdue::Inventories) => self.evict_the_mute(),
            Some(Overdue::Ready) => self.deploy_overdue(),
            Some(Overdue::Clock) => self.wait_for_the_absent(),
            None => {}
        }
    }

    fn flushed(&mut self, mark: u64) {
        while let Some((open, step)) = self.flush.open.front().copied() {
            if open > mark {
                break;
            }
            self.chain.set_flushed(step);
            self.flush.open.pop_front();
        }
        self.answer_durable_orders(mark);
        match self.phase.once_durable(mark) {
            Some(Durable::Fence) => self.send_fence(),
            Some(Durable::Plan) => self.send_deploy(),
            Some(Durable::End) => self.release_all(),
            None => {}
        }
        if self.phase.running().is_some() {
            self.validation_durable(mark);
        }
    }

    fn journal(&mut self, record: Record) {
        self.out.push(Command::Journal(record));
    }

    /// The ledger grows by a record.
    fn append(&mut self, entry: LedgerEntry, found: &Found) {
        self.journal(Record::Committed(entry.clone()));
        self.note_skip(&entry, found);
        self.tally.committed(&entry);
        self.chain.push(entry, self.planned_generation());
    }

    fn note(&mut self, happening: Happening) {
        self.journal(Record::Happened(happening));
    }

    fn decided(&mut self, reason: impl Into<String>) {
        let reason = reason.into();
        self.tally.reason = Some(reason.clone());
        self.note(Happening::Decided { reason });
    }

    fn send(&mut self, node: NodeId, message: ToNode) {
        self.out.push(Command::Send { node, message });
    }

    /// Asks for everything journaled so far to be made durable.
    fn flush(&mut self) -> u64 {
        self.flush.last_mark += 1;
        self.flush.due = None;
        let mark = self.flush.last_mark;
        self.flush.open.push_back((mark, self.chain.head().step));
        self.out.push(Command::Flush { mark });
        mark
    }

    /// A record was written that has to be durable soon.
    fn flush_soon(&mut self) {
        if self.flush.due.is_none() {
            self.flush.due = Some(self.after(self.setup.timing.flush));
        }
    }

    /// A time from now; a tick will come then.
    fn after(&mut self, millis: u64) -> Millis {
        let at = Millis(self.now.0 + millis);
        self.out.push(Command::WakeAt(at));
        at
    }

    fn show(&mut self, state: State) {
        if self.state != state {
            self.state = state.clone();
            self.journal(Record::State(state));
        }
    }

    /// Ends the job; nodes are released once that is durable.
    fn close(&mut self, state: State, reason: String) {
        self.refuse_open_persists(&reason);
        self.tally.reason = Some(reason.clone());
        self.note(Happening::Ended { reason });
        self.show(state);
        let mark = self.flush();
        self.phase = Phase::Closing { mark };
    }

    fn fail(&mut self, reason: String) {
        self.close(State::Failed { reason: reason.clone() }, reason);
    }

    fn release_all(&mut self) {
        self.phase = Phase::Over;
        for node in self.members() {
            self.send(node, ToNode::Release { generation: self.generation });
        }
    }
}
