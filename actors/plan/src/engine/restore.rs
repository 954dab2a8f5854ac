//! A restarted coordinator: the job as its journal left it.

use std::collections::BTreeSet;

use super::face::{Order, Record, Setup, State};
use super::phase::{Phase, Shadow, Standing};
use super::{Engine, Happening};
use crate::ids::NodeId;
use crate::ledger::Head;
use crate::rules::{Breach, Rules};

impl Engine {
    /// The job as its journal left it. The caller then sends [`super::Event::Tick`] once, and [`super::Event::Joined`] for
    /// every node that is there or comes back, under the id it had. Drains and orders to hash or write that were not
    /// carried out are not in the records: whoever waited for them asks again.
    #[must_use]
    pub fn restore(setup: Setup, records: impl IntoIterator<Item = Record>) -> Self {
        Self::restore_with_rules(setup, records, Rules::SOUND)
    }

    /// As [`Self::restore`], for an engine for which not every rule holds: for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn restore_with_rules(setup: Setup, records: impl IntoIterator<Item = Record>, rules: Rules) -> Self {
        let mut engine = Self::with_rules(setup, rules);
        let mut members: Option<BTreeSet<NodeId>> = None;
        for record in records {
            engine.fold(record, &mut members);
        }
        let journaled = engine.generation.incarnation;
        if members.is_some() {
            engine.generation.incarnation = engine.setup.incarnation.max(journaled + 1);
            if rules.breaks(Breach::GenerationReused) {
                engine.generation.incarnation = journaled;
            }
            engine.generation.number = 0;
        }
        let next = engine.chain.head().step + 1;
        if engine.state == State::Training && next <= engine.steps() {
            engine.in_flight = Some(next);
        }
        engine.phase = match members {
            _ if engine.state.is_over() => Phase::Over,
            None => Phase::Queued,
            Some(members) => {
                let expected: BTreeSet<NodeId> =
                    members.into_iter().filter(|node| !engine.nodes.is_known_gone(*node)).collect();
                if expected.is_empty() { Phase::Parked } else { Phase::Absent { until: None, expected } }
            }
        };
        engine
    }

    fn fold(&mut self, record: Record, members: &mut Option<BTreeSet<NodeId>>) {
        match record {
            Record::Fenced { generation, members: fenced } => {
                self.generation = generation;
                for node in &fenced {
                    self.nodes.forget_loss(*node);
                }
                *members = Some(fenced.into_iter().collect());
            }
            Record::Planned { generation, plan, unfilled } => {
                if self.standing.is_none() {
                    self.chain.begin(Head::genesis(&self.setup.job, plan.arithmetic));
                }
                let shadows = unfilled.into_iter().map(|at| (at, Shadow::Unfilled)).collect();
                self.standing = Some(Standing { generation, plan, shadows });
            }
            Record::Restored { piece, node, .. } => {
                let counts_from = self.chain.head().step + 2;
                if let Some(standing) = &mut self.standing {
                    standing.shadows.insert((piece, node), Shadow::Filled { counts_from });
                }
            }
            Record::Committed(entry) => {
                self.tally.committed(&entry);
                self.chain.push(entry, self.planned_generation());
                let step = self.chain.head().step;
                self.chain.set_flushed(step);
                if let Some(standing) = &mut self.standing {
                    standing.committed(step);
                }
            }
            Record::Evaluated { step, loss } => self.tally.validated(step, loss),
            Record::RolledBack { from, .. } => {
                self.tally.rolled_back(from);
                self.chain.cut();
                self.rolled_back = Some(self.generation);
            }
            Record::Ordered(Order::Pause { at }) => self.orders.pause_at = at,
            Record::Ordered(Order::Resume) => self.orders.pause_at = None,
            Record::Ordered(Order::Cancel | Order::Persist { .. }) => {}
            Record::State(state) => {
                self.tally.started |= matches!(state, State::Training | State::Paused { .. });
                self.state = state;
            }
            Record::Happened(Happening::NodeLeftOut { node, .. }) => {
                // It was asked once, and is not waited for.
                members.as_mut().map(|members| members.remove(&node));
            }
            Record::Happened(happening) => self.fold_happening(happening),
        }
    }

    fn fold_happening(&mut self, happening: Happening) {
        match happening {
            Happening::NodeLost { node, cause } => {
                self.nodes.lose(node, cause);
            }
            Happening::NodeJoined { node } => self.nodes.forget_loss(node),
            Happening::Resolved { committed: false, .. } => self.tally.steps_redone += 1,
            Happening::Persisted { step, digest, .. } => self.tally.digest = Some((step, digest)),
            Happening::Decided { reason } | Happening::Ended { reason } => self.tally.reason = Some(reason),
            Happening::Submitted
            | Happening::Resolved { committed: true, .. }
            | Happening::Started { .. }
            | Happening::RedundancyFull
            | Happening::StepsLost { .. }
            | Happening::Evaluated { .. }
            | Happening::StepSkipped { .. }
            | Happening::Stalled { .. }
            | Happening::NodeLeftOut { .. }
            | Happening::StageFailed { .. }
            | Happening::Warning { .. }
            | Happening::Ordered { .. } => {}
        }
    }
}
