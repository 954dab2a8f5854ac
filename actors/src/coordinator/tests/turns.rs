//! Which job nodes work for, and what the others wait for.

use shoal_wire::journal::Entry;

use super::*;
use crate::testing::facts;

/// A job whose data cannot be read to its end: it is a terabyte of a sparse file.
fn endless(dir: &std::path::Path) -> shoal_config::JobSpec {
    let endless = spec(dir, "");
    std::fs::OpenOptions::new()
        .write(true)
        .open(dir.join("text.txt"))
        .and_then(|file| file.set_len(1 << 40))
        .expect("a sparse file");
    endless
}

async fn submit(stage: &Stage, spec: shoal_config::JobSpec) -> JobId {
    stage.ask(|reply| CoordinatorMsg::Submit(Box::new(spec), Repeat::Again, reply)).await.expect("accepted").job()
}

/// A job that was submitted first, but whose data was read later, must not take the nodes of one that trains.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_job_that_had_its_turn_keeps_it_under_the_next_coordinator() {
    let mut stage = Stage::up(CALM).await;
    let mut a = stage.worker("a").await;
    let (slow_dir, quick_dir) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let slow = submit(&stage, endless(slow_dir.path())).await;
    let quick = submit(&stage, spec(quick_dir.path(), "")).await;
    assert!(slow < quick);
    assert_eq!(a.until("a fence", holder).await.0, quick);

    // Now the other one is read, too, and the coordinator dies.
    let data = facts(5_000, 500);
    stage.journal.append(&Entry::Facts { job: slow, data, weights: None }).expect("memory takes all");
    stage.replace().await;
    let mut back = Fake::new(&stage.ca, "a");
    back.knock(stage.address, Some(a.node)).await.expect("let in");
    assert_eq!(back.until("a fence", holder).await.0, quick);
    assert_eq!(status(&stage, slow).await.state, JobState::Queued);
    assert_eq!(status(&stage, slow).await.reading, None);

    // Only when that is over.
    stage.ask(|reply| CoordinatorMsg::Order(quick, Order::Cancel, reply)).await.expect("accepted");
    let fenced =
        |message| holder(message).filter(|(job, message)| *job == slow && matches!(message, ToNode::Fence { .. }));
    back.until("a fence of the other job", fenced).await;
}

/// Whoever waits is told for what, and who keeps others waiting is told how that ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queued_job_says_what_it_waits_for() {
    let stage = Stage::up(Patience { suspect: 100, lost: 400, ..Patience::default() }).await;
    let reason = async |job| status(&stage, job).await.reason.unwrap_or_default();
    let dirs: Vec<_> = (0..4).map(|_| tempfile::tempdir().expect("a directory")).collect();
    let mut jobs = Vec::new();
    for dir in &dirs[..3] {
        let job = submit(&stage, spec(dir.path(), "")).await;
        stage.until("its data to be read", async || status(&stage, job).await.reading.is_none()).await;
        jobs.push(job);
    }
    let unread = submit(&stage, endless(dirs[3].path())).await;
    assert!(reason(jobs[0]).await.contains("no node yet"), "{}", reason(jobs[0]).await);
    assert_eq!(reason(jobs[1]).await, "it is behind j1, which waits for a first node");
    assert_eq!(reason(jobs[2]).await, "it is behind one more job and j1, which waits for a first node");

    let mut a = stage.worker("a").await;
    a.until("a fence", holder).await;
    assert_eq!(reason(jobs[1]).await, "it is behind j1, which is being planned");
    let coming = reason(unread).await;
    assert!(coming.contains("is being read") && coming.contains("behind 2 more jobs and j1"), "{coming}");

    // Its only node is lost.
    stage.until("it is parked", async || status(&stage, jobs[0]).await.state == JobState::Parked).await;
    let (parked, behind) = (reason(jobs[0]).await, reason(jobs[1]).await);
    assert!(parked.contains("no node is left; j2, j3 wait behind it: it goes on when a worker joins"), "{parked}");
    assert!(behind.contains("no node is left") && behind.contains("`shoalctl cancel j1` ends it"), "{behind}");

    stage.ask(|reply| CoordinatorMsg::Order(jobs[0], Order::Cancel, reply)).await.expect("accepted");
    stage.until("the next has its turn", async || reason(jobs[1]).await.contains("no node yet")).await;
    assert_eq!(reason(jobs[2]).await, "it is behind j2, which waits for a first node");
}
