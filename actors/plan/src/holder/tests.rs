use std::collections::{BTreeMap, BTreeSet};

use shoal_exact::{Arithmetic, ExactSum};

use super::*;
use crate::commit::{StepReport, entry};
use crate::fixture;
use crate::layout::Plan;
use crate::ledger::Head;
use crate::planner::{Held, make_plan};
use crate::protocol::{LossSum, Next, Norm, Persist, PersistMode, Resolution};

const NODE: NodeId = NodeId(1);
const GENERATION: Generation = Generation { incarnation: 1, number: 1 };

/// A holder alone in its cluster, its slots filled from the seed.
struct Alone {
    job: Job,
    holder: Holder,
    plan: Arc<Plan>,
}

impl Alone {
    fn deployed() -> Self {
        let job = fixture::job();
        let table = Arc::new(fixture::table(&job));
        let planned = make_plan(&job, &table, &fixture::members([NODE.0]), &BTreeSet::new(), &Held::none());
        let plan = Arc::new(planned.expect("one node is enough").plan);
        let mut alone = Self { holder: Holder::new(NODE, &job, table), plan, job };
        alone.told(ToNode::Fence { generation: GENERATION, members: vec![NODE], flushed: 0 });
        let deploy = Deploy {
            generation: GENERATION,
            resolve: Resolution::Initialise,
            attempt: Generation::default(),
            version: alone.genesis(),
            plan: Arc::clone(&alone.plan),
            fetches: Vec::new(),
            unfilled: Vec::new(),
        };
        alone.told(ToNode::Deploy(Box::new(deploy)));
        for piece in alone.pieces() {
            let arrived = HolderEvent::WeightsArrived { generation: GENERATION, step: 0, piece };
            alone.holder.handle(arrived);
        }
        alone
    }

    fn genesis(&self) -> Version {
        Version { step: 0, chain: self.job.genesis(Arithmetic::Fused) }
    }

    fn pieces(&self) -> Vec<crate::ids::PieceId> {
        self.plan.pieces().map(|(id, _)| id).collect()
    }

    fn told(&mut self, message: ToNode) -> Vec<HolderCommand> {
        self.holder.handle(HolderEvent::Engine(message))
    }

    fn start(&mut self, persist: Option<Persist>) -> Vec<HolderCommand> {
        let (generation, version) = (GENERATION, self.genesis());
        self.told(ToNode::Start {
            generation,
            version,
            loss_scale: None,
            next: Next::Train,
            fills: Vec::new(),
            persist,
        })
    }

    /// Every piece gets its gradient of step 1.
    fn gradients(&mut self) -> Vec<HolderCommand> {
        let norm = Norm::Finite(ExactSum::of(1.0));
        let mut out = Vec::new();
        for piece in self.pieces() {
            let loss = None;
            out.extend(self.holder.handle(HolderEvent::Gradient {
                generation: GENERATION,
                step: 1,
                piece,
                norm,
                loss,
            }));
        }
        out
    }

    fn commit(&mut self, persist: Option<Persist>) -> Vec<HolderCommand> {
        let one = Norm::Finite(ExactSum::of(1.0));
        let report = StepReport { norm: one, loss: LossSum { loss: one, tokens: 8 } };
        let entry = entry(&self.job, &Head::genesis(&self.job, Arithmetic::Fused), &report);
        let generation = GENERATION;
        self.told(ToNode::Commit { generation, entry, next: Next::Train, fills: Vec::new(), persist, flushed: 0 })
    }
}

fn write(request: u64) -> Option<Persist> {
    Some(Persist { request, mode: PersistMode::Write })
}

/// Slots that commands hash or write, by request.
fn persisted(commands: &[HolderCommand]) -> BTreeMap<u64, usize> {
    let persists = commands.iter().filter_map(|command| match command {
        HolderCommand::Slot(SlotCommand::Persist { persist, slots, .. }) => Some((persist.request, slots.len())),
        _ => None,
    });
    persists.collect()
}

/// Slots that commands update.
fn updated(commands: &[HolderCommand]) -> usize {
    let applied = commands.iter().map(|command| match command {
        HolderCommand::Slot(SlotCommand::Apply { slots, .. }) => slots.len(),
        _ => 0,
    });
    applied.sum()
}

#[test]
fn a_slot_is_not_updated_while_it_is_written() {
    let mut alone = Alone::deployed();
    let all = alone.pieces().len();
    assert_eq!(persisted(&alone.start(write(1))), BTreeMap::from([(1, all)]));
    alone.gradients();
    assert_eq!(updated(&alone.commit(None)), 0);
    let done = HolderEvent::Persisted { generation: GENERATION, request: 1, leaves: Vec::new() };
    assert_eq!(updated(&alone.holder.handle(done)), all);
}

/// The disk was full when the operator asked for the state; the job itself has no need of it.
#[test]
fn updates_go_on_after_a_write_that_failed() {
    let mut alone = Alone::deployed();
    let all = alone.pieces().len();
    alone.start(write(1));
    alone.gradients();
    let full = Trouble::Disk { cause: "no space left on device".into() };
    let said = alone.holder.handle(HolderEvent::Trouble { trouble: full.clone(), lost: Vec::new() });
    assert!(said.contains(&HolderCommand::Tell(FromNode::Trouble { generation: GENERATION, trouble: full })));
    assert_eq!(updated(&alone.commit(None)), all);
}

/// Another node's disk was full, so the engine gave the order up while this node was still writing.
#[test]
fn a_new_order_to_write_takes_the_place_of_one_that_was_given_up() {
    let mut alone = Alone::deployed();
    let all = alone.pieces().len();
    alone.start(write(1));
    alone.gradients();
    let out = alone.commit(write(2));
    assert_eq!((updated(&out), persisted(&out)), (all, BTreeMap::new()));
    let ids: Vec<SlotId> = alone.holder.slots.iter().map(|(id, _)| id).collect();
    let mut out = Vec::new();
    for slot in ids {
        out.extend(alone.holder.handle(HolderEvent::Applied { slot, step: 1 }));
    }
    assert_eq!(persisted(&out), BTreeMap::from([(2, all)]));
    let late = HolderEvent::Persisted { generation: GENERATION, request: 1, leaves: Vec::new() };
    assert_eq!(alone.holder.handle(late), Vec::new());
}
