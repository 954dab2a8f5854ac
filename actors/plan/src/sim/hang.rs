//! A device that hangs while its node lives.

use super::actor::{Actor, Life, Task};
use super::world::{Coming, MILLI, World};
use crate::ids::NodeId;
use crate::protocol::InHand;

/// A device's thread that does not come back from what it does.
#[derive(Clone, Debug)]
pub(super) struct Hung {
    pub since: u64,
    /// Whether the node can tell.
    pub told: bool,
    /// What waits for it.
    pub waiting: Vec<Coming>,
}

impl Actor {
    /// What the node can say of its threads.
    pub(super) fn in_hand(&self, now: u64) -> Option<InHand> {
        let hung = self.hung.as_ref().filter(|hung| hung.told)?;
        Some(InHand { what: "compute device".into(), millis: (now - hung.since) / MILLI })
    }
}

impl Task {
    /// Whether the device's thread does it.
    pub(super) fn is_computed(&self) -> bool {
        match self {
            Self::Apply { .. } | Self::Persist { .. } | Self::Fill { .. } | Self::Serve { .. } | Self::Seat { .. } => {
                true
            }
            Self::Report { .. } | Self::StageFailed { .. } => false,
        }
    }
}

impl World {
    pub(super) fn hang_device(&mut self, node: NodeId) -> bool {
        let now = self.now;
        // Some hang for good, and some of those that do not cannot tell: it is no thread of theirs that hangs.
        let (for_good, told) = (self.rng.one_in(3), !self.rng.one_in(4));
        let time = if self.rng.one_in(2) { self.rng.within(10, 400) } else { self.rng.within(400, 3000) } * MILLI;
        let up = self.up().len();
        let Some(actor) = self.nodes.get_mut(&node) else { return false };
        if !matches!(actor.life, Life::Up) || actor.hung.is_some() {
            return false;
        }
        actor.hung = Some(Hung { since: now, told: told || for_good, waiting: Vec::new() });
        if !for_good {
            self.queue.push(now + time, Coming::DeviceGoesOn(node));
        }
        if up <= 3 || !self.rng.one_in(4) {
            let delay = self.rng.within(1, 25) * MILLI;
            self.queue.push(now + delay, Coming::NewNode);
        }
        true
    }

    /// What the operator does about nodes that a parked job names: some will never go on.
    pub(super) fn end_the_hung(&mut self) {
        let hung: Vec<NodeId> =
            self.nodes.values().filter(|actor| actor.hung.is_some()).map(|actor| actor.id).collect();
        for node in hung {
            self.trace(|| format!("the operator ends {node}"));
            self.kill(node);
        }
    }

    pub(super) fn device_goes_on(&mut self, node: NodeId) {
        let Some(hung) = self.nodes.get_mut(&node).and_then(|actor| actor.hung.take()) else { return };
        self.trace(|| format!("the device of {node} goes on"));
        self.judge.last_hung = Some(self.now);
        for coming in hung.waiting {
            self.queue.push(self.now, coming);
        }
    }
}
