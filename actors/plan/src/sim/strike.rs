//! Faults happen.

use super::actor::{Life, Task};
use super::faults::{Fault, Help, Planned};
use super::world::{Coming, MILLI, World};
use crate::engine::{Event, LossCause};
use crate::holder::HolderEvent;
use crate::ids::NodeId;
use crate::protocol::Trouble;

impl World {
    /// Strikes a fault whose point was reached at a node.
    pub(super) fn strike(&mut self, planned: Planned, at: NodeId) {
        let Planned { fault, point, .. } = planned;
        let up = self.up();
        let at = if self.is_up(at) { at } else { self.rng.pick(&up).unwrap_or(at) };
        self.trace(|| format!("FAULT {fault} at {point}, {at}"));
        let done = match fault {
            Fault::Kill => self.kill(at),
            Fault::KillOther => {
                let others: Vec<NodeId> = self.up().into_iter().filter(|node| *node != at).collect();
                self.rng.pick(&others).is_some_and(|node| self.kill(node))
            }
            Fault::CoordinatorRestart => {
                self.coordinator_dies();
                true
            }
            Fault::LinkReset => self.reset_link(at),
            Fault::PeerBreak => self.break_peers(at),
            Fault::Stop => self.stop(at, Life::Stopped(Vec::new())),
            Fault::Partition => self.stop(at, Life::CutOff),
            Fault::StagePanic => self.panic_stage(at),
            Fault::DeviceHang => self.hang_device(at),
            Fault::HoldingLost => self.lose_slot(at),
            Fault::Join => {
                self.queue.push(self.now + 100, Coming::NewNode);
                true
            }
            Fault::Drain => {
                let can = up.len() > 2 && self.is_up(at);
                if can {
                    self.leaving.insert(at);
                    self.fact(200, Event::Draining { node: at });
                    self.queue.push(self.now + 5 * MILLI, Coming::NewNode);
                }
                can
            }
            Fault::Repeat => self.repeat(at),
            Fault::Late => self.delay(at),
        };
        if done {
            self.outcome.faults += 1;
            *self.outcome.hits.entry((fault, point)).or_default() += 1;
        } else if planned.tries < 6 {
            self.planned.insert(0, Planned { tries: planned.tries + 1, ..planned });
        }
    }

    /// Makes happen what leads to a point.
    pub(super) fn help(&mut self, help: Help) {
        let up = self.up();
        let Some(node) = self.rng.pick(&up) else { return };
        match help {
            Help::Nothing => {}
            Help::Fence => {
                self.reset_link(node);
            }
            Help::Loss => {
                if self.judge.is_full() {
                    self.kill(node);
                    self.queue.push(self.now + 2 * MILLI, Coming::NewNode);
                }
            }
            Help::Move => {
                if up.len() > 2 {
                    self.leaving.insert(node);
                    self.fact(100, Event::Draining { node });
                    self.queue.push(self.now + 2 * MILLI, Coming::NewNode);
                }
            }
        }
    }

    fn is_up(&self, node: NodeId) -> bool {
        matches!(self.nodes.get(&node).map(|actor| &actor.life), Some(Life::Up))
    }

    pub(super) fn kill(&mut self, node: NodeId) -> bool {
        // What it sent last may be gone with its buffers.
        let cut = if self.rng.one_in(2) { self.now } else { self.now.saturating_sub(self.rng.within(0, 300)) };
        let late = if self.rng.one_in(2) { self.now } else { self.now + self.rng.within(0, 300) };
        let up = self.up().len();
        let Some(actor) = self.nodes.get_mut(&node) else { return false };
        if matches!(actor.life, Life::Dead { .. }) {
            return false;
        }
        actor.life = Life::Dead { cut, late };
        let known = std::mem::take(&mut actor.known);
        if actor.hung.take().is_some() {
            self.judge.last_hung = Some(self.now);
        }
        actor.slots.clear();
        self.judge.harm(node);
        if known {
            let delay = self.rng.within(300, 3000);
            self.lost(node, LossCause::Died, delay);
        }
        if up <= 3 || !self.rng.one_in(4) {
            let delay = self.rng.within(1, 25) * MILLI;
            self.queue.push(self.now + delay, Coming::NewNode);
        }
        true
    }

    fn reset_link(&mut self, node: NodeId) -> bool {
        let Some(actor) = self.nodes.get_mut(&node) else { return false };
        if !actor.known {
            return false;
        }
        actor.link += 1;
        let delay = self.rng.within(200, 3000);
        self.fact(delay, Event::LinkReset { node });
        true
    }

    fn break_peers(&mut self, node: NodeId) -> bool {
        let others: Vec<NodeId> = self.up().into_iter().filter(|other| *other != node).collect();
        let Some(peer) = self.rng.pick(&others) else { return false };
        let long = self.rng.one_in(3);
        let time = if long { self.rng.within(50, 400) * MILLI } else { self.rng.within(100, 3000) };
        self.broken.insert((node.min(peer), node.max(peer)), self.now + time);
        true
    }

    fn stop(&mut self, node: NodeId, how: Life) -> bool {
        if !self.is_up(node) {
            return false;
        }
        let long = self.rng.one_in(2);
        let cut_off = matches!(how, Life::CutOff);
        let forged = self.computation.salted && self.rng.one_in(3);
        let detected = self.rng.within(5, 12) * MILLI;
        // A cut connection is always noticed; a stopped process may go on in time. Some come back when they are given up.
        let time = match (long || cut_off, self.rng.one_in(4)) {
            (true, true) => detected + self.rng.within(130, 300) * MILLI,
            (true, false) => detected + self.rng.within(1, 60) * MILLI,
            (false, _) => self.rng.within(1, 5) * MILLI,
        };
        // Now and then another goes at the same time, so that what the two held has to be waited for or given up.
        if time > 130 * MILLI && self.rng.one_in(2) {
            let plan = self.coordinator.engine.as_ref().and_then(|engine| engine.plan());
            let pieces = plan.iter().flat_map(|plan| &plan.pieces).filter(|p| p.holders().any(|holder| holder == node));
            let others: Vec<NodeId> = pieces.flat_map(|piece| piece.holders()).filter(|other| *other != node).collect();
            if let Some(other) = self.rng.pick(&others) {
                self.kill(other);
            }
        }
        if let Some(actor) = self.nodes.get_mut(&node) {
            actor.life = how;
            actor.forged = forged && (long || cut_off);
        }
        self.queue.push(self.now + detected, Coming::TakenForLost(node));
        self.queue.push(self.now + time, Coming::GoOn(node));
        true
    }

    pub(super) fn go_on(&mut self, node: NodeId) {
        let Some(actor) = self.nodes.get_mut(&node) else { return };
        match std::mem::replace(&mut actor.life, Life::Up) {
            Life::Stopped(waiting) => {
                self.trace(|| format!("{node} goes on"));
                for coming in waiting {
                    self.queue.push(self.now, coming);
                }
            }
            Life::CutOff => self.trace(|| format!("{node} is heard again")),
            other @ (Life::Up | Life::Dead { .. }) => {
                actor.life = other;
                return;
            }
        }
        let delay = self.rng.within(300, 4000);
        self.queue.push(self.now + delay, Coming::Rejoin(node));
    }

    fn panic_stage(&mut self, node: NodeId) -> bool {
        let Some(actor) = self.nodes.get(&node) else { return false };
        if !matches!(actor.life, Life::Up) {
            return false;
        }
        let cause = "index out of bounds".to_owned();
        self.queue.push(self.now + 50, Coming::Task(node, Task::StageFailed { cause }));
        true
    }

    fn lose_slot(&mut self, at: NodeId) -> bool {
        let holds = |node: &NodeId| self.is_up(*node) && !self.nodes[node].slots.is_empty();
        let Some(node) = std::iter::once(at).chain(self.up()).find(holds) else { return false };
        let slots: Vec<_> = self.nodes[&node].slots.keys().copied().collect();
        let Some(slot) = self.rng.pick(&slots) else { return false };
        if let Some(actor) = self.nodes.get_mut(&node) {
            actor.slots.remove(&slot);
            actor.lost.push(slot);
            actor.hurt = true;
        }
        self.judge.holding_lost();
        let trouble = Trouble::HoldingLost { cause: "the actor panicked".into() };
        self.hold(node, HolderEvent::Trouble { trouble, lost: vec![slot] });
        true
    }

    /// Control messages and transfers of a node, or of all, that are under way.
    fn under_way(&self, node: Option<NodeId>) -> Vec<Coming> {
        let involved = |coming: &&Coming| match coming {
            Coming::ToNode { node: to, .. } => node.is_none_or(|node| *to == node),
            Coming::FromNode { node: from, .. } => node.is_none_or(|node| *from == node),
            Coming::Bulk(bulk) => node.is_none_or(|node| bulk.from == node || bulk.to == node),
            Coming::Task(..)
            | Coming::Fact(..)
            | Coming::OnDisk { .. }
            | Coming::CoordinatorUp
            | Coming::GoOn(_)
            | Coming::DeviceGoesOn(_)
            | Coming::TakenForLost(_)
            | Coming::Rejoin(_)
            | Coming::NewNode
            | Coming::Operator
            | Coming::Arm => false,
        };
        self.queue.pending().filter(involved).cloned().collect()
    }

    fn repeat(&mut self, node: NodeId) -> bool {
        let mut under_way = self.under_way(Some(node));
        if under_way.is_empty() {
            under_way = self.under_way(None);
        }
        for coming in &under_way {
            let later = self.now + self.rng.within(300, 20 * MILLI);
            self.queue.push(later, coming.clone());
        }
        !under_way.is_empty()
    }

    /// What is under way stays so for long. Control messages stay in order; transfers do not.
    fn delay(&mut self, node: NodeId) -> bool {
        let time = self.rng.within(1, 8) * MILLI;
        let luck = self.rng.within(0, u64::MAX);
        let all = self.under_way(Some(node)).is_empty();
        let mut i = 0;
        let hit = self.queue.delay(|coming| {
            i += 1;
            match coming {
                Coming::ToNode { node: to, .. } if all || *to == node => Some(time),
                Coming::FromNode { node: from, .. } if all || *from == node => Some(time),
                Coming::Bulk(bulk) if all || bulk.from == node || bulk.to == node => {
                    Some(super::model::mix(luck, i) % (8 * MILLI))
                }
                _ => None,
            }
        });
        for actor in self.nodes.values_mut().filter(|actor| all || actor.id == node) {
            actor.last_in = actor.last_in.max(self.now) + time;
            actor.last_out = actor.last_out.max(self.now) + time;
        }
        hit
    }
}
