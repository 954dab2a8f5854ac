//! What a node's actors do in a script: everything at once.

use std::collections::VecDeque;

use shoal_exact::ExactSum;

use super::{Stage, Wire};
use crate::blocks::ModelTable;
use crate::digest::{PieceLeaves, segments};
use crate::holder::{HolderCommand, HolderEvent, MoveCommand, SeatCommand, SlotCommand, Target, Wanted};
use crate::ids::{BlockId, Digest, Generation, NodeId};
use crate::ledger::Version;
use crate::protocol::{FromNode, InHand, Inventory, LossSum, Norm, PersistMode, Trouble};
use crate::schedule::Pass;
use crate::space::{Interval, Kind};

impl Stage {
    pub(super) fn hold(&mut self, node: NodeId, event: HolderEvent) {
        let mut todo = VecDeque::from([(node, event)]);
        while let Some((node, event)) = todo.pop_front() {
            let Some(player) = self.nodes.get_mut(&node) else { continue };
            for command in player.holder.handle(event) {
                self.carry_out(node, command, &mut todo);
            }
        }
    }

    fn carry_out(&mut self, node: NodeId, command: HolderCommand, todo: &mut VecDeque<(NodeId, HolderEvent)>) {
        let deaf = |stage: &Self, to: NodeId| stage.nodes.get(&to).is_none_or(|player| player.deaf);
        let Some(player) = self.nodes.get_mut(&node) else { return };
        match command {
            HolderCommand::Tell(FromNode::Inventory(inventory)) => {
                let what = || "compute device".to_owned();
                let in_hand = player.hung.map(|since| InHand { what: what(), millis: self.now - since });
                let message = FromNode::Inventory(Inventory { in_hand, ..inventory });
                self.wires.push_back(Wire::FromNode(node, message));
            }
            HolderCommand::Tell(message) => self.wires.push_back(Wire::FromNode(node, message)),
            HolderCommand::Stop { .. } => player.plan = None,
            HolderCommand::Release => player.slots.clear(),
            HolderCommand::Slot(SlotCommand::Build { slot, block, interval, .. }) => {
                player.slots.insert(slot, (block, interval));
            }
            HolderCommand::Slot(SlotCommand::Free { slot }) => {
                player.slots.remove(&slot);
            }
            HolderCommand::Slot(SlotCommand::Apply { entry, slots }) => {
                let applied = |slot| (node, HolderEvent::Applied { slot, step: entry.step });
                todo.extend(slots.into_iter().map(applied));
            }
            HolderCommand::Slot(SlotCommand::DropGradients { .. }) => {}
            HolderCommand::Slot(SlotCommand::Persist { persist, .. })
                if player.full && persist.mode == PersistMode::Write =>
            {
                let trouble = Trouble::Disk { cause: "no space left".to_owned() };
                todo.push_back((node, HolderEvent::Trouble { trouble, lost: Vec::new() }));
            }
            HolderCommand::Slot(SlotCommand::Persist { generation, persist, slots, .. }) => {
                let leaves = slots.iter().flat_map(|slot| leaves(&self.setup.table, player.slots[slot])).collect();
                todo.push_back((node, HolderEvent::Persisted { generation, request: persist.request, leaves }));
            }
            HolderCommand::Seat(SeatCommand::Adopt { generation, plan, .. }) => player.plan = Some((generation, plan)),
            HolderCommand::Seat(SeatCommand::Run { pass: Pass::Train, .. }) if player.spoilt => {
                let trouble = Trouble::Data { cause: "other tokens".to_owned() };
                todo.push_back((node, HolderEvent::Trouble { trouble, lost: Vec::new() }));
            }
            HolderCommand::Seat(SeatCommand::Run { generation, pass: Pass::Train, step, .. }) => {
                let Some((_, plan)) = player.plan.clone().filter(|_| player.hung.is_none()) else { return };
                let ran = self.ran.entry((generation, step)).or_default();
                ran.insert(node);
                if plan.seats().all(|(_, seat)| ran.contains(&seat)) {
                    let head = self.setup.table.head();
                    for (piece, planned) in plan.pieces() {
                        let norm = Norm::Finite(ExactSum::of(1.0));
                        let loss = (planned.block == head).then_some(LossSum { loss: norm, tokens: 128 });
                        todo.push_back((planned.owner, HolderEvent::Gradient { generation, step, piece, norm, loss }));
                    }
                }
            }
            HolderCommand::Seat(SeatCommand::Run { pass: Pass::Evaluate, .. }) => {}
            HolderCommand::Move(MoveCommand::Fetch { generation, version, from, block, interval, into }) => {
                let wanted = match into {
                    Target::Slot(_) => Wanted::State,
                    Target::Seats(_) => Wanted::Weights,
                };
                let asked = HolderEvent::Asked { from: node, generation, version, block, interval, wanted };
                todo.push_back((from, asked));
            }
            HolderCommand::Move(MoveCommand::Serve { generation, version, to, block, parts, wanted }) => {
                let interval = Interval::new(parts[0].1.start, parts[parts.len() - 1].1.end);
                if !deaf(self, to) {
                    todo.push_back((to, self.served(node, generation, version, block, interval, wanted)));
                }
            }
            HolderCommand::Move(MoveCommand::ShareGradient { generation, step, piece, to, norm, loss, .. }) => {
                let gradient = HolderEvent::Gradient { generation, step, piece, norm, loss };
                todo.extend(to.into_iter().filter(|to| !deaf(self, *to)).map(|to| (to, gradient.clone())));
            }
            HolderCommand::Move(MoveCommand::Distribute { generation, step, piece, to, .. }) => {
                let arrived = HolderEvent::WeightsArrived { generation, step, piece };
                todo.extend(to.into_iter().filter(|to| !deaf(self, *to)).map(|to| (to, arrived.clone())));
            }
            HolderCommand::Move(MoveCommand::Fill { generation, version, piece, slot, to }) => {
                let (block, interval) = player.slots[&slot];
                if !deaf(self, to) {
                    todo.push_back((to, HolderEvent::StateArrived { generation, version, block, interval }));
                }
                todo.push_back((node, HolderEvent::FillSent { generation, piece, to }));
            }
        }
    }

    fn served(
        &self,
        node: NodeId,
        generation: Generation,
        version: Version,
        block: BlockId,
        interval: Interval,
        wanted: Wanted,
    ) -> HolderEvent {
        match wanted {
            Wanted::State => HolderEvent::StateArrived { generation, version, block, interval },
            Wanted::Weights => {
                let (_, plan) = self.nodes[&node].plan.as_ref().expect("whoever serves has a plan");
                let (piece, _) =
                    plan.pieces().find(|(_, p)| p.block == block && p.interval == interval).expect("a piece");
                HolderEvent::WeightsArrived { generation, step: version.step, piece }
            }
        }
    }
}

fn leaves(table: &ModelTable, (block, interval): (BlockId, Interval)) -> Vec<PieceLeaves> {
    let report = |&kind: &Kind| {
        let interval = table.part(kind, block, interval)?;
        let count = segments(table.space(kind, block), interval).count();
        Some(PieceLeaves { block, interval, kind, leaves: vec![Digest::default(); count] })
    };
    table.kinds().iter().filter_map(report).collect()
}
