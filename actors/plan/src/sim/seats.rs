//! Seats compute, and transfers arrive.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use super::actor::{Collect, Life, Task};
use super::bulk::{Body, Bulk, Part};
use super::faults::Point;
use super::model::mix;
use super::moves::Whole;
use super::oracle::Oracle;
use super::world::{Coming, World};
use crate::holder::{HolderEvent, SeatCommand};
use crate::ids::{Generation, NodeId, Seat, StageIndex};
use crate::ledger::Version;
use crate::schedule::Pass;
use crate::space::{GradPart, Interval};

/// One seat of a node.
#[derive(Clone, Debug)]
pub(super) struct SeatState {
    pub seat: Seat,
    blocks: Range<u32>,
    lanes: Range<u32>,
    due: VecDeque<(Pass, u64)>,
    doing: Doing,
    activations: BTreeMap<(u64, bool), Vec<u64>>,
    backwards: BTreeMap<u64, Vec<u64>>,
}

/// What a seat waits for.
#[derive(Clone, Debug)]
enum Doing {
    /// Its next pass, or that pass's input.
    Waiting,
    /// Its own forward.
    Forward(Pass, u64),
    /// The gradient from the stage after.
    Backward(u64),
}

impl World {
    pub(super) fn do_with_seats(&mut self, node: NodeId, command: SeatCommand) {
        let Some(actor) = self.nodes.get_mut(&node) else { return };
        match command {
            SeatCommand::Adopt { generation, plan, slots } => {
                actor.generation = generation;
                actor.pieces = slots.into_iter().collect();
                actor.collects.clear();
                actor.weights.clear();
                let seats = plan.seats().filter(|(_, at)| *at == node);
                actor.seats = seats
                    .map(|(seat, _)| SeatState {
                        seat,
                        blocks: plan.stages[usize::from(seat.stage.0)].blocks.clone(),
                        lanes: plan.lanes[usize::from(seat.replica.0)].clone(),
                        due: VecDeque::new(),
                        doing: Doing::Waiting,
                        activations: BTreeMap::new(),
                        backwards: BTreeMap::new(),
                    })
                    .collect();
                actor.adopted = Some((generation, plan));
            }
            SeatCommand::Run { generation, pass, step, loss_scale: _ } => {
                if generation != actor.generation {
                    self.accuse(Oracle::Contract, format!("{node} runs a pass of an older generation"));
                    return;
                }
                for seat in &mut actor.seats {
                    seat.due.push_back((pass, step));
                }
                for seat in 0..self.nodes[&node].seats.len() {
                    self.begin_pass(node, seat);
                }
                if pass == Pass::Train {
                    self.reached(Point::PassBegun, node);
                }
            }
        }
    }

    /// Begins the next pass of a seat if its input is there.
    fn begin_pass(&mut self, node: NodeId, index: usize) {
        let delay = self.rng.within(30, 300);
        let Some(actor) = self.nodes.get_mut(&node) else { return };
        let generation = actor.generation;
        let Some(seat) = actor.seats.get_mut(index) else { return };
        let (Doing::Waiting, Some((pass, step))) = (&seat.doing, seat.due.front().copied()) else { return };
        let input = (step, pass == Pass::Train);
        if seat.seat.stage.0 > 0 && !seat.activations.contains_key(&input) {
            return;
        }
        seat.due.pop_front();
        seat.doing = Doing::Forward(pass, step);
        self.queue.push(self.now + delay, Coming::Task(node, Task::Seat { generation, seat: index }));
    }

    /// A seat's forward is through.
    pub(super) fn forward(&mut self, node: NodeId, index: usize) {
        let computation = Arc::clone(&self.computation);
        let arithmetic = computation.arithmetic_of(node);
        let Some(actor) = self.nodes.get_mut(&node) else { return };
        let Some((generation, plan)) = actor.adopted.clone() else { return };
        let Some(seat) = actor.seats.get_mut(index) else { return };
        let Doing::Forward(pass, step) = seat.doing else { return };
        let input = seat.activations.remove(&(step, pass == Pass::Train));
        let input = input.unwrap_or_else(|| seat.lanes.clone().map(|lane| computation.input(step, lane)).collect());
        let through = |a: u64| {
            let forward = |a, block| computation.forward(arithmetic, a, block, &actor.compute);
            seat.blocks.clone().fold(a, forward)
        };
        let mut lanes: Vec<u64> = input.into_iter().map(through).collect();
        let last = usize::from(seat.seat.stage.0) + 1 == plan.stages.len();
        let (name, next) = (seat.seat, Seat { stage: StageIndex(seat.seat.stage.0 + 1), ..seat.seat });
        seat.doing = match pass {
            Pass::Train if !last => Doing::Backward(step),
            Pass::Train | Pass::Evaluate => Doing::Waiting,
        };
        if last {
            let salt = computation.salt(generation);
            match pass {
                Pass::Train => {
                    for lane in &mut lanes {
                        *lane = mix(*lane, salt);
                    }
                    self.backward(node, index, step, lanes);
                }
                Pass::Evaluate => {
                    let loss = computation.loss(&lanes);
                    self.hold(node, HolderEvent::Evaluated { generation, step, replica: name.replica, loss });
                }
            }
        } else {
            self.transfer(node, plan.node_of(next), generation, Body::Activation { to: next, pass, step, lanes });
        }
        self.begin_pass(node, index);
        if let Some(actor) = self.nodes.get_mut(&node)
            && let Some(seat) = actor.seats.get_mut(index)
            && let Some(lanes) = seat.backwards.remove(&step)
            && matches!(seat.doing, Doing::Backward(at) if at == step)
        {
            seat.doing = Doing::Waiting;
            self.backward(node, index, step, lanes);
            self.begin_pass(node, index);
        }
    }

    /// A seat has its lanes' losses: it sends the gradients of its blocks to the owners, and the losses on.
    fn backward(&mut self, node: NodeId, index: usize, step: u64, lanes: Vec<u64>) {
        let computation = Arc::clone(&self.computation);
        let Some((generation, plan)) = self.nodes[&node].adopted.clone() else { return };
        let (seat, blocks) = {
            let seat = &self.nodes[&node].seats[index];
            (seat.seat, seat.blocks.clone())
        };
        let mut by_owner: BTreeMap<NodeId, Vec<Part>> = BTreeMap::new();
        for unit in computation.table.units_computed_by(blocks) {
            let extent = computation.table.extent(unit);
            let tied = unit.part == GradPart::TiedHead;
            for (id, piece) in plan.pieces().filter(|(_, piece)| piece.block == unit.block) {
                let Some(common) = piece.interval.intersection(extent) else { continue };
                let values = computation
                    .atoms(unit.block, common)
                    .map(|atom| {
                        lanes.iter().fold(0u64, |sum, loss| sum.wrapping_add(computation.gradient(*loss, atom, tied)))
                    })
                    .collect();
                let carries = unit.block == computation.table.head() && piece.interval.start == 0;
                let loss = carries.then(|| computation.loss_at(step, &lanes));
                by_owner.entry(piece.owner).or_default().push(Part { piece: id, tied, values, loss });
            }
        }
        for (owner, parts) in by_owner {
            self.transfer(node, owner, generation, Body::Partials { from: seat, step, parts });
        }
        if seat.stage.0 > 0 {
            let to = Seat { stage: StageIndex(seat.stage.0 - 1), ..seat };
            self.transfer(node, plan.node_of(to), generation, Body::Backward { to, step, lanes });
        }
    }

    /// A transfer reaches a node, unless something is in the way.
    pub(super) fn bulk_arrives(&mut self, bulk: Bulk) {
        let (from, to) = (bulk.from, bulk.to);
        if matches!(self.nodes.get(&from).map(|a| &a.life), Some(Life::Dead { cut, .. }) if bulk.sent > *cut) {
            return;
        }
        if from != to && self.broken.get(&(from.min(to), from.max(to))).is_some_and(|until| *until >= self.now) {
            self.broke_off(&bulk);
            return;
        }
        let Some(actor) = self.nodes.get_mut(&to) else { return };
        match &mut actor.life {
            Life::Up | Life::CutOff => {}
            Life::Stopped(waiting) => {
                waiting.push(Coming::Bulk(bulk));
                return;
            }
            Life::Dead { .. } => return,
        }
        let Bulk { generation, body, .. } = bulk;
        if let Body::Ask { version, block, interval, wanted } = body {
            self.hold(to, HolderEvent::Asked { from, generation, version, block, interval, wanted });
            return;
        }
        if let Some(hung) = &mut actor.hung {
            hung.waiting.push(Coming::Bulk(Bulk { generation, body, ..bulk }));
            return;
        }
        if actor.adopted.as_ref().is_none_or(|(adopted, _)| *adopted != generation) {
            return;
        }
        match body {
            Body::Activation { to: seat, pass, step, lanes } => {
                let Some(index) = actor.seats.iter().position(|s| s.seat == seat) else { return };
                actor.seats[index].activations.insert((step, pass == Pass::Train), lanes);
                self.begin_pass(to, index);
            }
            Body::Backward { to: seat, step, lanes } => {
                let Some(index) = actor.seats.iter().position(|s| s.seat == seat) else { return };
                if matches!(actor.seats[index].doing, Doing::Backward(at) if at == step) {
                    actor.seats[index].doing = Doing::Waiting;
                    self.backward(to, index, step, lanes);
                    self.begin_pass(to, index);
                } else {
                    actor.seats[index].backwards.insert(step, lanes);
                }
            }
            Body::Partials { from: seat, step, parts } => {
                for part in parts {
                    self.partial(to, generation, seat, step, part);
                }
            }
            Body::ShadowGradient { step, piece, values, norm, loss } => {
                self.gradient_here(to, generation, step, piece, Whole { values, norm, loss });
                self.reached(Point::ShadowHasGradient, to);
            }
            Body::Weights { step, piece, values } => {
                if self.put_weights(to, step, piece, &values) {
                    self.hold(to, HolderEvent::WeightsArrived { generation, step, piece });
                    self.reached(Point::WeightsArrived, to);
                }
            }
            Body::State { version, block, interval, values } => {
                self.state_here(to, generation, version, block, interval, &values);
            }
            Body::Ask { .. } => {}
        }
    }

    /// One seat's part of the gradient of a piece owned here.
    fn partial(&mut self, node: NodeId, generation: Generation, seat: Seat, step: u64, part: Part) {
        self.reached(Point::PartialArrived, node);
        let computation = Arc::clone(&self.computation);
        let Some(actor) = self.nodes.get_mut(&node) else { return };
        let Some((_, plan)) = &actor.adopted else { return };
        let piece = plan.piece(part.piece);
        let done = actor.pieces.get(&part.piece).and_then(|slot| actor.slots.get(slot));
        if done.is_none_or(|data| data.gradients.contains_key(&step)) {
            return;
        }
        let atoms = computation.atoms(piece.block, piece.interval);
        let tied = atoms.start.max(computation.tied().start)..atoms.end.min(computation.tied().end);
        let collect = actor
            .collects
            .entry((part.piece, step))
            .or_insert_with(|| Collect { values: vec![0; atoms.len()], ..Collect::default() });
        if collect.from.contains(&(seat, part.tied)) {
            return;
        }
        collect.from.push((seat, part.tied));
        let first = if part.tied { tied.start } else { atoms.start };
        for (i, value) in part.values.iter().enumerate() {
            let at = &mut collect.values[first + i - atoms.start];
            *at = at.wrapping_add(*value);
        }
        if let Some(loss) = part.loss {
            let so_far = collect.loss.get_or_insert(computation.loss(&[]));
            so_far.loss = crate::commit::total([so_far.loss, loss.loss]);
            so_far.tokens += loss.tokens;
        }
        let contributions = if tied.is_empty() { 1 } else { 2 };
        if collect.from.len() < contributions * usize::from(plan.replicas()) {
            return;
        }
        let Some(whole) = actor.collects.remove(&(part.piece, step)) else { return };
        let norm = computation.norm(&whole.values);
        let whole = Whole { values: Arc::new(whole.values), norm, loss: whole.loss };
        self.gradient_here(node, generation, step, part.piece, whole);
    }

    /// Fetched or filled state is here; what nobody waits for, or has already, is dropped.
    fn state_here(
        &mut self,
        node: NodeId,
        generation: Generation,
        version: Version,
        block: crate::ids::BlockId,
        interval: Interval,
        values: &[u64],
    ) {
        let range = self.computation.atoms(block, interval);
        let Some(actor) = self.nodes.get_mut(&node) else { return };
        let waits = |slot: &&mut super::actor::SlotData| slot.block == block && slot.expects.contains(interval);
        let Some(data) = actor.slots.values_mut().find(waits) else { return };
        let fill = data.interval == interval && data.expects.contains(data.interval);
        data.expects.remove(interval);
        data.atoms[range.start - data.first..range.end - data.first].copy_from_slice(values);
        self.judge_values(node, &version, range, values);
        self.hold(node, HolderEvent::StateArrived { generation, version, block, interval });
        let filled = fill && matches!(self.coordinator.state(), Some(crate::engine::State::Training));
        self.reached(if filled { Point::FillArrived } else { Point::StateArrived }, node);
    }

    /// A transfer was lost: one of the two notices.
    pub(super) fn broke_off(&mut self, bulk: &Bulk) {
        let (by, peer) = if self.rng.one_in(2) { (bulk.from, bulk.to) } else { (bulk.to, bulk.from) };
        let dead = |node: &NodeId| matches!(self.nodes.get(node).map(|a| &a.life), Some(Life::Dead { .. }));
        let (by, peer) = if dead(&by) { (peer, by) } else { (by, peer) };
        let Some(actor) = self.nodes.get(&by) else { return };
        let generation = actor.generation;
        if bulk.generation < generation {
            return;
        }
        let delay = self.rng.within(100, 1500);
        self.queue.push(self.now + delay, Coming::Task(by, Task::Report { generation, peer }));
    }
}
