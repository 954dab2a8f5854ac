//! Nodes come, go and complain.

use std::collections::BTreeSet;

use super::face::{LossCause, Offer, State};
use super::phase::{Persists, Phase, Standing, Validation};
use super::{Engine, Happening};
use crate::ids::NodeId;
use crate::protocol::{FromNode, ToNode, Trouble};

/// Stage failures without a commit in between, after which the job has failed.
const MOST_STAGE_FAILURES: u32 = 6;

impl Engine {
    pub(super) fn joined(&mut self, node: NodeId, offer: Offer) {
        if self.state.is_over() {
            self.nodes.join(node, offer);
            if matches!(self.phase, Phase::Over) {
                self.send(node, ToNode::Release { generation: self.generation });
            }
            return;
        }
        if let Some(arithmetic) = self.arithmetic().filter(|arithmetic| *arithmetic != offer.arithmetic) {
            self.leave_out(node, offer, arithmetic);
            return;
        }
        let back = self.nodes.is_here(node);
        self.nodes.join(node, offer);
        if back {
            self.link_reset(node);
            return;
        }
        self.note(Happening::NodeJoined { node });
        match &self.phase {
            Phase::Queued => {
                let until = self.after(self.setup.timing.gather);
                self.phase = Phase::Gathering { until };
            }
            Phase::Parked => {
                let expected = self.absent_holders();
                if expected.is_empty() {
                    let until = self.after(self.setup.timing.gather);
                    self.phase = Phase::Gathering { until };
                } else {
                    let until = Some(self.after(self.setup.timing.absence));
                    self.phase = Phase::Absent { until, expected };
                }
            }
            Phase::Absent { .. } => self.go_on_if_all_are_back(),
            Phase::Gathering { .. } => {}
            Phase::FenceJournaled { .. }
            | Phase::Fencing(_)
            | Phase::DeployJournaled { .. }
            | Phase::Deploying(_)
            | Phase::Running(_) => {
                self.reconsider = true;
                self.replan_if_idle();
            }
            Phase::Closing { .. } | Phase::Over => {}
        }
    }

    pub(super) fn lost(&mut self, node: NodeId, cause: LossCause) {
        let was_mute = self.nodes.mute(node).is_some();
        if !self.nodes.lose(node, cause) && !matches!(self.phase, Phase::Absent { .. }) {
            if was_mute {
                self.note(Happening::NodeLost { node, cause });
            }
            return;
        }
        self.note(Happening::NodeLost { node, cause });
        self.without(node, &format!("{node} is lost: {cause}"));
    }

    /// Whoever was left out because an answer did not come lives after all: it is a member again. What it says belongs to a
    /// generation that went on without it.
    pub(super) fn speaks_again(&mut self, node: NodeId) {
        if let Some(offer) = self.nodes.mute(node).cloned() {
            self.joined(node, offer);
        }
    }

    /// Sends a living node away.
    pub(super) fn evict(&mut self, node: NodeId, reason: &str) {
        self.nodes.lose(node, LossCause::Evicted);
        self.note(Happening::NodeLost { node, cause: LossCause::Evicted });
        self.send(node, ToNode::Release { generation: self.generation });
        self.without(node, &format!("{node} is evicted: {reason}"));
    }

    fn without(&mut self, node: NodeId, reason: &str) {
        match &mut self.phase {
            Phase::Gathering { .. } => {
                if self.nodes.here().is_empty() {
                    self.phase = if self.tally.started { Phase::Parked } else { Phase::Queued };
                }
            }
            Phase::Absent { expected, .. } => {
                if self.nodes.may_return([node]).is_empty() {
                    expected.remove(&node);
                }
                self.go_on_if_all_are_back();
            }
            Phase::FenceJournaled { .. } | Phase::Fencing(_) | Phase::DeployJournaled { .. } | Phase::Deploying(_) => {
                self.fence(reason);
            }
            Phase::Running(running) => {
                if running.audience.contains(&node) {
                    self.fence(reason);
                }
            }
            Phase::Queued | Phase::Parked | Phase::Closing { .. } | Phase::Over => {}
        }
    }

    fn absent_holders(&self) -> BTreeSet<NodeId> {
        self.nodes.may_return(self.standing.as_ref().map(Standing::nodes).unwrap_or_default())
    }

    pub(super) fn go_on_if_all_are_back(&mut self) {
        let Phase::Absent { expected, .. } = &self.phase else { return };
        if expected.iter().all(|node| self.nodes.is_here(*node)) {
            self.fence("everyone expected is back");
        }
    }

    /// The clock of an absence starts with the first tick.
    pub(super) fn wait_for_the_absent(&mut self) {
        let Phase::Absent { until: None, expected } = &self.phase else { return };
        let expected = expected.clone();
        let until = Some(self.after(self.setup.timing.absence));
        self.phase = Phase::Absent { until, expected };
        self.show(if self.tally.started { State::Recovering } else { State::Planning });
    }

    pub(super) fn absence_over(&mut self) {
        let Phase::Absent { expected, .. } = &self.phase else { return };
        let missing: Vec<NodeId> = expected.iter().filter(|node| !self.nodes.is_here(**node)).copied().collect();
        for node in &missing {
            self.nodes.lose(*node, LossCause::NotReturned);
            self.note(Happening::NodeLost { node: *node, cause: LossCause::NotReturned });
        }
        self.waited = true;
        self.fence("nobody else came back in time");
    }

    /// Messages to or from a living node may be missing: everyone starts over from what they hold.
    pub(super) fn link_reset(&mut self, node: NodeId) {
        if !self.nodes.is_here(node) {
            self.speaks_again(node);
            return;
        }
        match &self.phase {
            Phase::FenceJournaled { .. } | Phase::Fencing(_) | Phase::DeployJournaled { .. } | Phase::Deploying(_) => {
                self.fence(&format!("the link to {node} broke and came back"));
            }
            Phase::Running(running) => {
                if running.audience.contains(&node) {
                    self.fence(&format!("the link to {node} broke and came back"));
                }
            }
            Phase::Queued
            | Phase::Gathering { .. }
            | Phase::Absent { .. }
            | Phase::Parked
            | Phase::Closing { .. }
            | Phase::Over => {}
        }
    }

    pub(super) fn draining(&mut self, node: NodeId) {
        if !self.nodes.leave(node) {
            return;
        }
        self.decided(format!("{node} wishes to leave"));
        match &self.phase {
            Phase::Running(_) => {
                self.let_leave();
                self.reconsider = true;
                self.replan_if_idle();
            }
            Phase::FenceJournaled { .. } | Phase::Fencing(_) | Phase::DeployJournaled { .. } | Phase::Deploying(_) => {
                self.reconsider = true;
            }
            // With others there, what it holds has to go to them first, so the job is tried again; alone it cannot go.
            Phase::Parked if self.nodes.leaving().contains(&node) => self.fence(&format!("{node} wishes to leave")),
            Phase::Parked => self.decided(format!(
                "parked: {node} wishes to leave and nobody else is here for what it holds; let another node join, cancel \
                 the job, or end the node for good"
            )),
            Phase::Queued
            | Phase::Gathering { .. }
            | Phase::Absent { .. }
            | Phase::Closing { .. }
            | Phase::Over => {}
        }
    }

    /// Nodes that wish to leave and hold nothing that the plan names are free.
    pub(super) fn let_leave(&mut self) {
        let Phase::Running(running) = &self.phase else { return };
        let free: Vec<NodeId> =
            self.nodes.leaving().into_iter().filter(|node| !running.audience.contains(node)).collect();
        for node in free {
            self.send(node, ToNode::Release { generation: self.generation });
            self.nodes.lose(node, LossCause::Left);
            self.note(Happening::NodeLost { node, cause: LossCause::Left });
        }
    }

    /// With nobody stepping there is no next commit to think at.
    pub(super) fn replan_if_idle(&mut self) {
        let Phase::Running(running) = &self.phase else { return };
        let quiet = matches!((&running.validation, &running.persists), (Validation::Idle, Persists::Idle));
        if self.in_flight.is_some() || !quiet || self.chain.head().step == self.steps() {
            return;
        }
        if let Some(reason) = self.reason_to_replan() {
            self.fence(&reason);
        }
    }

    pub(super) fn said(&mut self, node: NodeId, message: FromNode) {
        match message {
            FromNode::Inventory(inventory) => self.inventory(node, inventory),
            FromNode::Ready { generation } => {
                if self.is_current(generation) {
                    self.ready(node);
                }
            }
            FromNode::Prepared(prepared) => {
                if self.is_current(prepared.generation) {
                    self.prepared(node, prepared);
                }
            }
            FromNode::Filled { generation, piece, version } => {
                if self.is_current(generation) {
                    self.filled(node, piece, version);
                }
            }
            FromNode::Evaluated { generation, step, replica, loss } => {
                if self.is_current(generation) {
                    self.evaluated(step, replica, loss);
                }
            }
            FromNode::Persisted { generation, request, version, leaves } => {
                if self.is_current(generation) {
                    self.persisted(node, request, version, leaves);
                }
            }
            FromNode::Trouble { generation, trouble } => {
                if self.is_current(generation) {
                    self.trouble(node, trouble);
                }
            }
        }
    }

    fn trouble(&mut self, node: NodeId, trouble: Trouble) {
        let active = match &self.phase {
            Phase::Fencing(_) | Phase::DeployJournaled { .. } | Phase::Deploying(_) | Phase::Running(_) => true,
            Phase::Queued
            | Phase::Gathering { .. }
            | Phase::Absent { .. }
            | Phase::FenceJournaled { .. }
            | Phase::Parked
            | Phase::Closing { .. }
            | Phase::Over => false,
        };
        if !active {
            return;
        }
        match trouble {
            Trouble::StageFailed { seat, cause } => {
                self.note(Happening::StageFailed { node, cause: format!("{seat}: {cause}") });
                self.tally.stage_failures += 1;
                if self.tally.stage_failures >= MOST_STAGE_FAILURES {
                    let step = self.chain.head().step + 1;
                    self.fail(format!(
                        "stages failed {MOST_STAGE_FAILURES} times in step {step}, last on {node}: {cause}"
                    ));
                } else {
                    self.fence(&format!("stage {seat} on {node} failed: {cause}"));
                }
            }
            Trouble::HoldingLost { cause } => self.fence(&format!("{node} lost a holding: {cause}")),
            Trouble::PeerUnreachable { peer, cause } => self.unreachable(node, peer, &cause),
            Trouble::OverBudget { cause } => self.fail(format!("{node} is over its memory budget: {cause}")),
            Trouble::Data { cause } => self.data_trouble(node, &cause),
            Trouble::Disk { cause } => self.disk_trouble(node, &cause),
        }
    }

    /// Whoever cannot read the job's data cannot work for it; those who can go on without it, if they hold all that it holds.
    fn data_trouble(&mut self, node: NodeId, cause: &str) {
        let reason = format!("the data on {node} is not what was submitted: {cause}");
        let others = self.nodes.here().keys().any(|other| *other != node);
        // Before the first commit there is nothing to hold: anyone computes the initial state.
        if others && (self.chain.head().step == 0 || self.can_spare(node)) {
            self.evict(node, &reason);
        } else {
            self.fail(reason);
        }
    }

    /// Once may be chance. The second time one of the two has to go, if the others hold all that it holds.
    fn unreachable(&mut self, by: NodeId, peer: NodeId, cause: &str) {
        if !self.nodes.is_here(peer) {
            return;
        }
        let reason = format!("{by} cannot reach {peer}: {cause}");
        match self.nodes.unreachable(by, peer) {
            Some(node) if self.can_spare(node) => self.evict(node, &format!("{reason}, for the second time")),
            Some(node) if self.can_spare(if node == by { peer } else { by }) => {
                let other = if node == by { peer } else { by };
                self.evict(
                    other,
                    &format!("{reason}, for the second time, and {node} is the last holder of some state"),
                );
            }
            Some(_) | None => self.fence(&reason),
        }
    }

    /// Whether the others hold all that a node holds.
    pub(super) fn can_spare(&self, node: NodeId) -> bool {
        let held = match (&self.phase, &self.standing) {
            (Phase::Running(_), Some(standing)) => standing.held(),
            (Phase::DeployJournaled { deployment, .. }, _) => deployment.held.clone(),
            (Phase::Deploying(deploying), _) => deploying.deployment.held.clone(),
            (_, _) => return false,
        };
        let mut others = self.nodes.here().clone();
        others.remove(&node);
        !others.is_empty() && held.lost(&self.setup.table, &others).is_none()
    }
}
