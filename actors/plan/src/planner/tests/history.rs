//! Random losses, joins and leaves: after each, the plan is sound and no copy is given up.

use proptest::prelude::*;
use shoal_config::spec::{Auto, Schedule};

use super::*;
use crate::space::IntervalSet;

#[derive(Clone, Debug)]
enum Change {
    /// A node dies.
    Lose(usize),
    /// A node joins.
    Join,
    /// A node wishes to leave: planned around, then gone.
    Drain(usize),
    /// Nothing: planning again.
    Again,
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = prop_oneof![
        3 => (0usize..8).prop_map(Change::Lose),
        3 => Just(Change::Join),
        2 => (0usize..8).prop_map(Change::Drain),
        1 => Just(Change::Again),
    ];
    prop::collection::vec(change, 1..12)
}

fn wish() -> impl Strategy<Value = Auto<u32>> {
    prop_oneof![1 => Just(Auto::Auto), 3 => (1u32..=4).prop_map(Auto::Set)]
}

/// Copies of every element of a block, as (set of holders that have it) counted by node.
fn copies(held: &Held, block: BlockId, interval: Interval) -> usize {
    held.holders(block).filter(|(_, set)| set.contains(interval)).count()
}

/// Every cut that matters for an interval: where any of the holders' sets begins or ends.
fn parts(sets: &[&Held], block: BlockId, interval: Interval) -> Vec<Interval> {
    let mut edges: Vec<u64> = sets
        .iter()
        .flat_map(|held| held.holders(block))
        .flat_map(|(_, set)| set.runs())
        .flat_map(|run| [run.start, run.end])
        .collect();
    edges.sort_unstable();
    IntervalSet::from(interval).split_at(&edges)
}

/// Holders at `Ready`: all that the plan names but unfilled shadows.
fn held_at_ready(planned: &Planned) -> Held {
    let mut held = Held::none();
    for (id, piece) in planned.plan.pieces() {
        for node in piece.holders().filter(|node| !planned.unfilled.contains(&(id, *node))) {
            held.insert(node, piece.block, piece.interval);
        }
    }
    held
}

/// What moves is exactly what is lacking, from whoever has it, and no copy is given up.
fn moves_are_sound(planned: &Planned, before: &Held, draining: &BTreeSet<NodeId>, redundancy: usize) {
    let ready = held_at_ready(planned);
    let mut arrived = before.clone();
    for fetch in &planned.fetches {
        assert_ne!(fetch.to, fetch.from);
        assert!(!draining.contains(&fetch.to), "{fetch:?} to a node that leaves");
        assert!(before.has(fetch.from, fetch.block, fetch.interval), "{fetch:?} from a node that has it not");
        assert_eq!(arrived.missing(fetch.to, fetch.block, fetch.interval), fetch.interval.len(), "{fetch:?} twice");
        arrived.insert(fetch.to, fetch.block, fetch.interval);
    }
    for (id, piece) in planned.plan.pieces() {
        assert!(piece.holders().all(|node| !draining.contains(&node)));
        for node in piece.holders().filter(|node| !planned.unfilled.contains(&(id, *node))) {
            assert!(arrived.has(node, piece.block, piece.interval), "{id} is not complete on {node}");
        }
        for part in parts(&[before, &ready], piece.block, piece.interval) {
            let (was, is) = (copies(before, piece.block, part), copies(&ready, piece.block, part));
            let wanted = was.min(redundancy + 1).min(1 + piece.shadows.len());
            assert!(is >= wanted, "{} {part}: {was} copies before, {is} at ready", piece.block);
        }
    }
    for (id, node) in &planned.unfilled {
        let piece = planned.plan.piece(*id);
        assert!(piece.shadows.contains(node));
        assert!(!before.has(*node, piece.block, piece.interval), "{id} on {node} is complete already");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_history_loses_a_copy(
        pipeline in wish(), data in wish(), fixed: bool, gpipe: bool, redundancy in 0u32..3,
        start in 1u64..7, changes in changes(), fill in prop::collection::vec(any::<bool>(), 12),
    ) {
        let mut job = fixture::job();
        job.spec.parallel.pipeline = pipeline;
        job.spec.parallel.data = data;
        job.spec.parallel.fixed = fixed;
        job.spec.parallel.schedule = if gpipe { Schedule::GPipe } else { Schedule::OneFOneB };
        job.spec.elastic.redundancy = redundancy;
        let table = fixture::table(&job);
        let mut members = fixture::members(1..=start);
        let mut next_id = start + 1;
        let mut held = Held::none();
        for (round, change) in std::iter::once(Change::Again).chain(changes).enumerate() {
            let mut draining = BTreeSet::new();
            let pick = |i: usize, members: &BTreeMap<NodeId, Offer>| members.keys().nth(i % members.len()).copied();
            match change {
                Change::Lose(i) => {
                    let node = pick(i, &members).expect("a member");
                    members.remove(&node);
                    held = held_without(&held, &table, node);
                }
                Change::Join => {
                    members.extend(fixture::members([next_id]));
                    next_id += 1;
                }
                Change::Drain(i) => draining.extend(pick(i, &members)),
                Change::Again => {}
            }
            if members.len() == draining.len() {
                break;
            }
            let lost = held.lost(&table, &members).is_some();
            let planned = make_plan(&job, &table, &members, &draining, &held);
            if lost {
                prop_assert!(matches!(planned, Err(NoPlan::StateLost { .. })), "{:?}", planned);
                break;
            }
            let planned = planned.expect("everything fits");
            prop_assert_eq!(check(&planned.plan, &job, &table, &members), []);
            let stay = members.len() - draining.len();
            for piece in &planned.plan.pieces {
                prop_assert_eq!(piece.shadows.len(), (redundancy as usize).min(stay - 1));
            }
            if !held.is_empty() {
                moves_are_sound(&planned, &held, &draining, redundancy as usize);
            }
            if fixed || enough(&job, stay) {
                let (p, d) = shape(&planned.plan);
                if let Auto::Set(wanted) = pipeline { prop_assert_eq!(p, wanted as usize) }
                if let Auto::Set(wanted) = data { prop_assert_eq!(d, wanted as usize) }
            }
            held = if fill[round % fill.len()] { held_by(&planned.plan, &[]) } else { held_at_ready(&planned) };
            for node in draining {
                members.remove(&node);
            }
        }
    }
}

proptest! {
    /// Whatever the budgets, a plan fits them or memory is named as the reason; a node's room bounds what a loss adds.
    #[test]
    fn budgets_are_kept(
        budgets in prop::collection::vec(0u64..14 << 20, 1..7), pipeline in wish(), data in wish(), fixed: bool,
        redundancy in 0u32..3, lost in 0usize..7,
    ) {
        let mut job = fixture::job();
        job.spec.parallel.pipeline = pipeline;
        job.spec.parallel.data = data;
        job.spec.parallel.fixed = fixed;
        job.spec.elastic.redundancy = redundancy;
        let table = fixture::table(&job);
        let mut members = fixture::members(1..=budgets.len() as u64);
        for (offer, budget) in members.values_mut().zip(&budgets) {
            offer.budget_bytes = *budget;
        }
        let mut held = Held::none();
        for _ in 0..2 {
            match make_plan(&job, &table, &members, &BTreeSet::new(), &held) {
                Ok(planned) => {
                    prop_assert_eq!(check(&planned.plan, &job, &table, &members), []);
                    for (node, offer) in &members {
                        prop_assert!(shadows_fit_while_moving(&table, &planned.plan, &held, *node, offer.budget_bytes));
                    }
                    let gone = NodeId(lost as u64 % budgets.len() as u64 + 1);
                    held = held_by(&planned.plan, &[gone.0]);
                    members.remove(&gone);
                }
                Err(NoPlan::Memory { needed, budget, .. }) => {
                    prop_assert!(needed > budget);
                    break;
                }
                Err(NoPlan::StateLost { .. }) => break,
                Err(NoPlan::NoNodes { .. }) => prop_assert!(members.is_empty()),
                Err(NoPlan::Impossible { .. }) => prop_assert!(fixed),
            }
            if members.is_empty() {
                break;
            }
        }
    }
}

/// Old state, new state that is not the old one, and compute weights: a shadow is only added where these fit.
fn shadows_fit_while_moving(table: &ModelTable, plan: &Plan, held: &Held, node: NodeId, budget: u64) -> bool {
    let here = |piece: &&PiecePlan| piece.holders().any(|holder| holder == node);
    let new: u64 =
        plan.pieces.iter().filter(here).map(|piece| held.new_room(table, node, piece.block, piece.interval)).sum();
    let shadows = plan
        .pieces
        .iter()
        .any(|piece| piece.shadows.contains(&node) && held.new_room(table, node, piece.block, piece.interval) > 0);
    !shadows || held.bytes(table, node) + new <= budget
}

fn enough(job: &Job, nodes: usize) -> bool {
    let least = |wish: Auto<u32>| match wish {
        Auto::Auto => 1,
        Auto::Set(value) => value as usize,
    };
    least(job.spec.parallel.pipeline) * least(job.spec.parallel.data) <= nodes
}

fn held_without(held: &Held, table: &ModelTable, gone: NodeId) -> Held {
    let mut left = Held::none();
    for block in &table.blocks {
        for (node, set) in held.holders(block.id).filter(|(node, _)| *node != gone) {
            for run in set.runs() {
                left.insert(node, block.id, *run);
            }
        }
    }
    left
}
