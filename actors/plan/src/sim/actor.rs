//! One node's actors: they keep the slots and do what the holder says.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::bulk::Body;
use super::faults::Point;
use super::hang::Hung;
use super::model::word;
use super::oracle::Oracle;
use super::seats::SeatState;
use super::world::{Coming, World};
use crate::blocks::ModelTable;
use crate::digest::PieceLeaves;
use crate::holder::{Holder, HolderCommand, HolderEvent, SlotCommand, SlotId, Source, Wanted};
use crate::ids::{BlockId, Generation, NodeId, PieceId};
use crate::job::Job;
use crate::layout::Plan;
use crate::ledger::{LedgerEntry, Version};
use crate::protocol::Persist;
use crate::rules::Rules;
use crate::space::{Interval, IntervalSet};

/// Whether a node's process runs.
#[derive(Clone, Debug)]
pub(super) enum Life {
    Up,
    /// SIGSTOP: what reaches it waits.
    Stopped(Vec<Coming>),
    /// It runs, but the coordinator and it do not hear each other.
    CutOff,
    /// Gone. Transfers sent after `cut` died with it; control messages still arrive until `late`.
    Dead {
        cut: u64,
        late: u64,
    },
}

/// A node.
#[derive(Debug)]
pub(super) struct Actor {
    pub id: NodeId,
    pub life: Life,
    pub hung: Option<Hung>,
    pub holder: Holder,
    /// Connection to the coordinator, counted up at each break.
    pub link: u64,
    /// Control messages arrive in order.
    pub last_in: u64,
    pub last_out: u64,
    /// Whether the coordinator's current start has been told of it.
    pub known: bool,
    /// Its versions are forged at the next fence: a process from a forked past.
    pub forged: bool,
    pub generation: Generation,
    pub adopted: Option<(Generation, Arc<Plan>)>,
    pub slots: BTreeMap<SlotId, SlotData>,
    /// Slots that went with their actor, and whether the engine may not know.
    pub lost: Vec<SlotId>,
    pub hurt: bool,
    pub pieces: BTreeMap<PieceId, SlotId>,
    pub collects: BTreeMap<(PieceId, u64), Collect>,
    /// Compute weights, by atom, and the step of each piece's.
    pub compute: Vec<u64>,
    pub weights: BTreeMap<PieceId, u64>,
    pub seats: Vec<SeatState>,
    /// Peers reported unreachable in this generation.
    pub reported: Vec<NodeId>,
}

/// Content of a slot.
#[derive(Clone, Debug)]
pub(super) struct SlotData {
    pub block: BlockId,
    pub interval: Interval,
    pub first: usize,
    pub atoms: Vec<u64>,
    pub gradients: BTreeMap<u64, Arc<Vec<u64>>>,
    pub updating: bool,
    /// Elements that are still to come from a peer, each once.
    pub expects: IntervalSet,
}

/// Lane partials of an owned piece.
#[derive(Clone, Debug, Default)]
pub(super) struct Collect {
    pub from: Vec<(crate::ids::Seat, bool)>,
    pub values: Vec<u64>,
    pub loss: Option<crate::protocol::LossSum>,
}

/// A node's own work, ended later.
#[derive(Clone, Debug)]
pub(super) enum Task {
    Apply {
        entry: Arc<LedgerEntry>,
        slots: Vec<SlotId>,
    },
    Persist {
        generation: Generation,
        persist: Persist,
        slots: Vec<SlotId>,
    },
    Fill {
        generation: Generation,
        version: Version,
        piece: PieceId,
        slot: SlotId,
        to: NodeId,
    },
    Serve {
        generation: Generation,
        version: Version,
        to: NodeId,
        block: BlockId,
        parts: Vec<(SlotId, Interval)>,
        wanted: Wanted,
    },
    Seat {
        generation: Generation,
        seat: usize,
    },
    Report {
        generation: Generation,
        peer: NodeId,
    },
    StageFailed {
        cause: String,
    },
}

impl Actor {
    pub(super) fn new(id: NodeId, job: &Job, table: Arc<ModelTable>, atoms: usize, rules: Rules) -> Self {
        Self {
            id,
            life: Life::Up,
            hung: None,
            holder: Holder::with_rules(id, job, table, rules),
            link: 0,
            last_in: 0,
            last_out: 0,
            known: false,
            forged: false,
            generation: Generation::default(),
            adopted: None,
            slots: BTreeMap::new(),
            lost: Vec::new(),
            hurt: false,
            pieces: BTreeMap::new(),
            collects: BTreeMap::new(),
            compute: vec![0; atoms],
            weights: BTreeMap::new(),
            seats: Vec::new(),
            reported: Vec::new(),
        }
    }
}

impl World {
    /// Gives a node's holder one fact and carries out what it says.
    pub(super) fn hold(&mut self, node: NodeId, event: HolderEvent) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let Some(actor) = self.nodes.get_mut(&node) else { return };
            let commands = actor.holder.handle(event);
            for command in commands {
                self.carry_out(node, command, &mut events);
            }
        }
    }

    fn carry_out(&mut self, node: NodeId, command: HolderCommand, events: &mut VecDeque<HolderEvent>) {
        match command {
            HolderCommand::Tell(message) => self.send_to_engine(node, message),
            HolderCommand::Stop { generation } => self.stop_work(node, generation),
            HolderCommand::Slot(command) => self.do_to_slots(node, command),
            HolderCommand::Seat(command) => self.do_with_seats(node, command),
            HolderCommand::Move(command) => self.move_something(node, command, events),
            HolderCommand::Release => {
                if let Some(actor) = self.nodes.get_mut(&node) {
                    actor.slots.clear();
                    actor.pieces.clear();
                    actor.seats.clear();
                    actor.collects.clear();
                    actor.adopted = None;
                    actor.generation = Generation { incarnation: u32::MAX, number: 0 };
                }
            }
        }
    }

    fn stop_work(&mut self, node: NodeId, generation: Generation) {
        let Some(actor) = self.nodes.get_mut(&node) else { return };
        actor.generation = generation;
        actor.adopted = None;
        actor.collects.clear();
        actor.seats.clear();
        actor.reported.clear();
    }

    fn do_to_slots(&mut self, node: NodeId, command: SlotCommand) {
        match command {
            SlotCommand::Build { slot, block, interval, role: _, parts } => {
                let atoms = self.computation.atoms(block, interval);
                let mut content = vec![0u64; atoms.len()];
                let mut expects = if parts.is_empty() { IntervalSet::from(interval) } else { IntervalSet::EMPTY };
                for part in parts {
                    let range = self.computation.atoms(block, part.interval);
                    match part.source {
                        Source::Seed => {
                            for atom in range {
                                content[atom - atoms.start] = self.computation.initial(atom);
                            }
                        }
                        Source::Slot(from) => match self.nodes[&node].slots.get(&from) {
                            Some(data) if !data.updating => {
                                for atom in range {
                                    content[atom - atoms.start] = data.atoms[atom - data.first];
                                }
                            }
                            Some(_) | None => {
                                let found = format!("{node} copies from slot {from:?}, which is not there or changes");
                                self.accuse(Oracle::Contract, found);
                            }
                        },
                        Source::Peer(_) => expects.insert(part.interval),
                    }
                }
                let first = atoms.start;
                let gradients = BTreeMap::new();
                let data = SlotData { block, interval, first, atoms: content, gradients, updating: false, expects };
                if let Some(actor) = self.nodes.get_mut(&node) {
                    actor.slots.insert(slot, data);
                }
            }
            SlotCommand::Free { slot } => {
                if let Some(actor) = self.nodes.get_mut(&node)
                    && actor.slots.remove(&slot).is_none_or(|data| data.updating)
                {
                    self.accuse(Oracle::Contract, format!("{node} frees slot {slot:?}, which is not there or changes"));
                }
            }
            SlotCommand::Apply { entry, slots } => {
                let Some(actor) = self.nodes.get_mut(&node) else { return };
                let mut wrong = None;
                for slot in &slots {
                    match actor.slots.get_mut(slot) {
                        Some(data) if !data.updating && data.gradients.contains_key(&entry.step) => {
                            data.updating = true
                        }
                        Some(_) | None => wrong = Some(*slot),
                    }
                }
                if let Some(slot) = wrong {
                    let found =
                        format!("{node} updates slot {slot:?} to step {} without a gradient or twice", entry.step);
                    self.accuse(Oracle::Contract, found);
                    return;
                }
                let slow = self.rng.one_in(100);
                let delay = if slow { self.rng.within(1000, 9000) } else { self.rng.within(20, 200) };
                self.queue.push(self.now + delay, Coming::Task(node, Task::Apply { entry, slots }));
                self.reached(Point::UpdateBegun, node);
            }
            SlotCommand::DropGradients { slots } => {
                if let Some(actor) = self.nodes.get_mut(&node) {
                    for slot in slots {
                        if let Some(data) = actor.slots.get_mut(&slot) {
                            data.gradients.clear();
                        }
                    }
                }
            }
            SlotCommand::Persist { generation, persist, version, slots } => {
                for slot in &slots {
                    self.judge_slot(node, *slot, &version);
                }
                let delay = self.rng.within(50, 800);
                self.queue.push(self.now + delay, Coming::Task(node, Task::Persist { generation, persist, slots }));
                self.reached(Point::PersistBegun, node);
            }
        }
    }

    /// A node's work is through, if the node still runs.
    pub(super) fn task_done(&mut self, node: NodeId, task: Task) {
        let Some(actor) = self.nodes.get_mut(&node) else { return };
        match &mut actor.life {
            Life::Up | Life::CutOff => {}
            Life::Stopped(waiting) => {
                waiting.push(Coming::Task(node, task));
                return;
            }
            Life::Dead { .. } => return,
        }
        if let Some(hung) = actor.hung.as_mut().filter(|_| task.is_computed()) {
            hung.waiting.push(Coming::Task(node, task));
            return;
        }
        let current = actor.generation;
        match task {
            Task::Apply { entry, slots } => self.applied(node, &entry, &slots),
            Task::Persist { generation, persist, slots } => {
                if generation == current {
                    let leaves = self.leaves(node, &slots);
                    self.hold(node, HolderEvent::Persisted { generation, request: persist.request, leaves });
                }
            }
            Task::Fill { generation, version, piece, slot, to } => {
                let Some(data) = actor.slots.get(&slot).filter(|_| generation == current) else { return };
                let (block, interval, values) = (data.block, data.interval, data.atoms.clone());
                self.transfer(node, to, generation, Body::State { version, block, interval, values });
                self.hold(node, HolderEvent::FillSent { generation, piece, to });
            }
            Task::Serve { generation, version, to, block, parts, wanted } => {
                if generation == current {
                    self.serve(node, generation, version, to, block, &parts, wanted);
                }
            }
            Task::Seat { generation, seat } => {
                if generation == current {
                    self.forward(node, seat);
                }
            }
            Task::Report { generation, peer } => {
                if generation == current && !actor.reported.contains(&peer) {
                    actor.reported.push(peer);
                    let trouble =
                        crate::protocol::Trouble::PeerUnreachable { peer, cause: "a transfer broke off".into() };
                    self.hold(node, HolderEvent::Trouble { trouble, lost: Vec::new() });
                }
            }
            Task::StageFailed { cause } => {
                // It may be one that is only being built.
                let first = crate::ids::Seat { stage: crate::ids::StageIndex(0), replica: crate::ids::Replica(0) };
                let seat = actor.seats.first().map_or(first, |seat| seat.seat);
                actor.seats.clear();
                let trouble = crate::protocol::Trouble::StageFailed { seat, cause };
                self.hold(node, HolderEvent::Trouble { trouble, lost: Vec::new() });
            }
        }
    }

    fn applied(&mut self, node: NodeId, entry: &LedgerEntry, slots: &[SlotId]) {
        let version = entry.version();
        let record = word(&version);
        for slot in slots {
            let computation = Arc::clone(&self.computation);
            let Some(data) = self.nodes.get_mut(&node).and_then(|actor| actor.slots.get_mut(slot)) else { continue };
            data.updating = false;
            let Some(gradient) = data.gradients.remove(&entry.step) else {
                self.accuse(
                    Oracle::Contract,
                    format!("the gradient of slot {slot:?} on {node} went during its update"),
                );
                return;
            };
            for (atom, gradient) in data.atoms.iter_mut().zip(gradient.iter()) {
                *atom = computation.updated(*atom, record, entry, *gradient);
            }
            self.judge_slot(node, *slot, &version);
            self.reached(Point::UpdateDone, node);
            self.hold(node, HolderEvent::Applied { slot: *slot, step: entry.step });
        }
    }

    fn leaves(&self, node: NodeId, slots: &[SlotId]) -> Vec<PieceLeaves> {
        let actor = &self.nodes[&node];
        let held = slots.iter().filter_map(|slot| actor.slots.get(slot));
        held.flat_map(|data| self.computation.leaves(data.block, data.interval, &data.atoms)).collect()
    }
}
