//! The cluster and its clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use shoal_exact::Arithmetic;

use super::Outcome;
use super::actor::{Actor, Life, Task};
use super::bulk::Bulk;
use super::coordinator::Coordinator;
use super::faults::{Fault, Help, Planned, Point};
use super::jobs;
use super::model::{Computation, References};
use super::oracle::Judge;
use super::queue::Queue;
use super::rng::Rng;
use crate::blocks::ModelTable;
use crate::engine::{Event, LossCause, Offer};
use crate::ids::NodeId;
use crate::protocol::{FromNode, ToNode};
use crate::rules::Rules;

/// Microseconds.
pub(super) const MILLI: u64 = 1000;
/// After the last fault, the job has to end within this.
const PATIENCE: u64 = 20_000 * MILLI;

/// And within so many events.
const MOST_EVENTS: u64 = 200_000;

/// One thing that will happen.
#[derive(Clone, Debug)]
pub(super) enum Coming {
    /// A control message to a node, over this connection.
    ToNode { node: NodeId, message: ToNode, link: u64 },
    /// A control message to the coordinator.
    FromNode { node: NodeId, message: FromNode, link: u64 },
    /// A transfer.
    Bulk(Bulk),
    /// A node's own work is through.
    Task(NodeId, Task),
    /// A fact reaches the coordinator of this start.
    Fact(Event, u32),
    /// So much of the journal is on disk.
    OnDisk { mark: u64, length: usize, start: u32 },
    /// The coordinator is back.
    CoordinatorUp,
    /// A stopped or cut-off node goes on.
    GoOn(NodeId),
    /// A hung device goes on.
    DeviceGoesOn(NodeId),
    /// A stopped or cut-off node is taken for lost, if it still is.
    TakenForLost(NodeId),
    /// A node comes back under its id.
    Rejoin(NodeId),
    /// A new node.
    NewNode,
    /// The operator wants something.
    Operator,
    /// The next fault may strike from now on; what waits too long strikes at the next pass.
    Arm,
}

/// The cluster.
#[derive(Debug)]
pub(super) struct World {
    pub now: u64,
    pub rng: Rng,
    pub queue: Queue<Coming>,
    pub rules: Rules,
    pub computation: Arc<Computation>,
    pub references: References,
    pub coordinator: Coordinator,
    pub nodes: BTreeMap<NodeId, Actor>,
    pub next_node: u64,
    pub judge: Judge,
    /// Pairs of nodes that cannot reach each other, until when.
    pub broken: BTreeMap<(NodeId, NodeId), u64>,
    /// Nodes that were asked to leave.
    pub leaving: BTreeSet<NodeId>,
    pub planned: Vec<Planned>,
    /// Faults whose point was just reached, with the node there.
    pub struck: Vec<(Planned, NodeId)>,
    pub armed_at: u64,
    pub outcome: Outcome,
    pub happened: u64,
    pub tracing: bool,
}

pub(super) fn offer(arithmetic: Arithmetic) -> Offer {
    Offer { budget_bytes: 1 << 30, threads: 1, class: "v3".into(), arithmetic }
}

impl World {
    pub(super) fn new(seed: u64, rules: Rules, tracing: bool) -> Self {
        let mut rng = Rng::new(seed);
        let count = rng.within(4, 9);
        let steps = rng.within(20, 25);
        let job = Arc::new(jobs::job(&mut rng, seed, count, steps));
        let table = Arc::new(ModelTable::of_job(&job.spec));
        let salted = rng.one_in(3);
        // Some jobs have a step or two that are not finite, a few diverge near their end.
        let bad = match (rng.one_in(100), rng.one_in(4)) {
            (true, _) => steps - 3..steps,
            (false, true) => {
                let first = rng.within(1, steps - 2);
                first..first + rng.within(1, 3)
            }
            (false, false) => 0..0,
        };
        let computation =
            Arc::new(Computation::new(Arc::clone(&job), Arc::clone(&table), (salted, seed % 7 == 3), bad));
        let references = References::new(&computation);
        // Records that stay off the disk for long are kept by holders for long.
        let flush = if rng.one_in(3) { 80 } else { 10 };
        let planned = plan_faults(&mut rng, steps);
        let outcome = Outcome {
            hits: BTreeMap::new(),
            finding: None,
            nodes: count as usize,
            steps,
            faults: 0,
            steps_lost: 0,
            steps_redone: 0,
            events: 0,
            trace: Vec::new(),
        };
        let mut world = Self {
            now: 0,
            queue: Queue::new(),
            rules,
            coordinator: Coordinator::new(Arc::clone(&job), table, flush, rules),
            references,
            nodes: BTreeMap::new(),
            next_node: 1,
            judge: Judge::new(job.spec.elastic.redundancy),
            broken: BTreeMap::new(),
            leaving: BTreeSet::new(),
            planned,
            struck: Vec::new(),
            armed_at: 0,
            outcome,
            happened: 0,
            tracing,
            computation,
            rng,
        };
        for _ in 0..count {
            world.new_node();
        }
        let first = world.rng.within(2, 30) * MILLI;
        world.queue.push(first, Coming::Operator);
        world.queue.push(2 * MILLI, Coming::Arm);
        world
    }

    pub(super) fn new_node(&mut self) {
        let id = NodeId(self.next_node);
        self.next_node += 1;
        let (job, table) = (&self.computation.job, &self.computation.table);
        self.nodes.insert(id, Actor::new(id, job, Arc::clone(table), self.computation.count(), self.rules));
        let at = self.now + self.rng.within(0, 500);
        self.queue.push(at, Coming::Rejoin(id));
    }

    /// Plays until the job is over, something is wrong, or patience ends.
    pub(super) fn play(mut self) -> Outcome {
        let mut deadline = None;
        while self.judge.finding.is_none() {
            let Some((at, coming)) = self.queue.pop() else {
                self.accuse(super::Oracle::Liveness, "nothing will ever happen again".into());
                break;
            };
            self.now = at;
            self.happened += 1;
            self.happen(coming);
            while let Some((planned, node)) = self.struck.pop() {
                self.strike(planned, node);
            }
            if self.coordinator.is_over() {
                self.judge_the_end();
                break;
            }
            if self.planned.is_empty() && deadline.is_none() {
                deadline = Some(self.now + PATIENCE);
            }
            if deadline.is_some_and(|until| self.now > until) || self.happened > MOST_EVENTS {
                let state = self.coordinator.describe();
                for actor in self.nodes.values().filter(|_| self.tracing) {
                    self.outcome.trace.push(format!("{:?} {:?}", actor.life, actor.holder));
                }
                self.accuse(
                    super::Oracle::Liveness,
                    format!("patience is over after {} events: {state}", self.happened),
                );
            }
        }
        if let Some(engine) = &self.coordinator.engine {
            let status = engine.status();
            self.outcome.steps_lost = status.steps_lost;
            self.outcome.steps_redone = status.steps_redone;
        }
        self.outcome.finding = self.judge.finding.take();
        self.outcome
    }

    fn happen(&mut self, coming: Coming) {
        match coming {
            Coming::ToNode { node, message, link } => self.control_to_node(node, message, link),
            Coming::FromNode { node, message, link } => self.control_from_node(node, message, link),
            Coming::Bulk(bulk) => self.bulk_arrives(bulk),
            Coming::Task(node, task) => self.task_done(node, task),
            Coming::Fact(event, start) => {
                if start == self.coordinator.start {
                    self.tell_engine(event);
                }
            }
            Coming::OnDisk { mark, length, start } => self.on_disk(mark, length, start),
            Coming::CoordinatorUp => self.coordinator_up(),
            Coming::GoOn(node) => self.go_on(node),
            Coming::DeviceGoesOn(node) => self.device_goes_on(node),
            Coming::TakenForLost(node) => self.taken_for_lost(node),
            Coming::Rejoin(node) => self.rejoin(node),
            // Where nodes differ, as many come as it takes for the job to have use for one.
            Coming::NewNode => (0..if self.computation.mixed { 3 } else { 1 }).for_each(|_| self.new_node()),
            Coming::Operator => self.operator(),
            Coming::Arm => self.hurry_faults(),
        }
    }

    /// Nodes that run and are connected, dead and stopped ones apart.
    pub(super) fn up(&self) -> Vec<NodeId> {
        self.nodes.values().filter(|actor| matches!(actor.life, Life::Up)).map(|actor| actor.id).collect()
    }

    pub(super) fn fact(&mut self, delay: u64, event: Event) {
        let start = self.coordinator.start;
        self.queue.push(self.now + delay, Coming::Fact(event, start));
    }

    pub(super) fn lost(&mut self, node: NodeId, cause: LossCause, delay: u64) {
        self.fact(delay, Event::Lost { node, cause });
    }

    pub(super) fn trace(&mut self, line: impl FnOnce() -> String) {
        if self.tracing {
            let text = line();
            self.outcome.trace.push(format!("{:>9.3} ms  {text}", self.now as f64 / 1000.0));
        }
    }

    /// Something is reached where a fault may strike.
    pub(super) fn reached(&mut self, point: Point, node: NodeId) {
        let step = self.coordinator.step();
        let Some(first) = self.planned.first_mut() else { return };
        if first.point != point || step < first.after {
            return;
        }
        if first.skip > 0 {
            first.skip -= 1;
            return;
        }
        let planned = self.planned.remove(0);
        self.struck.push((planned, node));
        self.armed_at = self.now;
    }

    /// A fault that waits in vain is helped: what leads to its point is made to happen. In the end it strikes at a pass.
    fn hurry_faults(&mut self) {
        if self.planned.is_empty() {
            return;
        }
        self.queue.push(self.now + 2 * MILLI, Coming::Arm);
        let (step, waited) = (self.coordinator.step(), self.now - self.armed_at);
        let last = step + 5 >= self.outcome.steps;
        if last {
            for planned in &mut self.planned {
                (planned.after, planned.skip, planned.point) = (0, 0, Point::PassBegun);
            }
        }
        let first = &mut self.planned[0];
        if step < first.after {
            self.armed_at = self.now;
            return;
        }
        first.after = first.after.min(step);
        if waited > 3 * MILLI {
            first.skip = 0;
        }
        if waited > 300 * MILLI {
            first.point = Point::PassBegun;
        } else if waited > 6 * MILLI && first.helped < 3 && waited > u64::from(first.helped + 1) * 6 * MILLI {
            first.helped += 1;
            let help = first.point.help();
            self.help(help);
        }
        if waited > 4_000 * MILLI {
            self.planned.remove(0);
            self.armed_at = self.now;
        }
    }
}

/// Three to six faults at points chosen by luck, those that are hard to reach more often; each is led up to by what it takes
/// to reach its point.
fn plan_faults(rng: &mut Rng, steps: u64) -> Vec<Planned> {
    let count = rng.within(3, 7);
    let mut planned = Vec::new();
    let span = if rng.one_in(4) { 4 } else { steps - 8 };
    let mut after: Vec<u64> = (0..count).map(|_| rng.within(0, span)).collect();
    after.sort_unstable();
    let weighted: Vec<Point> = Point::ALL.iter().flat_map(|p| std::iter::repeat_n(*p, p.weight())).collect();
    for after in after {
        let (Some(fault), Some(point)) = (rng.pick(&Fault::ALL), rng.pick(&weighted)) else { continue };
        let skip = rng.within(0, 5);
        let lead = |fault, point| Planned { fault, point, after, skip: 0, helped: 0, tries: 0 };
        match point.help() {
            Help::Nothing => {}
            Help::Loss => planned.push(lead(Fault::Kill, Point::PassBegun)),
            Help::Move => planned.push(lead(Fault::Drain, Point::PassBegun)),
            Help::Fence => planned.push(lead(Fault::LinkReset, Point::PreparedSent)),
        }
        planned.push(Planned { fault, point, after, skip, helped: 0, tries: 0 });
    }
    planned
}

/// Nodes that were ever there, for messages.
pub(super) fn names(nodes: impl IntoIterator<Item = NodeId>) -> String {
    let set: BTreeSet<NodeId> = nodes.into_iter().collect();
    set.iter().map(NodeId::to_string).collect::<Vec<_>>().join(" ")
}
