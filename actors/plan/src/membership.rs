//! Who is here, who is gone and how, and what that means for the job.

use std::collections::{BTreeMap, BTreeSet};

use shoal_config::spec::OnLoss;

use crate::engine::{LossCause, Offer};
use crate::ids::NodeId;

/// Nodes of one job.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    here: BTreeMap<NodeId, Offer>,
    /// Those that live and would compute other bits.
    unlike: BTreeMap<NodeId, Offer>,
    leaving: BTreeSet<NodeId>,
    gone: BTreeMap<NodeId, LossCause>,
    /// Those of them that may speak again, with what they bring.
    mute: BTreeMap<NodeId, Offer>,
    /// How often each owed an answer to a fence for too long since it last gave one.
    unanswered: BTreeMap<NodeId, u32>,
    reports: BTreeMap<(NodeId, NodeId), u32>,
}

impl Nodes {
    /// A node is here (again).
    pub fn join(&mut self, node: NodeId, offer: Offer) {
        self.gone.remove(&node);
        self.mute.remove(&node);
        self.unlike.remove(&node);
        self.here.insert(node, offer);
    }

    /// A node lives, and would compute other bits than those that are here. Says whether that is news.
    pub fn leave_out(&mut self, node: NodeId, offer: Offer) -> bool {
        self.gone.remove(&node);
        self.mute.remove(&node);
        self.here.remove(&node);
        self.leaving.remove(&node);
        self.unlike.insert(node, offer).is_none()
    }

    /// Those that live and would compute other bits, with what they bring.
    #[must_use]
    pub fn unlike(&self) -> &BTreeMap<NodeId, Offer> {
        &self.unlike
    }

    /// A node is gone. Says whether it was here.
    pub fn lose(&mut self, node: NodeId, cause: LossCause) -> bool {
        self.gone.insert(node, cause);
        self.unlike.remove(&node);
        self.leaving.remove(&node);
        self.reports.retain(|(one, other), _| *one != node && *other != node);
        let offer = self.here.remove(&node);
        match cause {
            LossCause::Mute => {
                *self.unanswered.entry(node).or_default() += 1;
                self.mute.extend(offer.clone().map(|offer| (node, offer)));
            }
            LossCause::Died
            | LossCause::Silent
            | LossCause::NotReturned
            | LossCause::Evicted
            | LossCause::Left
            | LossCause::Stalled => drop(self.mute.remove(&node)),
        }
        offer.is_some()
    }

    /// What a node brings that owed an answer to a fence for too long, and nothing else is known against it.
    #[must_use]
    pub fn mute(&self, node: NodeId) -> Option<&Offer> {
        self.mute.get(&node)
    }

    /// Everyone of whom no more is known than that an answer to a fence did not come.
    #[must_use]
    pub fn all_mute(&self) -> Vec<NodeId> {
        self.mute.keys().copied().collect()
    }

    /// A node answered a fence.
    pub fn answered(&mut self, node: NodeId) {
        self.unanswered.remove(&node);
    }

    /// How often in a row the one of these that is worst at it did not answer a fence in time.
    #[must_use]
    pub fn unanswered(&self, of: &[NodeId]) -> u32 {
        of.iter().filter_map(|node| self.unanswered.get(node)).copied().max().unwrap_or(0)
    }

    /// Whether it is worth a try to work with a living node that is not here: nothing but time speaks against it.
    #[must_use]
    pub fn may_try(&self, node: NodeId) -> bool {
        let again = self.gone.get(&node).is_none_or(|cause| match cause {
            LossCause::Silent | LossCause::NotReturned | LossCause::Stalled | LossCause::Mute => true,
            LossCause::Died | LossCause::Evicted | LossCause::Left => false,
        });
        again && !self.is_here(node) && !self.unlike.contains_key(&node)
    }

    /// Whether it is gone and cannot come back with what it held.
    #[must_use]
    pub fn is_known_gone(&self, node: NodeId) -> bool {
        self.gone.get(&node).is_some_and(|cause| !may_return(*cause))
    }

    /// A node took part (again), so its loss is history.
    pub fn forget_loss(&mut self, node: NodeId) {
        self.gone.remove(&node);
    }

    /// A node wishes to leave. Says whether that is news.
    pub fn leave(&mut self, node: NodeId) -> bool {
        self.here.contains_key(&node) && self.leaving.insert(node)
    }

    /// Whether it is here.
    #[must_use]
    pub fn is_here(&self, node: NodeId) -> bool {
        self.here.contains_key(&node)
    }

    /// Everyone here, with what they bring.
    #[must_use]
    pub fn here(&self) -> &BTreeMap<NodeId, Offer> {
        &self.here
    }

    /// Those that wish to leave; none if that would leave nobody.
    #[must_use]
    pub fn leaving(&self) -> BTreeSet<NodeId> {
        if self.leaving.len() == self.here.len() { BTreeSet::new() } else { self.leaving.clone() }
    }

    /// Of these, the ones that are gone but may come back with what they hold.
    #[must_use]
    pub fn may_return(&self, of: impl IntoIterator<Item = NodeId>) -> BTreeSet<NodeId> {
        of.into_iter().filter(|node| self.gone.get(node).is_some_and(|cause| may_return(*cause))).collect()
    }

    /// Two nodes cannot reach each other, says `by`. From the second report about a pair on, one of them has to go:
    /// whoever is named in more pairs, then whoever came last.
    pub fn unreachable(&mut self, by: NodeId, peer: NodeId) -> Option<NodeId> {
        if !self.is_here(by) || !self.is_here(peer) || by == peer {
            return None;
        }
        let pair = (by.min(peer), by.max(peer));
        let count = self.reports.entry(pair).or_default();
        *count += 1;
        if *count < 2 {
            return None;
        }
        let named = |node: NodeId| self.reports.keys().filter(|(one, other)| *one == node || *other == node).count();
        Some(if named(pair.0) > named(pair.1) { pair.0 } else { pair.1 })
    }

    /// Steps went by: what was reported of links is old.
    pub fn forget_reports(&mut self) {
        self.reports.clear();
    }
}

fn may_return(cause: LossCause) -> bool {
    match cause {
        LossCause::Silent | LossCause::NotReturned | LossCause::Mute => true,
        LossCause::Died | LossCause::Evicted | LossCause::Left | LossCause::Stalled => false,
    }
}

/// What to do when members do not hold everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// For these nodes to come back with it.
    Wait(BTreeSet<NodeId>),
    /// Go back to the newest durable state.
    Rollback,
    /// End the job.
    Halt,
}

/// Decides what to do when `lost` (for people) has no holder left: `holders` of the plan in force may come back once.
#[must_use]
pub fn decide(
    nodes: &Nodes,
    holders: &BTreeSet<NodeId>,
    waited: bool,
    on_loss: OnLoss,
    lost: &str,
) -> (Verdict, String) {
    let absent = nodes.may_return(holders.iter().copied());
    if !waited && !absent.is_empty() {
        let names: Vec<String> = absent.iter().map(NodeId::to_string).collect();
        let reason = format!("{lost} is held by nobody here; waiting for {} to come back with it", names.join(", "));
        return (Verdict::Wait(absent), reason);
    }
    match on_loss {
        OnLoss::Rollback => (Verdict::Rollback, format!("{lost} has no holder left; on_loss = rollback")),
        OnLoss::Halt => (Verdict::Halt, format!("{lost} has no holder left; on_loss = halt")),
    }
}

#[cfg(test)]
mod tests {
    use shoal_exact::Arithmetic;

    use super::*;

    fn offer() -> Offer {
        Offer { budget_bytes: 1, threads: 1, class: "v3".into(), arithmetic: Arithmetic::Fused }
    }

    fn nodes(ids: impl IntoIterator<Item = u64>) -> Nodes {
        let mut nodes = Nodes::default();
        for id in ids {
            nodes.join(NodeId(id), offer());
        }
        nodes
    }

    #[test]
    fn the_second_report_evicts_whoever_is_named_more() {
        let mut n = nodes(1..=4);
        assert_eq!(n.unreachable(NodeId(2), NodeId(3)), None);
        assert_eq!(n.unreachable(NodeId(4), NodeId(2)), None);
        assert_eq!(n.unreachable(NodeId(3), NodeId(2)), Some(NodeId(2)));
        let mut n = nodes(1..=4);
        assert_eq!(n.unreachable(NodeId(1), NodeId(4)), None);
        assert_eq!(n.unreachable(NodeId(1), NodeId(4)), Some(NodeId(4)));
    }

    #[test]
    fn the_last_node_cannot_leave() {
        let mut n = nodes([1, 2]);
        assert!(n.leave(NodeId(1)) && !n.leave(NodeId(1)));
        assert_eq!(n.leaving().len(), 1);
        n.lose(NodeId(2), LossCause::Died);
        assert!(n.leaving().is_empty());
    }

    #[test]
    fn a_silent_holder_is_waited_for_once_a_dead_one_never() {
        let holders = BTreeSet::from([NodeId(1), NodeId(2)]);
        let mut n = nodes([1, 2]);
        n.lose(NodeId(1), LossCause::Died);
        assert_eq!(decide(&n, &holders, false, OnLoss::Rollback, "b1").0, Verdict::Rollback);
        n.lose(NodeId(2), LossCause::Silent);
        assert_eq!(decide(&n, &holders, false, OnLoss::Halt, "b1").0, Verdict::Wait(BTreeSet::from([NodeId(2)])));
        assert_eq!(decide(&n, &holders, true, OnLoss::Halt, "b1").0, Verdict::Halt);
    }
}
