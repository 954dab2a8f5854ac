//! Which job nodes work for, and what the others wait for.

use shoal_plan::ids::Digest;
use shoal_plan::job::DataFacts;
use shoal_wire::journal::Entry;

use super::*;

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
    let data = DataFacts { digest: Digest([7; 32]), train_tokens: 5_000, validation_tokens: 500 };
    stage.journal.append(&Entry::Facts { job: slow, data }).expect("memory takes all");
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
