//! Who is in the cluster, as a value: no clock, no links.
//!
//! MB-1 (lost is for good): a node that is gone never comes back under its id, nor to a later coordinator.
//! MB-2 (own lateness): every deadline moves by as much as the watcher itself was late.

use std::collections::{BTreeMap, BTreeSet};

use shoal_config::node::own_memory;
use shoal_plan::engine::{LossCause, Millis, Offer, Timing};
use shoal_plan::ids::{JobId, NodeId};
use shoal_wire::api::{NodeInfo, NodeState};
use shoal_wire::control::{Introduction, Peer};

/// When a silent worker is what, and how long jobs wait. A worker's heartbeat comes every [`HEARTBEAT_MS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Milliseconds without a heartbeat after which it is suspect.
    pub suspect: u64,
    /// Milliseconds without a heartbeat after which it is lost.
    pub lost: u64,
    /// What the engine of every job waits for, and how long.
    pub jobs: Timing,
}

/// Milliseconds for which a node that is gone is still shown.
pub(super) const GONE_SHOWN_MS: u64 = 600_000;

/// Milliseconds between two heartbeats of a worker.
pub const HEARTBEAT_MS: u64 = 100;

impl Default for Patience {
    fn default() -> Self {
        Self { suspect: 1_000, lost: 5_000, jobs: Timing::default() }
    }
}

/// Everyone who has been seen since this coordinator started.
#[derive(Debug, Default)]
pub(super) struct Members {
    patience: Patience,
    nodes: BTreeMap<NodeId, Member>,
    /// Gone before this coordinator started.
    gone: BTreeSet<NodeId>,
}

/// One worker process.
#[derive(Debug)]
pub(super) struct Member {
    /// What it said of itself.
    pub(super) introduction: Introduction,
    /// Bytes its arenas hold.
    pub(super) used_bytes: u64,
    /// Jobs that it has been told about since its link came up.
    pub(super) told: BTreeSet<JobId>,
    presence: Presence,
    wish: Wish,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    /// Linked; `heard` at that time.
    Here { heard: Millis },
    /// The link broke while the process lived.
    Apart { since: Millis },
    /// Lost or left, at that time.
    Gone { since: Millis },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Stay,
    Leave,
}

/// What an introduction amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// Someone new.
    Joined,
    /// Someone known whose link broke: messages may be missing.
    Returned,
}

impl Members {
    pub(super) fn new(patience: Patience, gone: BTreeSet<NodeId>) -> Self {
        Self { patience, nodes: BTreeMap::new(), gone }
    }

    /// How long jobs wait for what.
    pub(super) fn timing(&self) -> Timing {
        self.patience.jobs
    }

    /// Whether a process that had this id may have it again.
    pub(super) fn may_return(&self, node: NodeId) -> bool {
        !self.gone.contains(&node) && self.nodes.get(&node).is_none_or(Member::is_living)
    }

    /// The living node of this name, or with this id as its name. A name that came back is the newer process: one that has
    /// just died may still count as living.
    pub(super) fn find(&self, name: &str) -> Option<NodeId> {
        let mut newest = self.nodes.iter().rev().filter(|(_, member)| member.is_living());
        newest.find(|(node, m)| m.introduction.name == name || node.to_string() == name).map(|(node, _)| *node)
    }

    /// A link to `node` is up and this is what it says of itself.
    pub(super) fn arrive(&mut self, now: Millis, node: NodeId, introduction: Introduction) -> Arrival {
        let presence = Presence::Here { heard: now };
        match self.nodes.get_mut(&node) {
            Some(member) => {
                member.introduction = introduction;
                member.presence = presence;
                member.told.clear();
                Arrival::Returned
            }
            None => {
                let told = BTreeSet::new();
                self.nodes.insert(node, Member { introduction, used_bytes: 0, told, presence, wish: Wish::Stay });
                Arrival::Joined
            }
        }
    }

    /// A heartbeat came. Whether it says something new.
    pub(super) fn heartbeat(&mut self, now: Millis, node: NodeId, used_bytes: u64) -> bool {
        let Some(member) = self.nodes.get_mut(&node) else { return false };
        if let Presence::Here { heard } = &mut member.presence {
            *heard = now;
        }
        std::mem::replace(&mut member.used_bytes, used_bytes) != used_bytes
    }

    /// The link broke though the process lives.
    pub(super) fn part(&mut self, now: Millis, node: NodeId) {
        if let Some(member) = self.nodes.get_mut(&node)
            && member.is_living()
        {
            member.presence = Presence::Apart { since: now };
        }
    }

    /// It is lost or has left; false if that was known.
    pub(super) fn lose(&mut self, now: Millis, node: NodeId) -> bool {
        match self.nodes.get_mut(&node) {
            Some(member) if member.is_living() => {
                member.presence = Presence::Gone { since: now };
                member.used_bytes = 0;
                true
            }
            Some(_) => false,
            None => self.gone.insert(node),
        }
    }

    /// Whether it was there before this coordinator started, and has neither come back nor is gone.
    pub(super) fn is_absent(&self, node: NodeId) -> bool {
        !self.gone.contains(&node) && !self.nodes.contains_key(&node)
    }

    /// It wishes to leave; false if that was known or it is gone.
    pub(super) fn leave(&mut self, node: NodeId) -> bool {
        match self.nodes.get_mut(&node) {
            Some(member) if member.is_living() && member.wish == Wish::Stay => {
                member.wish = Wish::Leave;
                true
            }
            Some(_) | None => false,
        }
    }

    /// Whether it said that it wishes to leave.
    pub(super) fn is_leaving(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|member| member.wish == Wish::Leave)
    }

    /// How a goodbye of this node is to be understood.
    pub(super) fn farewell(&self, node: NodeId) -> LossCause {
        if self.is_leaving(node) { LossCause::Left } else { LossCause::Died }
    }

    /// Nodes whose heartbeat is overdue. The watcher itself is `late` milliseconds behind its own timer.
    pub(super) fn overdue(&mut self, now: Millis, late: u64) -> Vec<NodeId> {
        let mut overdue = Vec::new();
        for (node, member) in &mut self.nodes {
            let (Presence::Here { heard: since } | Presence::Apart { since }) = &mut member.presence else { continue };
            since.0 = (since.0 + late).min(now.0);
            if now.0 - since.0 >= self.patience.lost {
                overdue.push(*node);
            }
        }
        overdue
    }

    /// Living nodes with what they offer, leaving ones left out.
    pub(super) fn offers(&self) -> Vec<(NodeId, Offer)> {
        let staying = self.nodes.iter().filter(|(_, m)| m.is_living() && m.wish == Wish::Stay);
        staying.map(|(node, member)| (*node, member.offer())).collect()
    }

    /// Nodes with a link.
    pub(super) fn linked(&self) -> Vec<NodeId> {
        let here = self.nodes.iter().filter(|(_, m)| matches!(m.presence, Presence::Here { .. }));
        here.map(|(node, _)| *node).collect()
    }

    /// Everyone living, for everyone else.
    pub(super) fn peers(&self) -> Vec<Peer> {
        let living = self.nodes.iter().filter(|(_, m)| m.is_living());
        let peer = |(node, member): (&NodeId, &Member)| {
            let Introduction { name, address, .. } = &member.introduction;
            Peer { node: *node, name: name.clone(), address: *address }
        };
        living.map(peer).collect()
    }

    pub(super) fn get_mut(&mut self, node: NodeId) -> Option<&mut Member> {
        self.nodes.get_mut(&node)
    }

    /// What `nodes` shows: the newest process of every name, unless it is gone for long. `w2` comes before `w10`.
    pub(super) fn infos(&self, now: Millis) -> Vec<NodeInfo> {
        let mut newest = BTreeMap::new();
        for (node, member) in &self.nodes {
            let name = &member.introduction.name;
            let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
            let number: Option<u64> = name[stem.len()..].parse().ok();
            newest.insert((stem, number, name), (*node, member));
        }
        let shown = newest.into_values().filter(|(_, member)| match member.presence {
            Presence::Gone { since } => now.0.saturating_sub(since.0) < GONE_SHOWN_MS,
            Presence::Here { .. } | Presence::Apart { .. } => true,
        });
        shown.map(|(node, member)| self.info(now, node, member)).collect()
    }

    fn info(&self, now: Millis, node: NodeId, member: &Member) -> NodeInfo {
        let state = match (member.presence, member.wish) {
            (Presence::Gone { .. }, _) => NodeState::Gone,
            (Presence::Apart { .. }, _) => NodeState::Suspect,
            (Presence::Here { heard }, _) if now.0.saturating_sub(heard.0) >= self.patience.suspect => {
                NodeState::Suspect
            }
            (Presence::Here { .. }, Wish::Leave) => NodeState::Draining,
            (Presence::Here { .. }, Wish::Stay) => NodeState::Ready,
        };
        NodeInfo {
            node: member.introduction.name.clone(),
            id: node.to_string(),
            pid: member.introduction.pid,
            role: vec!["worker".to_owned()],
            address: member.introduction.address.to_string(),
            state,
            budget_bytes: member.introduction.budget_bytes,
            used_bytes: member.used_bytes,
            class: member.introduction.class.clone(),
            arithmetic: member.introduction.arithmetic.to_string(),
            left_out: None,
        }
    }
}

impl Member {
    fn is_living(&self) -> bool {
        match self.presence {
            Presence::Here { .. } | Presence::Apart { .. } => true,
            Presence::Gone { .. } => false,
        }
    }

    /// What it brings: of its memory, what its devices leave.
    pub(super) fn offer(&self) -> Offer {
        let own = own_memory(self.introduction.threads);
        Offer {
            budget_bytes: self.introduction.budget_bytes.saturating_sub(own.0),
            threads: self.introduction.threads,
            class: self.introduction.class.clone(),
            arithmetic: self.introduction.arithmetic,
        }
    }
}

#[cfg(test)]
mod tests;
