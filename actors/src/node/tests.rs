mod fake;
mod net;
mod traffic;

use std::sync::Arc;

use net::{Ending, Net};
use shoal_config::spec::{OptimizerSpec, SgdSpec};
use shoal_plan::job::Job;
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::holder::tests::cluster::{Layout, job, text};

const STEPS: u64 = 8;

/// The job, and how it ends when nothing happens.
async fn undisturbed(layout: Layout, workers: &[&str]) -> (Ending, Vec<shoal_wire::api::NodeReport>) {
    let (_dir, what) = tiny(layout);
    let net = Net::up(workers).await;
    let id = net.submit(&what).await;
    (net.ending(id, &what).await, net.reports(id).await)
}

fn tiny(layout: Layout) -> (TempDir, Arc<Job>) {
    tiny_of(layout, STEPS)
}

fn tiny_of(layout: Layout, steps: u64) -> (TempDir, Arc<Job>) {
    let dir = TempDir::new().expect("a temp dir");
    let what = job(text(&dir), layout, steps);
    (dir, what)
}

async fn reference() -> &'static Ending {
    static REFERENCE: OnceCell<Ending> = OnceCell::const_new();
    REFERENCE.get_or_init(|| async { undisturbed(Layout::new(1, 1), &["a"]).await.0 }).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_two_and_four_workers_end_in_the_same_bits() {
    let reference = reference().await;
    assert_eq!(undisturbed(Layout::new(2, 1), &["a", "b"]).await.0, *reference);
    let (ending, reports) = undisturbed(Layout::new(2, 2), &["a", "b", "c", "d"]).await;
    assert_eq!(ending, *reference);
    assert_eq!(reports.len(), 4, "reports outlive the arenas");
    assert!(reports.iter().all(|r| r.devices[0].owned > 0 && r.devices[0].shadowed > 0), "{reports:?}");
    assert!(
        reports.iter().all(|r| r.traffic.iter().any(|t| t.purpose == "shadow_gradient" && t.bytes_sent > 0)),
        "{:?}",
        reports[0].traffic
    );
}

/// A worker's arenas outlive its jobs; what is reported of a job is its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_has_no_marks_of_an_earlier_job() {
    let (_dir, first) = tiny(Layout::new(1, 1));
    let mut second = Job::clone(&first);
    second.spec.train.optimizer = OptimizerSpec::Sgd(SgdSpec { momentum: None, weight_decay: 0.0 });
    let net = Net::up(&["a"]).await;
    let mut marks = Vec::new();
    for what in [&*first, &second] {
        let id = net.submit(what).await;
        net.ending(id, what).await;
        let device = net.reports(id).await.remove(0).devices.remove(0);
        let high = |tag: &str| device.arenas.iter().filter(|line| line.tag == tag).map(|l| l.high_water_bytes).sum();
        marks.push((high("weight"), high("moment")));
    }
    let [(first_weights, first_moments), (weights, moments)]: [(u64, u64); 2] = marks.try_into().expect("two jobs");
    assert!(weights == first_weights && first_moments > first_weights / 2, "{first_moments} of {first_weights}");
    assert_eq!(moments, 0, "gradient descent remembers nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_goes_and_one_that_comes_leave_no_trace() {
    let reference = reference().await;
    let (_dir, what) = tiny(Layout::new(2, 2));
    let mut net = Net::up(&["a", "b", "c", "d"]).await;
    let id = net.submit(&what).await;
    net.until_step(id, 2).await;
    net.stop("b").await;
    net.until_step(id, 4).await;
    net.start("e").await;
    assert_eq!(net.ending(id, &what).await, *reference, "{}", net.events(id).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_coordinator_takes_over_and_nobody_starts_afresh() {
    let reference = reference().await;
    let (_dir, what) = tiny(Layout::new(2, 2));
    let mut net = Net::up(&["a", "b", "c", "d"]).await;
    let id = net.submit(&what).await;
    net.until_step(id, 3).await;
    net.replace_coordinator().await;
    assert_eq!(net.ending(id, &what).await, *reference, "{}", net.events(id).await);
    let events = net.events(id).await;
    assert!(!events.contains("node_lost"), "every worker came back under its name:\n{events}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_written_outlives_every_process() {
    let (_dir, what) = tiny(Layout::new(2, 1));
    let mut net = Net::up(&["a", "b"]).await;
    let id = net.submit(&what).await;
    let ending = net.ending(id, &what).await;
    for name in ["a", "b"] {
        net.stop(name).await;
    }
    net.until_living(0).await;
    // Either one has everything: as owner or as shadow.
    net.start("b").await;
    net.until_living(1).await;
    assert_eq!(net.written(id, &what).await, ending.state);
    let reports = net.reports(id).await;
    assert_eq!(reports.len(), 1);
    assert!(reports[0].devices[0].calls.iter().any(|call| call.backward > 0), "{reports:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_wishes_to_leave_is_let_go_and_nothing_is_lost() {
    let reference = reference().await;
    let (_dir, what) = tiny(Layout::new(2, 1));
    let mut net = Net::up(&["a", "b", "c"]).await;
    let id = net.submit(&what).await;
    net.until_step(id, 2).await;
    net.leave("a").await;
    assert_eq!(net.ending(id, &what).await, *reference, "{}", net.events(id).await);
    assert_eq!(net.status(id).await.steps_lost, 0);
}

/// SIGTERM to coordinator and workers at once: a worker's wish reaches nobody, and it ends all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_wishes_to_leave_does_not_wait_for_a_coordinator_that_is_gone() {
    let (_dir, what) = tiny_of(Layout::new(1, 1), 100_000);
    let mut net = Net::up(&["a"]).await;
    let id = net.submit(&what).await;
    net.until_step(id, 1).await;
    let stayed = net.abandon("a").await;
    assert!(stayed < std::time::Duration::from_secs(10), "{stayed:?}");
}

/// A worker that has done twenty jobs is as good as one that has done none: no actor, no byte, only files stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_a_job_stays_on_a_worker_but_its_files() {
    let (_dir, what) = tiny_of(Layout::new(2, 1), 1);
    let net = Net::up(&["a", "b"]).await;
    // Each device keeps its scratch.
    net.until("heartbeats", |net| Box::pin(async move { net.used_bytes().await.iter().all(|used| *used > 0) })).await;
    let before = net.used_bytes().await;
    let mut first = None;
    for _ in 0..20 {
        let id = net.submit(&what).await;
        let ending = net.ending(id, &what).await;
        assert_eq!(first.get_or_insert((id, ending.clone())).1, ending);
    }
    let (id, ending) = first.expect("there were jobs");
    net.until("arenas hold what they held before, and holders have ended", move |net| {
        let before = before.clone();
        let ended = || net.nodes.values().all(|node| node.holders() == 0);
        Box::pin(async move { net.used_bytes().await == before && ended() })
    })
    .await;
    assert_eq!(net.written(id, &what).await, ending.state, "files still answer");
    assert_eq!(net.reports(id).await.len(), 2);
}
