use std::collections::{BTreeMap, BTreeSet};

use shoal_config::spec::Auto;

use super::*;
use crate::check::check;
use crate::fixture;
use crate::space::Interval;

mod history;
mod lean;
mod parts;

/// What is held once a plan runs and all its shadows are filled, by all but `gone`.
fn held_by(plan: &Plan, gone: &[u64]) -> Held {
    let mut held = Held::none();
    for piece in &plan.pieces {
        for node in piece.holders().filter(|node| !gone.contains(&node.0)) {
            held.insert(node, piece.block, piece.interval);
        }
    }
    held
}

fn planned(job: &Job, members: impl IntoIterator<Item = u64>, held: &Held) -> Planned {
    let members = fixture::members(members);
    let table = fixture::table(job);
    let planned = make_plan(job, &table, &members, &BTreeSet::new(), held).expect("fits");
    assert_eq!(check(&planned.plan, job, &table, &members), []);
    planned
}

fn shape(plan: &Plan) -> (usize, usize) {
    (plan.stages.len(), plan.lanes.len())
}

fn job(pipeline: u32, data: u32) -> Job {
    let mut job = fixture::job();
    job.spec.parallel.pipeline = Auto::Set(pipeline);
    job.spec.parallel.data = Auto::Set(data);
    job
}

#[test]
fn what_is_asked_for_is_planned_when_nodes_suffice() {
    for (p, d) in [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (4, 1)] {
        let job = job(p, d);
        for nodes in u64::from(p * d)..=6 {
            let Planned { plan, fetches, unfilled, .. } = planned(&job, 1..=nodes, &Held::none());
            assert_eq!(shape(&plan), (p as usize, d as usize));
            assert_eq!((fetches, unfilled), (vec![], vec![]), "from the seed nothing moves");
            let shadows = usize::from(nodes > 1);
            assert!(plan.pieces.iter().all(|piece| piece.shadows.len() == shadows), "{p} x {d} on {nodes}");
        }
    }
}

/// The state and its holders do not change: neither does the plan.
#[test]
fn planning_again_moves_nothing() {
    for (p, d, nodes) in [(2, 2, 4), (2, 2, 6), (2, 1, 3), (3, 1, 3), (1, 3, 3), (2, 2, 3), (4, 1, 2)] {
        let first = planned(&job(p, d), 1..=nodes, &Held::none());
        let mut held = held_by(&first.plan, &[]);
        held.insert_seats(&first.plan, &fixture::table(&job(p, d)));
        let again = planned(&job(p, d), 1..=nodes, &held);
        assert_eq!((again.fetches, again.unfilled), (vec![], vec![]));
        assert_eq!(again.plan, first.plan);
    }
}

/// Two nodes hold everything; the seats stay where their compute weights are.
#[test]
fn seats_stay_where_they_are() {
    let job = job(2, 1);
    let table = fixture::table(&job);
    let mut plan = planned(&job, 1..=2, &Held::none()).plan;
    let mut held = held_by(&plan, &[]);
    for (stage, node) in plan.stages.iter_mut().zip([2, 1]) {
        stage.seats = vec![NodeId(node)];
    }
    let seats = |held: &Held| planned(&job, 1..=2, held).plan.stages.iter().map(|s| s.seats[0].0).collect::<Vec<_>>();
    assert_eq!(seats(&held), [1, 2]);
    held.insert_seats(&plan, &table);
    assert_eq!(seats(&held), [2, 1]);
}

/// ```text
/// before   s0 on n1, s1 on n2, n3 shadows everything
/// n1 dies  n3 takes its seat with what it has: nothing to fetch, n2 shadows s0 and n3 s1 later on
/// ```
#[test]
fn a_spare_that_shadows_takes_over() {
    let job = job(2, 1);
    let first = planned(&job, 1..=3, &Held::none());
    assert!(first.plan.pieces.iter().all(|piece| piece.shadows == [NodeId(3)]));
    let next = planned(&job, 2..=3, &held_by(&first.plan, &[1]));
    assert_eq!(next.plan.stages[0].seats, [NodeId(3)]);
    assert_eq!(next.plan.stages[1].seats, [NodeId(2)]);
    assert_eq!(next.fetches, []);
    let filled: BTreeSet<NodeId> = next.unfilled.iter().map(|(_, node)| *node).collect();
    assert_eq!(filled, [NodeId(2)].into(), "n3 shadows s1 already");
}

/// A replica's peer shadows its share, so pipeline 2 x data 1 after a loss moves nothing either.
#[test]
fn a_lost_replica_leaves_its_share_behind() {
    let mut job = job(2, 2);
    let first = planned(&job, 1..=4, &Held::none());
    job.spec.parallel.data = Auto::Set(1);
    let lost = first.plan.stages[0].seats[1];
    let left = (1..=4).filter(|&n| n != lost.0);
    let next = planned(&job, left, &held_by(&first.plan, &[lost.0]));
    assert_eq!(next.plan.stages[0].seats, [first.plan.stages[0].seats[0]]);
    assert_eq!(next.fetches, []);
}

#[test]
fn fewer_nodes_take_the_fastest_layout_that_fits() {
    let job = job(2, 2);
    let first = planned(&job, 1..=4, &Held::none());
    for gone in 1..=4 {
        let next = planned(&job, (1..=4).filter(|&n| n != gone), &held_by(&first.plan, &[gone]));
        let (p, d) = shape(&next.plan);
        assert!(p * d <= 3);
        assert!(next.reason.contains("instead of pipeline 2 x data 2"), "{}", next.reason);
    }
    assert_eq!(shape(&planned(&job, [1], &Held::none()).plan), (1, 1));
}

#[test]
fn a_fixed_layout_shares_nodes() {
    for (p, d) in [(2, 2), (4, 1), (2, 3), (1, 3)] {
        let mut job = job(p, d);
        job.spec.parallel.fixed = true;
        for nodes in 1..=u64::from(p * d) {
            let plan = planned(&job, 1..=nodes, &Held::none()).plan;
            assert_eq!(shape(&plan), (p as usize, d as usize));
            let used: BTreeSet<NodeId> = plan.seats().map(|(_, node)| node).collect();
            assert_eq!(used.len() as u64, nodes, "every node has a seat");
        }
    }
    // Neighbouring stages share a node.
    let mut job = job(4, 1);
    job.spec.parallel.fixed = true;
    let plan = planned(&job, 1..=2, &Held::none()).plan;
    let seats: Vec<u64> = plan.stages.iter().map(|stage| stage.seats[0].0).collect();
    assert_eq!(seats, [1, 1, 2, 2]);
}

#[test]
fn auto_uses_the_nodes() {
    let mut job = job(1, 1);
    job.spec.parallel.pipeline = Auto::Auto;
    job.spec.parallel.data = Auto::Auto;
    for nodes in 1..=8 {
        let plan = planned(&job, 1..=nodes, &Held::none()).plan;
        let (p, d) = shape(&plan);
        assert!(p * d <= nodes as usize);
        assert!(nodes == 1 || p * d > 1, "{p} x {d} on {nodes} nodes");
    }
    job.spec.parallel.pipeline = Auto::Set(2);
    assert_eq!(shape(&planned(&job, 1..=4, &Held::none()).plan).0, 2);
}

/// A node that leaves gets nothing, and what it holds goes to others before training goes on: its copies count.
#[test]
fn a_draining_node_is_a_source() {
    let job = job(2, 2);
    let table = fixture::table(&job);
    let first = planned(&job, 1..=4, &Held::none());
    let members = fixture::members(1..=5);
    let leaves = NodeId(2);
    let held = held_by(&first.plan, &[]);
    let next = make_plan(&job, &table, &members, &[leaves].into(), &held).expect("fits");
    assert_eq!(check(&next.plan, &job, &table, &members), []);
    assert_eq!(shape(&next.plan), (2, 2));
    assert_eq!(next.plan.spares, [leaves]);
    assert!(next.plan.pieces.iter().all(|piece| piece.holders().all(|node| node != leaves)));
    assert_eq!(next.unfilled, [], "redundancy is not lowered");
    assert!(next.fetches.iter().all(|fetch| fetch.to == NodeId(5)), "only the newcomer lacks anything");
    assert!(next.fetches.iter().any(|fetch| fetch.from == leaves), "the leaver helps");
}

/// State goes to a newcomer from several holders, not from one.
#[test]
fn sources_share_the_work() {
    let mut job = job(1, 1);
    job.spec.elastic.redundancy = 2;
    let first = planned(&job, 1..=3, &Held::none());
    job.spec.parallel.data = Auto::Set(4);
    let next = planned(&job, 1..=4, &held_by(&first.plan, &[]));
    let mut sent: BTreeMap<NodeId, u64> = BTreeMap::new();
    for fetch in &next.fetches {
        assert_eq!(fetch.to, NodeId(4));
        *sent.entry(fetch.from).or_default() += fetch.interval.len();
    }
    let (least, most) = (sent.values().min().expect("some"), sent.values().max().expect("some"));
    assert_eq!(sent.len(), 3, "{sent:?}");
    assert!(most <= &(least * 2), "{sent:?}");
}

#[test]
fn redundancy_is_what_nodes_allow() {
    let mut job = job(2, 1);
    job.spec.elastic.redundancy = 3;
    for nodes in 1..=5 {
        let plan = planned(&job, 1..=nodes, &Held::none()).plan;
        for piece in &plan.pieces {
            assert_eq!(piece.shadows.len(), 3.min(nodes as usize - 1));
        }
    }
    job.spec.elastic.redundancy = 0;
    assert!(planned(&job, 1..=3, &Held::none()).plan.pieces.iter().all(|piece| piece.shadows.is_empty()));
}

#[test]
fn memory_decides_before_wishes() {
    let job = job(1, 2);
    let table = fixture::table(&job);
    let mut members = fixture::members(1..=2);
    let needed = |job: &Job| {
        let plan = planned(job, 1..=2, &Held::none()).plan;
        crate::memory::of_plan(&plan, &job.spec, &table).values().map(|n| n.total()).max().expect("nodes")
    };
    let (one, two) = (needed(&job), needed(&self::job(2, 1)));
    assert!(two < one, "two stages take less on each node: {two} of {one}");
    for offer in members.values_mut() {
        offer.budget_bytes = two;
    }
    let next = make_plan(&job, &table, &members, &BTreeSet::new(), &Held::none()).expect("two stages fit");
    assert_eq!(shape(&next.plan), (2, 1));
    assert_eq!(check(&next.plan, &job, &table, &members), []);
    // With less than shadows take, training goes on with fewer.
    for offer in members.values_mut() {
        offer.budget_bytes = two - 16 * 40_000;
    }
    let next = make_plan(&job, &table, &members, &BTreeSet::new(), &Held::none()).expect("two stages fit");
    assert_eq!(check(&next.plan, &job, &table, &members), []);
    assert!(next.plan.pieces.iter().any(|piece| piece.shadows.is_empty()));
}

#[test]
fn refusals_say_what_was_asked_found_and_to_do() {
    let mut job = job(2, 2);
    let table = fixture::table(&job);
    let refuse = |job: &Job, members: &BTreeMap<NodeId, Offer>, draining: &BTreeSet<NodeId>, held: &Held| {
        make_plan(job, &table, members, draining, held).expect_err("refused").to_string()
    };
    let (none, from_seed) = (BTreeSet::new(), Held::none());
    assert_eq!(
        refuse(&job, &fixture::members([1]), &[NodeId(1)].into(), &from_seed),
        "a plan takes a node that stays, but of 1 members 1 are leaving; start a node (`shoalctl up`)"
    );
    let mut small = fixture::members(1..=4);
    for offer in small.values_mut() {
        offer.budget_bytes = 1 << 20;
    }
    let text = refuse(&job, &small, &none, &from_seed);
    assert!(text.starts_with("pipeline 2 x data 2 on 4 nodes: the leanest layout, pipeline "), "{text}");
    assert!(text.contains("on a node that may hold 1.0 MiB (1048576 bytes); give nodes more memory"), "{text}");

    let mut part = Held::none();
    part.insert(NodeId(1), BlockId(0), Interval::new(0, 34_816));
    part.insert(NodeId(2), BlockId(1), Interval::new(0, 4096));
    assert_eq!(
        refuse(&job, &fixture::members(1..=4), &none, &part),
        "no member holds 4096..49984 of b1; go back to a durable state or wait for its holders"
    );
    job.spec.parallel.fixed = true;
    job.spec.parallel.pipeline = Auto::Set(7);
    assert_eq!(
        refuse(&job, &fixture::members(1..=4), &none, &from_seed),
        "pipeline 7 x data 2 was asked for with fixed = true, but the job has 6 blocks to divide into stages and 8 \
         lanes to divide among replicas; ask for less or drop `fixed`"
    );
}

/// Ten thousand simulated histories plan some fifty thousand times.
#[test]
fn planning_is_fast() {
    let mut job = job(4, 2);
    let model = job.spec.model.as_gpt2_mut().expect("a GPT-2");
    model.layers = 8;
    let first = planned(&job, 1..=8, &Held::none());
    let held = held_by(&first.plan, &[2]);
    let (table, members) = (fixture::table(&job), fixture::members([1, 3, 4, 5, 6, 7, 8]));
    let plan_once = || {
        let start = std::time::Instant::now();
        std::hint::black_box(make_plan(&job, &table, &members, &BTreeSet::new(), &held)).expect("fits");
        start.elapsed()
    };
    let best = (0..50).map(|_| plan_once()).min().expect("fifty");
    assert!(best < std::time::Duration::from_millis(2), "the best of fifty took {best:?}");
}
