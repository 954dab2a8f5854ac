//! The coordinator: the engine, its journal and its disk, and the links to the nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::actor::Life;
use super::brief::{brief, brief_from, brief_to};
use super::faults::Point;
use super::oracle::Oracle;
use super::world::{Coming, MILLI, World, offer};
use crate::blocks::ModelTable;
use crate::engine::{
    Command, Engine, Event, Happening, LossCause, Millis, Order, OrderAnswer, Record, Setup, State, Timing,
};
use crate::holder::HolderEvent;
use crate::ids::{Generation, NodeId};
use crate::job::Job;
use crate::ledger::Version;
use crate::protocol::{FromNode, Inventory, PersistMode, ToNode};
use crate::rules::Rules;

/// The coordinator process and what survives it.
#[derive(Debug)]
pub(super) struct Coordinator {
    pub engine: Option<Engine>,
    setup: Setup,
    rules: Rules,
    pub journal: Vec<Record>,
    /// Records that survive a crash.
    on_disk: usize,
    /// Starts of the process. Events of older starts reach nobody.
    pub start: u32,
    /// Generations that anyone was told of, with the start that told.
    pub begun: BTreeMap<Generation, u32>,
    pub attempts: Vec<Generation>,
    next_request: u64,
}

impl Coordinator {
    pub(super) fn new(job: Arc<Job>, table: Arc<ModelTable>, flush: u64, rules: Rules) -> Self {
        let waits = Timing { gather: 2, flush, absence: 120, answer: 200, deploy: 600, ..Timing::default() };
        let timing = Timing { progress: 100, progress_steps: 10, first_step: 300, ..waits };
        let setup = Setup { job, table, incarnation: 1, timing };
        Self {
            engine: Some(Engine::with_rules(setup.clone(), rules)),
            setup,
            rules,
            journal: Vec::new(),
            on_disk: 0,
            start: 1,
            begun: BTreeMap::new(),
            attempts: Vec::new(),
            next_request: 1,
        }
    }

    pub(super) fn step(&self) -> u64 {
        self.engine.as_ref().map_or(0, |engine| engine.version().step)
    }

    pub(super) fn state(&self) -> Option<State> {
        self.engine.as_ref().map(|engine| engine.status().state)
    }

    pub(super) fn is_over(&self) -> bool {
        self.engine.as_ref().is_some_and(Engine::has_released)
    }

    pub(super) fn describe(&self) -> String {
        self.engine.as_ref().map_or("the coordinator is down".into(), |engine| format!("{:?}", engine.status()))
    }
}

impl World {
    /// Gives the engine one fact, carries out what it says and derives the invariants.
    pub(super) fn tell_engine(&mut self, event: Event) {
        let Some(engine) = &mut self.coordinator.engine else { return };
        self.outcome.events += 1;
        let commands = engine.handle(Millis(self.now / MILLI), event);
        let checked = engine.check();
        for command in commands {
            self.obey_engine(command);
        }
        if let Err(violation) = checked {
            self.accuse(Oracle::Invariant, violation.to_string());
        }
        self.see_redundancy();
    }

    fn obey_engine(&mut self, command: Command) {
        match command {
            Command::Send { node, message } => self.send_to_node(node, message),
            Command::Journal(record) => self.journal(record),
            Command::Flush { mark } => {
                let delay = self.rng.within(100, 2500);
                let (length, start) = (self.coordinator.journal.len(), self.coordinator.start);
                self.queue.push(self.now + delay, Coming::OnDisk { mark, length, start });
            }
            Command::Answer { answer, .. } => self.judge_answer(&answer),
            // Its actors live on here: what a member that was given up says later has to change nothing.
            Command::Dismiss { node } => self.trace(|| format!("{node} is told to end")),
            Command::WakeAt(at) => {
                let delay = (at.0 * MILLI).saturating_sub(self.now);
                self.fact(delay, Event::Tick);
            }
        }
    }

    fn journal(&mut self, record: Record) {
        self.trace(|| format!("journal {}", brief(&record)));
        let node = self.up().first().copied().unwrap_or(NodeId(0));
        match &record {
            Record::Committed(entry) => {
                let entry = entry.clone();
                self.judge_record(&entry);
                let node = self.some_node();
                self.reached(Point::CommitDecided, node);
            }
            Record::Fenced { generation, .. } => {
                self.coordinator.attempts.push(*generation);
                self.reached(Point::FenceJournaled, node);
            }
            Record::Planned { plan, .. } => {
                // Whoever leaves on request may take the promise along.
                let holders: Vec<NodeId> = plan.pieces.iter().flat_map(|piece| piece.holders()).collect();
                for gone in self.leaving.iter().filter(|node| !holders.contains(node)) {
                    self.judge.harm(*gone);
                }
                self.reached(Point::PlanJournaled, node);
            }
            Record::RolledBack { from, to } => self.judge_rollback(*from, *to),
            Record::Happened(Happening::NodeLost { node, cause }) => {
                self.judge.node_lost(*node, *cause);
                self.judge_eviction(*node, *cause);
            }
            Record::Happened(Happening::NodeJoined { node }) => self.judge.node_back(*node),
            Record::Restored { generation, piece, node } => self.judge_restored(*generation, *piece, *node),
            Record::Happened(Happening::Stalled { what, waited }) => self.judge_stall(what, *waited),
            Record::Evaluated { .. } | Record::Ordered(_) | Record::State(_) | Record::Happened(_) => {}
        }
        self.coordinator.journal.push(record);
    }

    fn some_node(&mut self) -> NodeId {
        let up = self.up();
        self.rng.pick(&up).unwrap_or(NodeId(0))
    }

    pub(super) fn on_disk(&mut self, mark: u64, length: usize, start: u32) {
        if start == self.coordinator.start && self.coordinator.engine.is_some() {
            self.coordinator.on_disk = self.coordinator.on_disk.max(length);
            self.tell_engine(Event::Flushed { mark });
        }
    }

    /// The process dies; what was flushed survives, and perhaps a little more.
    pub(super) fn coordinator_dies(&mut self) {
        if self.coordinator.engine.take().is_none() {
            return;
        }
        self.trace(|| "the coordinator dies".into());
        let (disk, written) = (self.coordinator.on_disk as u64, self.coordinator.journal.len() as u64);
        let kept = if self.rng.one_in(2) { disk } else { self.rng.within(disk, written + 1) };
        self.coordinator.journal.truncate(kept as usize);
        self.coordinator.on_disk = kept as usize;
        let committed = |record: &Record| match record {
            Record::Committed(entry) => Some(entry.step),
            _ => None,
        };
        let last = self.coordinator.journal.iter().rev().find_map(committed).unwrap_or(0);
        self.judge.journal_ends(last);
        self.coordinator.start += 1;
        for actor in self.nodes.values_mut() {
            actor.known = false;
            actor.link += 1;
        }
        let back = self.now + self.rng.within(500, 15 * MILLI);
        self.queue.push(back, Coming::CoordinatorUp);
    }

    pub(super) fn coordinator_up(&mut self) {
        if self.coordinator.engine.is_some() {
            return;
        }
        // Now and then the count of starts is lost with a file: the records have to make up for it.
        let lost_count = self.rng.one_in(4);
        self.coordinator.setup.incarnation = if lost_count { 1 } else { self.coordinator.start };
        let records = self.coordinator.journal.clone();
        self.trace(|| format!("the coordinator is back with {} records", records.len()));
        let engine = Engine::restore_with_rules(self.coordinator.setup.clone(), records, self.coordinator.rules);
        self.coordinator.engine = Some(engine);
        self.tell_engine(Event::Tick);
        for node in self.up() {
            let slow = self.rng.one_in(40);
            let delay = if slow { self.rng.within(100 * MILLI, 200 * MILLI) } else { self.rng.within(100, 8 * MILLI) };
            self.queue.push(self.now + delay, Coming::Rejoin(node));
        }
    }

    /// A running process tells the coordinator that it is there.
    pub(super) fn rejoin(&mut self, node: NodeId) {
        if self.coordinator.engine.is_none() {
            return;
        }
        let Some(actor) = self.nodes.get_mut(&node) else { return };
        if !matches!(actor.life, Life::Up) || actor.known {
            return;
        }
        actor.known = true;
        actor.link += 1;
        self.judge.node_back(node);
        self.trace(|| format!("{node} is here"));
        let offer = offer(self.computation.arithmetic_of(node));
        self.tell_engine(Event::Joined { node, offer });
    }

    fn send_to_node(&mut self, node: NodeId, message: ToNode) {
        if let ToNode::Fence { generation, .. } = &message {
            let start = self.coordinator.start;
            if *self.coordinator.begun.entry(*generation).or_insert(start) != start {
                self.accuse(Oracle::Generation, format!("two coordinators say that generation {generation} begins"));
            }
        }
        let delay = self.latency();
        let Some(actor) = self.nodes.get_mut(&node) else { return };
        let at = (self.now + delay).max(actor.last_in + 1);
        actor.last_in = at;
        let link = actor.link;
        self.trace(|| format!("engine -> {node}: {}", brief_to(&message)));
        if self.rng.one_in(150) {
            let again = at + self.rng.within(1, 4000);
            self.queue.push(again, Coming::ToNode { node, message: message.clone(), link });
        }
        self.queue.push(at, Coming::ToNode { node, message, link });
    }

    pub(super) fn send_to_engine(&mut self, node: NodeId, message: FromNode) {
        let delay = self.latency();
        let now = self.now;
        let Some(actor) = self.nodes.get_mut(&node) else { return };
        let message = match message {
            FromNode::Inventory(inventory) => {
                FromNode::Inventory(Inventory { in_hand: actor.in_hand(now), ..inventory })
            }
            other => other,
        };
        let at = (self.now + delay).max(actor.last_out + 1);
        actor.last_out = at;
        let link = actor.link;
        actor.hurt &= !matches!(message, FromNode::Inventory(_));
        let point = match &message {
            FromNode::Inventory(_) => Some(Point::InventorySent),
            FromNode::Ready { .. } => Some(Point::ReadySent),
            FromNode::Prepared(_) => Some(Point::PreparedSent),
            FromNode::Evaluated { .. } => Some(Point::EvaluatedSent),
            FromNode::Persisted { .. } => Some(Point::PersistedSent),
            FromNode::Filled { .. } | FromNode::Trouble { .. } => None,
        };
        self.trace(|| format!("{node} -> engine: {}", brief_from(&message)));
        if self.rng.one_in(150) {
            let again = at + self.rng.within(1, 4000);
            self.queue.push(again, Coming::FromNode { node, message: message.clone(), link });
        }
        self.queue.push(at, Coming::FromNode { node, message, link });
        if let Some(point) = point {
            self.reached(point, node);
        }
    }

    pub(super) fn control_to_node(&mut self, node: NodeId, message: ToNode, link: u64) {
        let fate = self.rng.within(0, 10);
        let head = self.coordinator.engine.as_ref().map(Engine::version);
        let late = self.now + self.rng.within(1, 25 * MILLI);
        let Some(actor) = self.nodes.get_mut(&node) else { return };
        match &mut actor.life {
            Life::Up => {}
            Life::Stopped(waiting) => {
                waiting.push(Coming::ToNode { node, message, link });
                return;
            }
            Life::CutOff | Life::Dead { .. } => return,
        }
        if link < actor.link && fate < 7 {
            // The connection it was on is gone: lost, or late.
            if fate < 4 {
                self.queue.push(late, Coming::ToNode { node, message, link: u64::MAX });
            }
            return;
        }
        if actor.forged && matches!(message, ToNode::Fence { .. }) {
            actor.forged = false;
            if let Some(head) = head.filter(|head| head.step > 0) {
                let chain = crate::ids::Digest([0xF0; 32]);
                actor.holder.forge(Version { step: head.step, chain });
                self.judge.holding_lost();
            }
        }
        let point = match &message {
            ToNode::Fence { .. } => Some(Point::FenceArrived),
            ToNode::Deploy(_) => Some(Point::DeployArrived),
            ToNode::Start { .. } => Some(Point::StartArrived),
            ToNode::Commit { .. } => Some(Point::CommitArrived),
            ToNode::Release { .. } => None,
        };
        self.hold(node, HolderEvent::Engine(message));
        if let Some(point) = point {
            self.reached(point, node);
        }
    }

    pub(super) fn control_from_node(&mut self, node: NodeId, message: FromNode, link: u64) {
        let fate = self.rng.within(0, 10);
        let late = self.now + self.rng.within(1, 25 * MILLI);
        let Some(actor) = self.nodes.get(&node) else { return };
        match actor.life {
            Life::CutOff => return,
            Life::Dead { late, .. } if self.now > late => return,
            Life::Up | Life::Stopped(_) | Life::Dead { .. } => {}
        }
        if link < actor.link && fate < 7 {
            if fate < 4 {
                self.queue.push(late, Coming::FromNode { node, message, link: u64::MAX });
            }
            return;
        }
        if actor.known || matches!(actor.life, Life::Dead { .. }) {
            self.tell_engine(Event::From { node, message });
        }
    }

    /// The operator pauses, resumes, and asks for digests now and then.
    pub(super) fn operator(&mut self) {
        let request = self.coordinator.next_request;
        self.coordinator.next_request += 1;
        if self.coordinator.state() == Some(State::Parked) {
            self.end_the_hung();
        }
        let paused = matches!(self.coordinator.state(), Some(State::Paused { .. } | State::Parked));
        let order = match self.rng.within(0, 6) {
            _ if paused => Order::Resume,
            0 => Order::Pause { at: None },
            1 => Order::Pause { at: Some(self.coordinator.step() + self.rng.within(0, 4)) },
            2 => Order::Persist { at: None, mode: PersistMode::Write },
            3 => Order::Persist { at: Some(self.coordinator.step() + self.rng.within(1, 3)), mode: PersistMode::Hash },
            4 | 5 => Order::Persist { at: None, mode: PersistMode::Hash },
            _ => Order::Resume,
        };
        self.trace(|| format!("operator: {order:?}"));
        self.tell_engine(Event::Operator { request, order });
        let next = self.rng.within(8, 40) * MILLI;
        self.queue.push(self.now + next, Coming::Operator);
    }

    fn judge_answer(&mut self, answer: &OrderAnswer) {
        match answer {
            OrderAnswer::Persisted { step, digest, .. } => self.judge_digest(*step, *digest),
            OrderAnswer::Accepted | OrderAnswer::Refused(_) => {}
        }
    }

    /// A cause for the engine to hear of a node that the coordinator lost touch with.
    pub(super) fn taken_for_lost(&mut self, node: NodeId) {
        let Some(actor) = self.nodes.get_mut(&node) else { return };
        match actor.life {
            Life::Stopped(_) | Life::CutOff => {
                if actor.known {
                    actor.known = false;
                    actor.link += 1;
                    self.trace(|| format!("{node} is taken for lost"));
                    self.tell_engine(Event::Lost { node, cause: LossCause::Silent });
                }
            }
            Life::Up | Life::Dead { .. } => {}
        }
    }
}
