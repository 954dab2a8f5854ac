//! A generation begins: everyone stops and says what is there.

use std::collections::BTreeMap;

use super::face::{LossCause, Record, State};
use super::phase::{Fencing, Phase};
use super::{Engine, Happening};
use crate::ids::NodeId;
use crate::protocol::{Inventory, ToNode};
use crate::rules::Breach;

/// A fence waits at most for so many doublings of its time, for nodes that were mute before.
const MOST_DOUBLINGS: u32 = 3;

impl Engine {
    /// Takes the next generation. It is durable before anyone hears of it.
    pub(super) fn fence(&mut self, reason: &str) {
        if self.nodes.here().is_empty() {
            let mute: Vec<String> = self.nodes.all_mute().iter().map(NodeId::to_string).collect();
            let reason = match mute.is_empty() {
                true => self.only_unlike().unwrap_or_else(|| "no node is left".to_owned()),
                false => {
                    format!("nobody answers in time; {} may do so later, and the job goes on then", mute.join(", "))
                }
            };
            self.park(&reason);
            return;
        }
        self.generation.number += 1;
        let generation = self.generation;
        let members = self.members();
        let list: Vec<String> = members.iter().map(NodeId::to_string).collect();
        self.decided(format!("generation {generation} of {}: {reason}", list.join(", ")));
        self.journal(Record::Fenced { generation, members: members.clone() });
        self.show(if self.tally.started { State::Recovering } else { State::Planning });
        self.reconsider = false;
        let mark = self.flush();
        self.phase = Phase::FenceJournaled { mark, members };
    }

    pub(super) fn park(&mut self, reason: &str) {
        self.decided(format!("parked: {reason}"));
        self.show(State::Parked);
        self.phase = Phase::Parked;
        self.refuse_open_persists(&self.parked_reason());
        self.flush_soon();
    }

    pub(super) fn send_fence(&mut self) {
        let Phase::FenceJournaled { members, .. } = &self.phase else { return };
        let members = members.clone();
        let (generation, flushed) = (self.generation, self.watermark());
        for node in &members {
            self.send(*node, ToNode::Fence { generation, members: members.clone(), flushed });
        }
        let patience = self.setup.timing.answer << self.nodes.unanswered(&members).min(MOST_DOUBLINGS);
        let until = self.after(patience);
        self.phase = Phase::Fencing(Fencing { members, inventories: BTreeMap::new(), until });
    }

    /// The step up to which holders may forget records.
    pub(super) fn watermark(&self) -> u64 {
        if self.rules.breaks(Breach::WatermarkAhead) { self.chain.head().step } else { self.chain.flushed() }
    }

    pub(super) fn inventory(&mut self, node: NodeId, inventory: Inventory) {
        let Phase::Fencing(fencing) = &mut self.phase else { return };
        let repeated = fencing.inventories.contains_key(&node);
        if inventory.generation != self.generation || !fencing.members.contains(&node) || repeated {
            return;
        }
        if inventory.seen >= self.generation && !self.rules.breaks(Breach::GenerationReused) {
            // Another coordinator was here, or this one lost its count: go beyond.
            let seen = inventory.seen;
            self.generation.incarnation = seen.incarnation + 1;
            self.generation.number = 0;
            self.fence(&format!("{node} has seen generation {seen}"));
            return;
        }
        fencing.inventories.insert(node, inventory);
        self.nodes.answered(node);
        if fencing.inventories.len() == fencing.members.len() {
            let inventories = std::mem::take(&mut fencing.inventories);
            self.settle(inventories);
        }
    }

    /// Members that owe an answer for too long are left out until they speak again.
    pub(super) fn evict_the_mute(&mut self) {
        let Phase::Fencing(fencing) = &self.phase else { return };
        let owing = fencing.members.iter().filter(|node| !fencing.inventories.contains_key(node));
        let mute: Vec<NodeId> = owing.copied().collect();
        for node in &mute {
            self.nodes.lose(*node, LossCause::Mute);
            self.note(Happening::NodeLost { node: *node, cause: LossCause::Mute });
        }
        if !mute.is_empty() {
            self.fence("members owe an answer for too long");
        }
    }
}
