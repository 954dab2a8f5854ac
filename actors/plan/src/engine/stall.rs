//! What is done when nothing moves: another attempt, an eviction, or parking.

use std::collections::{BTreeMap, BTreeSet};

use super::face::{Command, LossCause};
use super::phase::Phase;
use super::watchdog::{Awaited, MOST_STALLS};
use super::{Engine, Happening};
use crate::ids::NodeId;
use crate::planner::Held;
use crate::protocol::{InHand, Inventory, ToNode};
use crate::rules::Breach;

impl Engine {
    pub(super) fn stalled(&mut self, owed: Awaited) {
        let Awaited { what, from, patience, .. } = owed;
        let who = if from.is_empty() { "though all have reported".into() } else { unheard(&from, "not reported") };
        let what = format!("{what}: {who}");
        let reason = format!("no progress for {} in {what}", seconds(patience));
        self.note(Happening::Stalled { what, waited: patience });
        self.give_another_try(from, patience, &reason);
    }

    /// Members are not ready in time.
    pub(super) fn deploy_overdue(&mut self) {
        let Phase::Deploying(deploying) = &self.phase else { return };
        let members = deploying.deployment.members.iter();
        let mute: BTreeSet<NodeId> = members.filter(|node| !deploying.ready.contains(node)).copied().collect();
        let patience = self.patience_to_deploy();
        let reason = format!("no start after {}: {}", seconds(patience), unheard(&mute, "not said that it is ready"));
        self.give_another_try(mute, patience, &reason);
    }

    fn give_another_try(&mut self, mute: BTreeSet<NodeId>, waited: u64, reason: &str) {
        let all: Vec<NodeId> = mute.iter().copied().filter(|_| self.rules.breaks(Breach::MuteEvicted)).collect();
        self.watchdog.stalled(mute, waited);
        if all.is_empty() {
            self.fence(reason);
        } else {
            self.expel(all.into_iter().map(|node| (node, reason.to_owned())).collect());
        }
    }

    /// Nothing moved, and now everyone has said what they have in hand. Says whether that settles it. Whoever holds what nobody
    /// else does is never sent away: what it does may yet come to an end, and what it holds would not come back.
    pub(super) fn judge_stall(&mut self, inventories: &BTreeMap<NodeId, Inventory>, held: &Held) -> bool {
        let Some(waited) = self.watchdog.asked.take() else { return false };
        let in_hand = inventories.iter().filter_map(|(node, i)| i.in_hand.as_ref().map(|in_hand| (*node, in_hand)));
        let stuck = in_hand.filter(|(_, in_hand)| in_hand.millis >= waited / 2);
        let why = |InHand { what, millis }: &InHand| {
            format!("its {what} has been in one piece of work for {}", seconds(*millis))
        };
        let stuck: BTreeMap<NodeId, String> = stuck.map(|(node, in_hand)| (node, why(in_hand))).collect();
        if !stuck.is_empty()
            && (self.spares(stuck.keys(), inventories, held) || self.rules.breaks(Breach::StuckEvicted))
        {
            self.expel(stuck);
            return true;
        }
        let stalls = self.watchdog.stalls;
        let mute: BTreeSet<NodeId> =
            self.watchdog.mute.iter().copied().filter(|n| inventories.contains_key(n)).collect();
        if stalls > 1 && stuck.is_empty() && !mute.is_empty() && self.spares(&mute, inventories, held) {
            let why = format!("it was mute in {stalls} attempts in a row, and the others hold everything");
            self.expel(mute.into_iter().map(|node| (node, why.clone())).collect());
            return true;
        }
        if stalls >= MOST_STALLS {
            self.watchdog.forgive();
            let cause = match stuck.is_empty() {
                true => "no node can be told to be the cause".to_owned(),
                false => {
                    let stuck: Vec<String> = stuck.iter().map(|(node, why)| format!("{node}: {why}")).collect();
                    format!("{}; without it state would be lost, so it stays", stuck.join("; "))
                }
            };
            self.park(&format!(
                "{stalls} attempts after step {} made no progress, the last in {}: {cause}; look at the nodes' logs, then \
                 resume the job: everything it holds is kept",
                self.chain.head().step,
                seconds(waited),
            ));
            return true;
        }
        false
    }

    /// Whether there are others who answered, and they hold everything.
    fn spares<'a>(
        &self,
        nodes: impl IntoIterator<Item = &'a NodeId>,
        inventories: &BTreeMap<NodeId, Inventory>,
        held: &Held,
    ) -> bool {
        let nodes: BTreeSet<NodeId> = nodes.into_iter().copied().collect();
        let here = self.nodes.here().iter().filter(|(node, _)| inventories.contains_key(node) && !nodes.contains(node));
        let others: BTreeMap<NodeId, _> = here.map(|(node, offer)| (*node, offer.clone())).collect();
        let nothing_to_lose = self.chain.head().step == 0;
        !others.is_empty() && (nothing_to_lose || held.lost(&self.setup.table, &others).is_none())
    }

    /// Sends living nodes away, each for its reason.
    fn expel(&mut self, nodes: BTreeMap<NodeId, String>) {
        let mut reasons = Vec::new();
        for (node, reason) in nodes {
            self.nodes.lose(node, LossCause::Stalled);
            self.note(Happening::NodeLost { node, cause: LossCause::Stalled });
            self.out.push(Command::Dismiss { node });
            self.send(node, ToNode::Release { generation: self.generation });
            reasons.push(format!("{node} is evicted: {reason}"));
        }
        self.watchdog.forgive();
        self.watchdog.asked = None;
        self.fence(&reasons.join("; "));
    }
}

fn unheard(nodes: &BTreeSet<NodeId>, what: &str) -> String {
    let names: Vec<String> = nodes.iter().map(NodeId::to_string).collect();
    format!("{} ha{} {what}", names.join(", "), if nodes.len() == 1 { "s" } else { "ve" })
}

fn seconds(millis: u64) -> String {
    format!("{}.{} s", millis / 1000, millis % 1000 / 100)
}
