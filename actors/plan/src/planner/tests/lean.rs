//! What a refusal says is missing, against brute force: with so much more the planner has a plan, with any less it has none.

use std::ops::Range;

use proptest::prelude::*;
use shoal_config::spec::{Precision, Schedule, Wire};

use super::*;
use crate::ids::NodeId;
use crate::memory;
use crate::planner::cut::{Cut, pieces};
use crate::planner::shape::lane_runs;
use crate::planner::shape::tests::LOOKED_FOR_THE_LEANEST;

/// Every way to cut `n` blocks into `stages` ranges.
fn cuts(n: u32, stages: u32) -> Vec<Vec<Range<u32>>> {
    if stages == 1 {
        return vec![std::iter::once(0..n).collect()];
    }
    let whole = |front: Vec<Range<u32>>, last| front.into_iter().chain(std::iter::once(last..n)).collect();
    let front = |last| cuts(last, stages - 1).into_iter().map(move |front| whole(front, last));
    (stages - 1..n).flat_map(front).collect()
}

/// Bytes on the fullest node of a layout with a node for each seat, as the memory model has it.
fn fullest(job: &Job, table: &ModelTable, stages: &[Range<u32>], replicas: u32) -> u64 {
    let node = |stage: usize, replica: usize| NodeId((stage * replicas as usize + replica) as u64 + 1);
    let owned = |cut: Cut| PiecePlan {
        block: cut.block,
        interval: cut.interval,
        owner: node(cut.stage, cut.share),
        shadows: Vec::new(),
    };
    let seats = |stage| (0..replicas as usize).map(|replica| node(stage, replica)).collect();
    let stage_plans =
        stages.iter().enumerate().map(|(stage, blocks)| StagePlan { blocks: blocks.clone(), seats: seats(stage) });
    let plan = Plan {
        arithmetic: crate::engine::Arithmetic::Fused,
        schedule: job.spec.parallel.schedule,
        stages: stage_plans.collect(),
        lanes: lane_runs(job.spec.parallel.virtual_replicas, replicas),
        pieces: pieces(table, stages, replicas as usize).into_iter().map(owned).collect(),
        spares: Vec::new(),
    };
    memory::of_plan(&plan, &job.spec, table).values().map(memory::NodeBytes::total).max().expect("a node")
}

/// The least of that over all layouts there are for so many nodes.
fn least(job: &Job, table: &ModelTable, nodes: u32) -> u64 {
    let (blocks, lanes) = (table.blocks.len() as u32, job.spec.parallel.virtual_replicas);
    let shapes = (1..=blocks.min(nodes)).flat_map(|p| (1..=lanes.min(nodes / p)).map(move |d| (p, d)));
    let needs = shapes.flat_map(|(p, d)| cuts(blocks, p).into_iter().map(move |stages| (stages, d)));
    needs.map(|(stages, d)| fullest(job, table, &stages, d)).min().expect("a layout")
}

fn wish() -> impl Strategy<Value = Auto<u32>> {
    prop_oneof![Just(Auto::Auto), (1u32..5).prop_map(Auto::Set)]
}

prop_compose! {
    fn any_job()(
        layers in 0u32..5, width in 1u32..4, vocab in 1u32..40, lanes in 1u32..7, micro_batch in 1u32..4, schedule: bool,
        half: bool, wire: bool, tied: bool, (pipeline, data, fixed) in (wish(), wish(), any::<bool>()), adafactor: bool,
    ) -> Job {
        let mut job = fixture::job();
        let model = job.spec.model.as_gpt2_mut().expect("a GPT-2");
        (model.layers, model.width, model.vocab, model.tied_head) = (layers.max(1), 64 * width, 97 * vocab, tied);
        job.spec.train.global_batch = lanes * 6;
        job.spec.train.micro_batch = micro_batch;
        job.spec.train.numerics.precision = if half { Precision::Bf16 } else { Precision::Fp32 };
        job.spec.train.numerics.wire = if wire { Wire::Bf16 } else { Wire::Fp32 };
        if adafactor {
            job.spec.train.optimizer = fixture::adafactor();
        }
        let parallel = &mut job.spec.parallel;
        parallel.schedule = if schedule { Schedule::GPipe } else { Schedule::OneFOneB };
        (parallel.pipeline, parallel.data, parallel.fixed, parallel.virtual_replicas) = (pipeline, data, fixed, lanes);
        job
    }
}

/// Nodes with these budgets, and so much more or less each.
fn members(budgets: &[u64], more: i64) -> BTreeMap<NodeId, Offer> {
    let mut members = fixture::members(1..=budgets.len() as u64);
    for (offer, budget) in members.values_mut().zip(budgets) {
        offer.budget_bytes = budget.saturating_add_signed(more);
    }
    members
}

proptest! {
    #[test]
    fn a_refusal_names_the_least_that_is_missing(
        job in any_job(), budgets in prop::collection::vec(0u64..1 << 20, 1..6), alike: bool, less in 1u64..1 << 20,
    ) {
        let budgets = if alike { vec![budgets[0]; budgets.len()] } else { budgets };
        let table = fixture::table(&job);
        let plan = |more: i64| make_plan(&job, &table, &members(&budgets, more), &BTreeSet::new(), &Held::none());
        let (needed, budget) = match plan(0) {
            Err(NoPlan::Memory { needed, budget, .. }) => (needed, budget),
            Err(NoPlan::Impossible { .. }) => return Ok(()),
            other => panic!("{other:?} in less than a mebibyte"),
        };
        let missing = (needed - budget) as i64;
        let planned = plan(missing).expect("so much was missing");
        prop_assert_eq!(check(&planned.plan, &job, &table, &members(&budgets, missing)), []);
        for less in [1, 1 + less as i64 % missing] {
            let refused = plan(missing - less);
            prop_assert!(matches!(refused, Err(NoPlan::Memory { .. })), "{less} of {missing} less: {refused:?}");
        }
        if alike && !job.spec.parallel.fixed {
            prop_assert_eq!(needed, least(&job, &table, budgets.len() as u32));
        }
    }
}

/// That is long work with many nodes, and the coordinator hears nobody meanwhile.
#[test]
fn the_leanest_layouts_are_looked_for_only_if_none_fits() {
    let mut job = fixture::job();
    (job.spec.parallel.pipeline, job.spec.parallel.data) = (Auto::Auto, Auto::Auto);
    let table = fixture::table(&job);
    let plan = |budget| {
        LOOKED_FOR_THE_LEANEST.set(0);
        let made = make_plan(&job, &table, &members(&[budget; 6], 0), &BTreeSet::new(), &Held::none());
        (made, LOOKED_FOR_THE_LEANEST.get())
    };
    let (Err(NoPlan::Memory { needed, .. }), shapes) = plan(0) else { panic!("no byte is enough") };
    assert!(shapes > 6, "{shapes} shapes were refused");
    // Few of them are possible with this.
    assert_eq!(plan(needed - 1).1, shapes);
    assert!(matches!(plan(needed), (Ok(_), 0)));
}
