//! One node's side of a job: what it holds, at which version, and what it does next.
//!
//! `handle(event) -> commands`, like the engine. The node's actors carry the commands out; the simulator does the same in
//! virtual time. Everything is idempotent within a generation, and older generations are refused.
//!
//! * HD-1 (one step at a time): a slot at version k takes record k+1 and no other, once, with a whole gradient.
//! * HD-2 (prepared stays): a whole gradient is dropped only when it is applied or a deployment settles its step.
//! * HD-3 (freed late): what the plan does not name is freed at `Start`, except what lies here twice.
//! * HD-4 (readers first): a slot that a fill or a persist reads is not updated.
//! * HD-5 (no way back): after a fence is taken, nothing of an older generation is obeyed.

pub mod face;

mod deploy;
mod fence;
mod persist;
mod run;
mod serve;
mod slots;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use face::{
    HolderCommand, HolderEvent, MoveCommand, Part, Role, SeatCommand, SlotCommand, SlotId, Source, Target, Wanted,
};

use crate::blocks::ModelTable;
use crate::ids::{Generation, NodeId};
use crate::job::Job;
use crate::ledger::{LedgerEntry, Version};
use crate::protocol::{Deploy, FromNode, ToNode, Trouble};
use crate::rules::{Breach, Rules};

use deploy::Adopted;
use run::Run;
use serve::Ask;
use slots::Slots;

/// The books of one job on one node.
#[derive(Clone, Debug)]
pub struct Holder {
    node: NodeId,
    table: Arc<ModelTable>,
    job: Job,
    rules: Rules,
    /// The last fence taken.
    seen: Generation,
    /// The last deployment become.
    adopted: Generation,
    slots: Slots,
    /// Records kept until the coordinator has them on disk and every slot has applied them, with the version they lead to.
    entries: BTreeMap<u64, (Arc<LedgerEntry>, Version)>,
    /// What peers wait for, and what they were sent in this generation.
    asks: Vec<Ask>,
    served: Vec<Ask>,
    phase: Phase,
}

/// Where the holder stands.
#[derive(Clone, Debug)]
enum Phase {
    /// For a fence, or for the deployment after it.
    Waiting,
    /// For updates to end, before the fence can be answered.
    Fenced {
        /// What had been seen before it.
        before: Generation,
    },
    /// For the updates that settle the step in flight.
    Settling(Box<Deploy>),
    /// For state and weights that the plan needs here.
    Moving(Box<Adopted>),
    /// For the start.
    Ready(Box<Adopted>),
    /// Stepping.
    Running(Box<Adopted>, Box<Run>),
    /// Over.
    Released,
}

impl Holder {
    /// A holder that holds nothing yet.
    #[must_use]
    pub fn new(node: NodeId, job: &Job, table: Arc<ModelTable>) -> Self {
        Self::with_rules(node, job, table, Rules::SOUND)
    }

    /// A holder for which not every rule holds: for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn with_rules(node: NodeId, job: &Job, table: Arc<ModelTable>, rules: Rules) -> Self {
        Self {
            node,
            table,
            job: job.clone(),
            rules,
            seen: Generation::default(),
            adopted: Generation::default(),
            slots: Slots::default(),
            entries: BTreeMap::new(),
            asks: Vec::new(),
            served: Vec::new(),
            phase: Phase::Waiting,
        }
    }

    /// The last fence taken: whatever is older is refused.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.seen
    }

    /// Whether the job is over here: nothing of its last generation is wanted any more.
    #[must_use]
    pub fn is_released(&self) -> bool {
        matches!(self.phase, Phase::Released)
    }

    /// What is held, as an inventory would say: for tests.
    #[doc(hidden)]
    pub fn holdings(&self) -> impl Iterator<Item = crate::protocol::Holding> + '_ {
        self.slots.iter().flat_map(|(_, slot)| slot.holdings())
    }

    /// Says of everything held that it is at a version of somebody else's making: for tests.
    #[doc(hidden)]
    pub fn forge(&mut self, version: Version) {
        for (_, slot) in self.slots.iter_mut() {
            slot.version = version;
        }
    }

    /// Takes one fact in; says what to do, in order.
    pub fn handle(&mut self, event: HolderEvent) -> Vec<HolderCommand> {
        let mut out = Vec::new();
        match event {
            HolderEvent::Engine(message) => self.obey(message, &mut out),
            HolderEvent::Gradient { generation, step, piece, norm, loss } => {
                if self.is_current(generation) {
                    self.gradient(step, piece, slots::Gradient { norm, loss }, &mut out);
                }
            }
            HolderEvent::Applied { slot, step } => self.applied(slot, step, &mut out),
            HolderEvent::StateArrived { generation, version, block, interval } => {
                if self.is_current(generation) {
                    self.state_arrived(version, block, interval, &mut out);
                }
            }
            HolderEvent::WeightsArrived { generation, step, piece } => {
                if self.is_current(generation) {
                    self.weights_arrived(step, piece, &mut out);
                }
            }
            HolderEvent::Asked { from, generation, version, block, interval, wanted } => {
                self.asked(Ask { from, generation, version, block, interval, wanted }, &mut out);
            }
            HolderEvent::FillSent { generation, piece, to } => {
                if self.is_current(generation) {
                    self.fill_sent(piece, to, &mut out);
                }
            }
            HolderEvent::Evaluated { generation, step, replica, loss } => {
                if self.is_current(generation) {
                    out.push(HolderCommand::Tell(FromNode::Evaluated { generation, step, replica, loss }));
                }
            }
            HolderEvent::Persisted { generation, request, leaves } => {
                if self.is_current(generation) {
                    self.persisted(request, leaves, &mut out);
                }
            }
            HolderEvent::Trouble { trouble, lost } => self.trouble(trouble, &lost, &mut out),
        }
        out
    }

    fn obey(&mut self, message: ToNode, out: &mut Vec<HolderCommand>) {
        match message {
            ToNode::Fence { generation, members: _, flushed } => self.fence(generation, flushed, out),
            ToNode::Deploy(deploy) => self.deploy(deploy, out),
            ToNode::Start { generation, version, loss_scale, next, fills, persist } => {
                if self.is_current(generation) {
                    self.start((version, loss_scale), next, &fills, persist, out);
                }
            }
            ToNode::Commit { generation, entry, next, fills, persist, flushed } => {
                if self.is_current(generation) {
                    self.commit(entry, next, &fills, persist, out);
                    self.forget(flushed);
                }
            }
            ToNode::Release { generation } => {
                if generation >= self.seen {
                    self.seen = generation;
                    self.slots.clear();
                    self.entries.clear();
                    self.asks.clear();
                    self.phase = Phase::Released;
                    out.push(HolderCommand::Release);
                }
            }
        }
    }

    /// HD-5: whether something belongs to the deployment in force and no later fence was taken.
    fn is_current(&self, generation: Generation) -> bool {
        self.rules.breaks(Breach::OldGenerationObeyed) || (generation == self.seen && generation == self.adopted)
    }

    fn trouble(&mut self, trouble: Trouble, lost: &[SlotId], out: &mut Vec<HolderCommand>) {
        for slot in lost {
            self.slots.remove(*slot);
        }
        let unwritten = matches!(trouble, Trouble::Disk { .. });
        out.push(HolderCommand::Tell(FromNode::Trouble { generation: self.seen, trouble }));
        if unwritten {
            self.give_up_persist(out);
        }
        self.updates_over(out);
    }

    /// Drops records that the journal has durably and no slot still needs.
    fn forget(&mut self, flushed: u64) {
        let whole = self.slots.iter().filter(|(_, s)| s.is_whole()).map(|(_, s)| s.version.step);
        let awaited = match &self.phase {
            Phase::Running(_, run) => run.lowest_awaited(),
            Phase::Waiting
            | Phase::Fenced { .. }
            | Phase::Settling(_)
            | Phase::Moving(_)
            | Phase::Ready(_)
            | Phase::Released => None,
        };
        let keep_from = whole.chain(awaited).min().unwrap_or(u64::MAX).min(flushed);
        self.entries.retain(|step, _| *step > keep_from);
    }

    fn keep(&mut self, entry: LedgerEntry) -> (Arc<LedgerEntry>, Version) {
        let version = entry.version();
        let kept = (Arc::new(entry), version);
        self.entries.insert(version.step, kept.clone());
        kept
    }
}
