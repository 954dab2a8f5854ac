//! Byte counters of whole jobs against `plan::traffic`, to the byte and link by link.

use std::collections::BTreeMap;
use std::sync::Arc;

use shoal_config::spec::{OptimizerSpec, Wire};
use shoal_plan::blocks::ModelTable;
use shoal_plan::ids::{BlockId, NodeId};
use shoal_plan::job::Job;
use shoal_plan::layout::Plan;
use shoal_plan::space::IntervalSet;
use shoal_plan::traffic;
use shoal_wire::api::{NodeReport, TrafficLine};
use shoal_wire::data::TrafficKind;

use super::net::{Net, Planned};
use super::{STEPS, tiny_of};
use crate::holder::tests::cluster::Layout;
use crate::testing::ADAFACTOR;

const WORKERS: [&str; 4] = ["a", "b", "c", "d"];

/// Bytes by kind; a kind of which there are none is not in it.
type Lines = BTreeMap<TrafficKind, u64>;

/// A link's counters at one end, control apart.
fn counted(reports: &[NodeReport], (at, peer): (&str, &str), bytes: impl Fn(&TrafficLine) -> u64) -> Lines {
    let report = reports.iter().find(|report| report.node == at).expect("every node reports");
    let kind = |word: &str| TrafficKind::ALL.into_iter().find(|kind| kind.word() == word).expect("a purpose");
    let lines = report.traffic.iter().filter(|line| line.peer == peer);
    lines.map(|line| (kind(&line.purpose), bytes(line))).filter(|(_, bytes)| *bytes > 0).collect()
}

/// What a job that nothing disturbs sends from one node to another.
fn formula(plan: &Plan, job: &Job, table: &ModelTable, (from, to): (NodeId, NodeId)) -> Lines {
    let every = job.spec.train.evaluate.expect("the test's job validates").every;
    let passes = (1..=job.spec.train.steps).filter(|step| step % every == 0 || *step == job.spec.train.steps).count();
    let steps = traffic::of_step(plan, &job.spec, table).between(from, to) * job.spec.train.steps;
    let validation = traffic::of_validation(plan, job).between(from, to) * passes as u64;
    let seats = traffic::of_deployment(plan, table).between(from, to).weights;
    let lines = [
        (TrafficKind::Activation, steps.activation + validation.activation),
        (TrafficKind::ActivationGradient, steps.activation_gradient),
        (TrafficKind::GradientPartial, steps.gradient_partial),
        (TrafficKind::ShadowGradient, steps.shadow_gradient),
        (TrafficKind::Weights, steps.weights),
        (TrafficKind::SeatWeights, seats),
    ];
    lines.into_iter().filter(|(_, bytes)| *bytes > 0).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_undisturbed_job_sends_what_the_plan_says() {
    for (layout, wire) in [
        (Layout::new(2, 2), Wire::Fp32),
        (Layout::new(2, 2), Wire::Bf16),
        // One replica: its sums are over all lanes.
        (Layout::new(3, 1), Wire::Bf16),
        // Runs of lanes that are more than one subtree.
        (Layout::new(1, 3), Wire::Bf16),
    ] {
        let (_dir, mut job) = tiny_of(layout, STEPS);
        Arc::make_mut(&mut job).spec.train.numerics.wire = wire;
        let table = ModelTable::of_job(&job.spec);
        let net = Net::up(&WORKERS[..(layout.pipeline * layout.data) as usize]).await;
        let id = net.submit(&job).await;
        net.ending(id, &job).await;
        let (plans, names, reports) = (net.plans(id), net.names(), net.reports(id).await);
        let [Planned { plan, unfilled }] = &plans[..] else { panic!("nothing happened: {}", net.events(id).await) };
        assert!(unfilled.is_empty(), "who begins has everything");
        let mut kinds = std::collections::BTreeSet::new();
        for (&from, sender) in &names {
            for (&to, receiver) in names.iter().filter(|(to, _)| **to != from) {
                let want = formula(plan, &job, &table, (from, to));
                let sent = counted(&reports, (sender, receiver), |line| line.bytes_sent);
                assert_eq!(sent, want, "{layout:?} {wire:?}: {sender} to {receiver}");
                let received = counted(&reports, (receiver, sender), |line| line.bytes_received);
                assert_eq!(received, want, "{layout:?} {wire:?}: {receiver} from {sender}");
                kinds.extend(want.into_keys());
            }
        }
        assert!(kinds.contains(&TrafficKind::GradientPartial) && kinds.contains(&TrafficKind::Weights), "{kinds:?}");
        assert_eq!(kinds.contains(&TrafficKind::Activation), layout.pipeline > 1, "{kinds:?}");
    }
}

/// What a node held of a block under a plan.
fn held(plan: &Plan, node: NodeId, block: BlockId) -> IntervalSet {
    let mut set = IntervalSet::default();
    for piece in plan.pieces.iter().filter(|p| p.block == block && p.holders().any(|holder| holder == node)) {
        set.insert(piece.interval);
    }
    set
}

/// Bytes of state that a node gets on the way from plan to plan: before training goes on, and behind it. What it lacks of a
/// piece is fetched; a shadow that is filled later gets all of it.
fn moved(before: &Plan, after: &Planned, table: &ModelTable, node: NodeId) -> (u64, u64) {
    let (mut fetched, mut filled) = (0, 0);
    for (id, piece) in after.plan.pieces().filter(|(_, piece)| piece.holders().any(|holder| holder == node)) {
        if after.unfilled.contains(&(id, node)) {
            filled += table.state_bytes(piece.block, piece.interval);
        } else {
            let lacking = held(before, node, piece.block).missing_from(piece.interval);
            fetched += table.state_bytes_of(piece.block, &lacking);
        }
    }
    (fetched, filled)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn state_that_moves_is_what_its_new_holders_lack() {
    for optimizer in [None, Some(OptimizerSpec::Adafactor(ADAFACTOR))] {
        // More steps than it can take until it is done with.
        let (_dir, mut job) = tiny_of(Layout::new(2, 1), 100_000);
        let train = &mut Arc::make_mut(&mut job).spec.train;
        train.numerics.wire = Wire::Bf16;
        if let Some(optimizer) = optimizer {
            train.optimizer = optimizer;
        }
        let table = ModelTable::of_job(&job.spec);
        let mut net = Net::up(&["a", "b", "c"]).await;
        let id = net.submit(&job).await;
        net.until_step(id, 1).await;
        net.until_filled(id).await;
        net.leave("a").await;
        net.until_filled(id).await;
        let (plans, reports) = (net.plans(id), net.reports(id).await);
        assert!(plans.len() > 1, "{}", net.events(id).await);
        let mut all = 0;
        for (node, name) in net.names() {
            let Some(report) = reports.iter().find(|report| report.node == name) else { continue };
            let got = |kind: TrafficKind| -> u64 {
                report.traffic.iter().filter(|line| line.purpose == kind.word()).map(|line| line.bytes_received).sum()
            };
            let moves = plans.windows(2).map(|pair| moved(&pair[0].plan, &pair[1], &table, node));
            let want = moves.fold((0, 0), |sum, (fetched, filled)| (sum.0 + fetched, sum.1 + filled));
            assert_eq!((got(TrafficKind::StateRecovery), got(TrafficKind::StateFill)), want, "{name}: {plans:#?}");
            all += want.0 + want.1;
        }
        assert!(all > 0, "what a held went somewhere");
    }
}
