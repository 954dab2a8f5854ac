//! What goes from node to node, and what happens where it arrives.

use std::collections::VecDeque;
use std::sync::Arc;

use super::actor::Task;
use super::bulk::{Body, Bulk};
use super::faults::Point;
use super::oracle::Oracle;
use super::world::{Coming, World};
use crate::holder::{HolderEvent, MoveCommand, SlotId, Target, Wanted};
use crate::ids::{BlockId, Generation, NodeId, PieceId};
use crate::ledger::Version;
use crate::protocol::{LossSum, Norm};
use crate::space::Interval;

/// The whole gradient of a piece, with what its owner reports of it.
pub(super) struct Whole {
    pub values: Arc<Vec<u64>>,
    pub norm: Norm,
    pub loss: Option<LossSum>,
}

impl World {
    pub(super) fn move_something(&mut self, node: NodeId, command: MoveCommand, events: &mut VecDeque<HolderEvent>) {
        match command {
            MoveCommand::Fetch { generation, version, from, block, interval, into } => {
                let wanted = match into {
                    Target::Slot(_) => Wanted::State,
                    Target::Seats(_) => Wanted::Weights,
                };
                self.transfer(node, from, generation, Body::Ask { version, block, interval, wanted });
                if wanted == Wanted::State {
                    self.reached(Point::FetchAsked, node);
                }
            }
            MoveCommand::Serve { generation, version, to, block, parts, wanted } => {
                let delay = self.rng.within(20, 300);
                let task = Task::Serve { generation, version, to, block, parts, wanted };
                self.queue.push(self.now + delay, Coming::Task(node, task));
            }
            MoveCommand::ShareGradient { generation, step, piece, slot, to, norm, loss } => {
                self.reached(Point::GradientWhole, node);
                let Some(values) =
                    self.nodes[&node].slots.get(&slot).and_then(|data| data.gradients.get(&step)).cloned()
                else {
                    self.accuse(Oracle::Contract, format!("{node} shares a gradient it has not"));
                    return;
                };
                for to in to {
                    let body = Body::ShadowGradient { step, piece, values: Arc::clone(&values), norm, loss };
                    self.transfer(node, to, generation, body);
                }
            }
            MoveCommand::Distribute { generation, step, piece, slot, to } => {
                let Some(values) = self.nodes[&node].slots.get(&slot).map(|data| data.atoms.clone()) else {
                    self.accuse(Oracle::Contract, format!("{node} hands out weights of a slot it has not"));
                    return;
                };
                for to in to {
                    if to == node {
                        if let Some(hung) = self.nodes.get_mut(&node).and_then(|actor| actor.hung.as_mut()) {
                            let body = Body::Weights { step, piece, values: values.clone() };
                            let (from, sent) = (node, self.now);
                            hung.waiting.push(Coming::Bulk(Bulk { from, to, generation, body, sent }));
                            continue;
                        }
                        if self.put_weights(node, step, piece, &values) {
                            events.push_back(HolderEvent::WeightsArrived { generation, step, piece });
                        }
                    } else {
                        self.transfer(node, to, generation, Body::Weights { step, piece, values: values.clone() });
                    }
                }
            }
            MoveCommand::Fill { generation, version, piece, slot, to } => {
                let delay = self.rng.within(100, 1500);
                let task = Task::Fill { generation, version, piece, slot, to };
                self.queue.push(self.now + delay, Coming::Task(node, task));
                self.reached(Point::FillBegun, node);
            }
        }
    }

    #[allow(clippy::too_many_arguments, reason = "one command's fields")]
    pub(super) fn serve(
        &mut self,
        node: NodeId,
        generation: Generation,
        version: Version,
        to: NodeId,
        block: BlockId,
        parts: &[(SlotId, Interval)],
        wanted: Wanted,
    ) {
        let mut values = Vec::new();
        for (slot, interval) in parts {
            let range = self.computation.atoms(block, *interval);
            match self.nodes[&node].slots.get(slot) {
                Some(data) => values.extend_from_slice(&data.atoms[range.start - data.first..range.end - data.first]),
                None if self.nodes[&node].lost.contains(slot) => return,
                None => {
                    self.accuse(Oracle::Contract, format!("{node} serves from slot {slot:?}, which is not there"));
                    return;
                }
            }
        }
        let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return };
        let interval = Interval::new(first.1.start, last.1.end);
        match wanted {
            Wanted::State => {
                self.transfer(node, to, generation, Body::State { version, block, interval, values });
                self.reached(Point::FetchServed, node);
            }
            Wanted::Weights => {
                let Some((_, plan)) = &self.nodes[&node].adopted else { return };
                let found = plan.pieces().find(|(_, piece)| piece.block == block && piece.interval == interval);
                if let Some((piece, _)) = found {
                    self.transfer(node, to, generation, Body::Weights { step: version.step, piece, values });
                }
            }
        }
    }

    /// Puts a piece's weights into the compute weights of a node, if they are newer than what is there.
    pub(super) fn put_weights(&mut self, node: NodeId, step: u64, piece: PieceId, values: &[u64]) -> bool {
        let Some(actor) = self.nodes.get_mut(&node) else { return false };
        let Some((_, plan)) = &actor.adopted else { return false };
        if actor.weights.get(&piece).is_some_and(|have| *have >= step) {
            return false;
        }
        actor.weights.insert(piece, step);
        let planned = plan.piece(piece);
        let range = self.computation.atoms(planned.block, planned.interval);
        actor.compute[range].copy_from_slice(values);
        true
    }

    /// The whole gradient of a piece is here.
    pub(super) fn gradient_here(
        &mut self,
        node: NodeId,
        generation: Generation,
        step: u64,
        piece: PieceId,
        whole: Whole,
    ) {
        let Whole { values, norm, loss } = whole;
        let Some(actor) = self.nodes.get_mut(&node) else { return };
        if let Some(data) = actor.pieces.get(&piece).and_then(|slot| actor.slots.get_mut(slot)) {
            data.gradients.entry(step).or_insert(values);
            self.hold(node, HolderEvent::Gradient { generation, step, piece, norm, loss });
        }
    }

    /// Starts a transfer.
    pub(super) fn transfer(&mut self, from: NodeId, to: NodeId, generation: Generation, body: Body) {
        let delay = if from == to { 1 } else { self.latency() };
        let bulk = Bulk { from, to, generation, body, sent: self.now };
        if self.rng.one_in(400) {
            let again = self.now + delay + self.rng.within(1, 3000);
            self.queue.push(again, Coming::Bulk(bulk.clone()));
        }
        self.queue.push(self.now + delay, Coming::Bulk(bulk));
    }

    pub(super) fn latency(&mut self) -> u64 {
        if self.rng.one_in(60) { self.rng.within(400, 4000) } else { self.rng.within(20, 250) }
    }
}
