//! Jobs on their way in: what happens while their data is read, and if it turns out to be bad.

use std::os::unix::fs::FileExt;

use shoal_plan::engine::Order;
use shoal_wire::api::Fault;

use super::*;

/// A job whose data is bad at its very end, so that only reading all of it shows that.
fn bad_end(dir: &std::path::Path) -> shoal_config::JobSpec {
    let bad = spec(dir, "");
    let file = std::fs::OpenOptions::new().write(true).open(dir.join("text.txt")).expect("there");
    file.write_all_at(&[0xff], file.metadata().expect("a file").len() - 1).expect("written");
    bad
}

fn new(job: JobId) -> Submitted {
    Submitted::New { job, plain: None }
}

async fn submit(stage: &Stage, spec: shoal_config::JobSpec, repeat: Repeat) -> Submitted {
    stage.ask(|reply| CoordinatorMsg::Submit(Box::new(spec), repeat, reply)).await.expect("accepted")
}

async fn read_through(stage: &Stage, job: JobId) -> JobStatus {
    stage.until("its data to be read", async || status(stage, job).await.reading.is_none()).await;
    status(stage, job).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_whose_data_turns_out_bad_fails_with_the_reason_and_stays_failed() {
    let mut stage = Stage::up(CALM).await;
    let dir = tempfile::tempdir().expect("temporary directory");
    let job = submit(&stage, bad_end(dir.path()), Repeat::Join).await.job();
    let failed = read_through(&stage, job).await;
    assert_eq!(failed.state, JobState::Failed);
    assert!(failed.reason.as_ref().is_some_and(|reason| reason.contains("text.txt")), "{:?}", failed.reason);
    let kinds = async |stage: &Stage| {
        let events = stage.ask(|reply| CoordinatorMsg::Read(Read::Events(job, 0, reply))).await.expect("there");
        events.into_iter().map(|event| event.kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds(&stage).await, ["submitted", "ended"]);
    stage.replace().await;
    let again = status(&stage, job).await;
    assert_eq!(failed.fault, Some(Fault::Data));
    assert_eq!(
        (again.state, again.reason, again.fault),
        (failed.state, failed.reason, failed.fault),
        "the next coordinator knows it"
    );
    assert_eq!(kinds(&stage).await, ["submitted", "ended"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_submitted_again_is_the_same_job_until_that_is_over() {
    let stage = Stage::up(CALM).await;
    let dir = tempfile::tempdir().expect("temporary directory");
    let small = spec(dir.path(), "");
    let first = submit(&stage, small.clone(), Repeat::Join).await;
    assert_eq!(first, new(JobId(1)));
    assert_eq!(submit(&stage, small.clone(), Repeat::Join).await, Submitted::Known(JobId(1)), "perhaps still read");
    read_through(&stage, JobId(1)).await;
    assert_eq!(submit(&stage, small.clone(), Repeat::Join).await, Submitted::Known(JobId(1)), "waiting for nodes");
    assert_eq!(submit(&stage, small.clone(), Repeat::Again).await, new(JobId(2)), "asked for");
    let other = shoal_config::JobSpec { seed: 99, ..small.clone() };
    assert_eq!(submit(&stage, other, Repeat::Join).await, new(JobId(3)), "another job");
    for job in [1, 2] {
        let order = |reply| CoordinatorMsg::Order(JobId(job), Order::Cancel, reply);
        stage.ask(order).await.expect("accepted");
    }
    assert_eq!(submit(&stage, small, Repeat::Join).await, new(JobId(4)), "those are over");
}

/// The data of this job cannot be read to its end: it is a terabyte of a sparse file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_can_be_seen_and_cancelled_while_its_data_is_read_and_a_new_coordinator_reads_again() {
    let mut stage = Stage::up(CALM).await;
    let dir = tempfile::tempdir().expect("temporary directory");
    let endless = spec(dir.path(), "");
    std::fs::OpenOptions::new()
        .write(true)
        .open(dir.path().join("text.txt"))
        .and_then(|file| file.set_len(1 << 40))
        .expect("a sparse file");
    let job = submit(&stage, endless, Repeat::Join).await.job();
    let read = async |stage: &Stage| status(stage, job).await.reading.map_or(0, |reading| reading.tokens);
    stage.until("something to be read", async || read(&stage).await > 0).await;
    stage.replace().await;
    stage.until("something to be read", async || read(&stage).await > 0).await;
    let reading = status(&stage, job).await;
    assert_eq!(reading.state, JobState::Queued);
    assert_eq!(reading.reading.map(|reading| reading.of_tokens), Some(1 << 40));
    let order = async |order| stage.ask(|reply| CoordinatorMsg::Order(job, order, reply)).await;
    let early = order(Order::Pause { at: None }).await;
    assert!(matches!(early, Err(RequestError::Unread(JobId(1)))), "{early:?}");
    order(Order::Cancel).await.expect("accepted");
    assert_eq!(status(&stage, job).await.state, JobState::Cancelled);
    stage.replace().await;
    assert_eq!(status(&stage, job).await.state, JobState::Cancelled);
}
