pub(crate) mod cluster;
mod numerics;
mod optimizers;

use std::sync::Arc;
use std::time::{Duration, Instant};

use cluster::{Cluster, Ending, Layout, job, text};
use shoal_config::spec::{Precision, Schedule};
use shoal_plan::engine::{RedundancyState, State, Timing};
use shoal_plan::ids::NodeId;
use tempfile::TempDir;

use super::HolderMsg;
use crate::device::Devices;
use crate::stage::StageFault;

const STEPS: u64 = 6;

async fn cluster(layout: Layout, nodes: u64) -> (TempDir, Cluster) {
    cluster_for(STEPS, layout, nodes).await
}

async fn cluster_for(steps: u64, layout: Layout, nodes: u64) -> (TempDir, Cluster) {
    let dir = TempDir::new().expect("a temp dir");
    let mut cluster = Cluster::new(job(text(&dir), layout, steps));
    for node in 1..=nodes {
        cluster.join(node).await;
    }
    (dir, cluster)
}

async fn undisturbed(layout: Layout, nodes: u64) -> Ending {
    let (_dir, cluster) = cluster(layout, nodes).await;
    cluster.ending().await
}

async fn reference() -> Ending {
    undisturbed(Layout { redundancy: 0, ..Layout::new(1, 1) }, 1).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_layout_ends_in_the_same_bits() {
    let reference = reference().await;
    for (layout, nodes) in [
        (Layout::new(1, 1), 2),
        (Layout::new(2, 1), 1),
        (Layout::new(2, 1), 2),
        (Layout { schedule: Schedule::GPipe, ..Layout::new(4, 1) }, 4),
        (Layout::new(1, 3), 3),
        (Layout::new(2, 2), 4),
        (Layout { schedule: Schedule::GPipe, ..Layout::new(2, 2) }, 3),
    ] {
        assert_eq!(undisturbed(layout, nodes).await, reference, "{layout:?} on {nodes} nodes");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_node_and_a_new_one_leave_no_trace() {
    let reference = reference().await;
    for victim in 1..=4 {
        let (_dir, mut cluster) = cluster(Layout::new(2, 2), 4).await;
        cluster.until_step(2).await;
        cluster.kill(victim);
        cluster.until_step(3).await;
        cluster.join(5).await;
        let log = cluster.log();
        assert_eq!(cluster.ending().await, reference, "n{victim} was killed:\n{log}");
    }
}

/// Kills are timed by messages to the engine, so that they fall into every part of a step and of a recovery.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_any_moment_leaves_no_trace() {
    let steps = 5 * STEPS;
    let (_dir, undisturbed) = cluster_for(steps, Layout { redundancy: 0, ..Layout::new(1, 1) }, 1).await;
    let reference = undisturbed.ending().await;
    for turn in 0..12usize {
        let (_dir, mut cluster) = cluster_for(steps, Layout::new(2, 2), 4).await;
        cluster.until_step(1).await;
        let heard = cluster.heard + 3 * turn;
        cluster.until("a moment", |cluster| cluster.heard >= heard).await;
        cluster.kill(1 + turn as u64 % 4);
        let heard = cluster.heard + 2 * turn;
        cluster.until("another moment", |cluster| cluster.heard >= heard).await;
        cluster.join(5).await;
        cluster.until("redundancy", |cluster| cluster.engine.status().redundancy.state == RedundancyState::Full).await;
        cluster.kill(5);
        let log = cluster.log();
        assert_eq!(cluster.ending().await, reference, "turn {turn}:\n{log}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stage_that_panics_loses_nothing() {
    let reference = reference().await;
    let (_dir, mut cluster) = cluster(Layout::new(2, 2), 4).await;
    cluster.until_step(2).await;
    cluster.holder(1).cast(HolderMsg::FailStage(StageFault::Panic)).expect("it lives");
    cluster.until("the failure", |cluster| cluster.log().contains("stage_failed")).await;
    assert_eq!(cluster.engine.members().len(), 4, "no node is lost");
    assert_eq!(cluster.ending().await, reference);
}

/// Its actors live and answer, its device does not: everyone else waits for its gradients.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_that_hangs_is_found_and_its_node_evicted() {
    let reference = reference().await;
    let dir = TempDir::new().expect("a temp dir");
    let timing = Timing { gather: 0, progress: 2_000, progress_steps: 4, ..Timing::default() };
    let mut cluster = Cluster::with_timing(job(text(&dir), Layout::new(2, 2), STEPS), timing);
    for node in 1..=4 {
        cluster.join(node).await;
    }
    cluster.until_step(2).await;
    cluster.holder(2).cast(HolderMsg::FailStage(StageFault::Hang)).expect("it lives");
    cluster.until("an eviction", |cluster| cluster.engine.members().len() < 4).await;
    assert_eq!(cluster.engine.members(), [1, 3, 4].map(NodeId), "{}", cluster.log());
    let log = cluster.log();
    assert!(log.contains("n2 is evicted: its compute device has been in one piece of work for "), "{log}");
    assert_eq!(cluster.ending().await, reference, "{log}");
}

/// It never had a step that was not finite before its learning rate threw the weights away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_diverges_fails_and_says_what_to_do() {
    let dir = TempDir::new().expect("a temp dir");
    let mut wild = (*job(text(&dir), Layout::new(2, 1), 40)).clone();
    wild.spec.train.schedule.peak = 1e30;
    wild.spec.train.max_skips = Some(4);
    let mut cluster = Cluster::new(Arc::new(wild));
    cluster.join(1).await;
    cluster.join(2).await;
    cluster.until_over().await;
    let status = cluster.engine.status();
    let (State::Failed { reason }, log) = (&status.state, cluster.log()) else { panic!("{}", cluster.log()) };
    let (at, loss) = status.loss.expect("a step was fine");
    assert!(loss.is_finite() && status.step == at + 4, "{log}");
    assert!(reason.starts_with(&format!("diverged: steps {} to {} were skipped", at + 1, at + 4)), "{reason}");
    assert!(reason.contains("lower train.learning_rate (now 1e30"), "{reason}");
    assert_eq!(cluster.entries().filter(|entry| entry.mean_loss().is_none()).count(), 4);
    assert_eq!(log.matches("step_skipped: step ").count(), 4, "{log}");
    assert!(log.contains("changes nothing: not finite: the loss (n"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_other_data_fails_the_job_and_says_so() {
    let dir = TempDir::new().expect("a temp dir");
    let mut other = (*job(text(&dir), Layout::new(1, 1), STEPS)).clone();
    other.data.digest = shoal_plan::ids::Digest::of(b"other data");
    let mut cluster = Cluster::new(Arc::new(other));
    cluster.join(1).await;
    cluster.until_over().await;
    let State::Failed { reason } = cluster.engine.status().state else { panic!("{}", cluster.log()) };
    assert!(reason.contains("copy the submitted files to this node"), "{reason}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arenas_return_to_nothing_after_the_end() {
    let (_dir, mut cluster) = cluster(Layout::new(2, 2), 4).await;
    let idle = Devices::start("idle", shoal_kernels::Class::detect(), 1, 64 << 20).expect("devices").used_bytes();
    cluster.until_over().await;
    for node in 1..=4 {
        let devices = cluster.devices(node);
        let deadline = Instant::now() + Duration::from_secs(20);
        // The devices' own scratch stays; nothing is kept for a next step, for there is none.
        while devices.used_bytes() > idle {
            let live: Vec<_> = devices.arena_lines().into_iter().filter(|line| line.live_bytes > 0).collect();
            assert!(Instant::now() < deadline, "n{node} keeps {} bytes, {live:?}", devices.used_bytes());
            // What is still to be freed waits in these queues.
            devices.compute.run(|_| ()).await.expect("the device lives");
            devices.store.run(|_| ()).await.expect("the store lives");
        }
    }
}

/// The planner's formulas bound what the arenas really held, at any time of a whole run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arenas_stay_within_what_the_planner_counts() {
    for (layout, nodes, precision) in [
        (Layout::new(1, 1), 1, Precision::Fp32),
        (Layout::new(2, 2), 4, Precision::Fp32),
        (Layout::new(1, 3), 3, Precision::Fp32),
        (Layout::new(1, 1), 1, Precision::Bf16),
        (Layout::new(2, 2), 4, Precision::Bf16),
    ] {
        let dir = TempDir::new().expect("a temp dir");
        let mut job = Arc::unwrap_or_clone(job(text(&dir), layout, STEPS));
        job.spec.train.numerics.precision = precision;
        let mut cluster = Cluster::new(Arc::new(job));
        for node in 1..=nodes {
            cluster.join(node).await;
        }
        let idle: Vec<_> = (1..=nodes).map(|node| cluster.high(node)).collect();
        cluster.until_step(1).await;
        let counted = cluster.counted();
        cluster.until_over().await;
        for node in 1..=nodes {
            let (device, host) = cluster.high(node);
            let (scratch, store_scratch) = idle[node as usize - 1];
            let bytes = counted[&NodeId(node)];
            let (device, host) = (device - scratch, host - store_scratch);
            assert!(device <= bytes.device(), "{layout:?} n{node}: {device} of {bytes:?}");
            // A gradient may come while the one before is being applied.
            assert!(host <= bytes.host() + bytes.shadow_gradients, "{layout:?} n{node}: {host} of {bytes:?}");
        }
    }
}
