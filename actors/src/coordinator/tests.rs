mod fake;
mod intake;
mod turns;
mod unlike;

use fake::{DEADLINE, Fake, Stage, spec};
use shoal_plan::engine::{Order, OrderAnswer, Timing};
use shoal_plan::ids::Generation;
use shoal_plan::ids::{JobId, NodeId};
use shoal_plan::protocol::{FromNode, Inventory, ToNode};
use shoal_wire::api::{JobState, JobStatus, NodeReport, NodeState};
use shoal_wire::control::{Answer, FromWorker, Question, ToWorker};
use tokio::time::timeout;

use super::*;
use crate::transport::{ConnectError, DownCause};

/// Long enough that nobody is lost by silence within a test.
const CALM: Patience = Patience { suspect: 60_000, lost: 120_000, jobs: Timing::STANDARD };

fn holder(message: ToWorker) -> Option<(JobId, ToNode)> {
    match message {
        ToWorker::Holder { job, message } => Some((job, message)),
        _ => None,
    }
}

async fn status(stage: &Stage, job: JobId) -> JobStatus {
    stage.ask(|reply| CoordinatorMsg::Read(Read::Status(job, reply))).await.expect("there is such a job")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_takes_the_id_of_another_worker() {
    let stage = Stage::up(CALM).await;
    let mut a = stage.worker("a").await;
    let mut b = Fake::new(&stage.ca, "b");
    b.knock(stage.address, Some(a.node)).await.expect("let in");
    assert_ne!(b.node, a.node);
    a.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_get_ids_that_are_never_used_twice_and_know_each_other() {
    let mut stage = Stage::up(CALM).await;
    let mut a = stage.worker("a").await;
    let b = stage.worker("b").await;
    assert_eq!((a.node, b.node), (NodeId(1), NodeId(2)));
    let others = a
        .until("a's peers", |message| match message {
            ToWorker::Peers(peers) if !peers.is_empty() => Some(peers),
            _ => None,
        })
        .await;
    assert_eq!(others.iter().map(|peer| peer.node).collect::<Vec<_>>(), [b.node]);

    stage.replace().await;
    let c = stage.worker("c").await;
    assert_eq!(c.node, NodeId(3), "ids outlive the coordinator");
    let mut back = Fake::new(&stage.ca, "a");
    back.knock(stage.address, Some(a.node)).await.expect("let in");
    assert_eq!(back.node, a.node, "a process that comes back keeps its id");
    let names: Vec<_> = stage.nodes().await.into_iter().map(|node| node.node).collect();
    assert_eq!(names, ["a", "c"]);
}

/// MB-1 outlives the coordinator: a process that was given up is someone else to the next one, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_who_was_lost_is_someone_else_to_the_next_coordinator() {
    let mut stage = Stage::up(Patience { suspect: 100, lost: 400, ..CALM }).await;
    let mut a = stage.worker("a").await;
    a.down().await;
    stage.replace().await;
    let mut back = Fake::new(&stage.ca, "a");
    back.knock(stage.address, Some(a.node)).await.expect("let in");
    assert_eq!((a.node, back.node), (NodeId(1), NodeId(2)));
}

/// A worker that dies while nobody coordinates is asked after by the next coordinator: nobody waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_who_died_together_with_the_coordinator_is_not_waited_for() {
    let mut stage = Stage::up(CALM).await;
    let (mut a, mut b) = (stage.worker("a").await, stage.worker("b").await);
    let dir = tempfile::tempdir().expect("temporary directory");
    let small = Box::new(spec(dir.path(), ""));
    let job = stage.ask(|reply| CoordinatorMsg::Submit(small, Repeat::Join, reply)).await.expect("accepted").job();
    a.until("a fence", holder).await;
    b.until("a fence", holder).await;
    let (b_was, back) = (b.node, a.node);
    drop(b);
    stage.replace().await;
    let mut a = Fake::new(&stage.ca, "a");
    a.knock(stage.address, Some(back)).await.expect("let in");
    a.until("a fence", holder).await;
    let lost: Vec<_> = stage
        .ask(|reply| CoordinatorMsg::Read(Read::Events(job, 0, reply)))
        .await
        .expect("there")
        .into_iter()
        .filter(|event| event.kind == "node_lost")
        .collect();
    assert!(lost.len() == 1 && lost[0].node.as_deref() == Some("b"), "{lost:?}");
    assert!(lost[0].reason.contains("died"), "not after a wait for its return: {}", lost[0].reason);

    let mut again = Fake::new(&stage.ca, "b");
    again.knock(stage.address, Some(b_was)).await.expect("let in");
    assert_ne!(again.node, b_was, "MB-1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_is_durable_before_it_is_given_out() {
    let stage = Stage::up(CALM).await;
    let mut flushes = stage.journal.close();
    let mut a = Fake::new(&stage.ca, "a");
    let address = stage.address;
    let knock = tokio::spawn(async move { a.knock(address, None).await.map(|()| a.node) });
    timeout(DEADLINE, flushes.changed()).await.expect("a flush is asked for").expect("the journal is there");
    assert_eq!(stage.nodes().await, [], "nobody is in before that");
    assert!(!knock.is_finished());
    stage.journal.open.add_permits(8);
    assert_eq!(knock.await.expect("no panic").expect("let in"), NodeId(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_worker_of_a_living_name_is_refused_and_nothing_is_harmed() {
    let stage = Stage::up(CALM).await;
    let mut a = stage.worker("a").await;
    let error = Fake::new(&stage.ca, "a").knock(stage.address, None).await.expect_err("the name is taken");
    assert!(matches!(&error, ConnectError::Refused { reason, .. } if reason.contains("named a")), "{error}");
    a.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_who_falls_silent_is_lost_and_comes_back_as_someone_else() {
    let stage = Stage::up(Patience { suspect: 100, lost: 400, ..CALM }).await;
    let mut a = stage.worker("a").await;
    let cause = a.down().await;
    assert!(matches!(&cause, DownCause::Closed(reason) if reason.contains("heartbeat")), "{cause}");
    assert_eq!(stage.nodes().await[0].state, NodeState::Gone);
    let old = a.node;
    a.knock(stage.address, Some(old)).await.expect("let in");
    assert_eq!((old, a.node), (NodeId(1), NodeId(2)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_submissions_are_refused_with_their_reason() {
    let stage = Stage::up(CALM).await;
    let _a = stage.worker("a").await;
    let dir = tempfile::tempdir().expect("temporary directory");
    let submit = async |spec| stage.ask(|reply| CoordinatorMsg::Submit(Box::new(spec), Repeat::Join, reply)).await;

    let mut missing = spec(dir.path(), "");
    missing.data.path = dir.path().join("nothing.txt");
    let error = submit(missing).await.expect_err("no data");
    assert!(matches!(error, RequestError::Data(crate::loader::DataError::Missing { .. })), "{error:?}");

    let mut fixed = spec(dir.path(), "[parallel]\nfixed = true\n");
    fixed.parallel.pipeline = shoal_config::spec::Auto::Set(9);
    let error = submit(fixed).await.expect_err("nine stages of four blocks");
    assert!(matches!(error, RequestError::Layout(shoal_plan::planner::NoPlan::Impossible { .. })), "{error:?}");

    let mut huge = spec(dir.path(), "");
    huge.model.as_gpt2_mut().expect("a GPT-2").width = 2048;
    let error = submit(huge).await.expect_err("over budget");
    assert!(matches!(error, RequestError::Layout(shoal_plan::planner::NoPlan::Memory { .. })), "{error:?}");

    let jobs = stage.ask(|reply| CoordinatorMsg::Read(Read::Jobs(reply))).await.expect("answered");
    assert_eq!(jobs, [], "nothing of it stays");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submission_is_acknowledged_when_it_is_durable_and_survives() {
    let mut stage = Stage::up(CALM).await;
    let dir = tempfile::tempdir().expect("temporary directory");
    let wanted = spec(dir.path(), "");
    let mut flushes = stage.journal.close();
    let (actor, boxed) = (stage.actor.clone(), Box::new(wanted.clone()));
    let submit = tokio::spawn(async move {
        actor
            .call(|reply| CoordinatorMsg::Submit(boxed, Repeat::Join, reply), Some(DEADLINE))
            .await
            .expect("the actor lives")
    });
    timeout(DEADLINE, flushes.changed()).await.expect("a flush is asked for").expect("the journal is there");
    assert!(!submit.is_finished());
    stage.journal.open.add_permits(100);
    let job = submit.await.expect("no panic").unwrap().expect("accepted");
    assert_eq!(job, Submitted::New { job: JobId(1), plain: None });
    let job = job.job();

    stage.replace().await;
    assert_eq!(status(&stage, job).await.name, "small");
    stage.until("its data to be read", async || status(&stage, job).await.reading.is_none()).await;
    let kept = stage.ask(|reply| CoordinatorMsg::Read(Read::Job(job, reply))).await.expect("there");
    assert_eq!(kept.spec, wanted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_job_runs_and_the_next_waits_for_its_end() {
    let stage = Stage::up(CALM).await;
    let mut a = stage.worker("a").await;
    let dir = tempfile::tempdir().expect("temporary directory");
    let mut jobs = Vec::new();
    for _ in 0..2 {
        let spec = Box::new(spec(dir.path(), ""));
        let job = stage.ask(|reply| CoordinatorMsg::Submit(spec, Repeat::Again, reply)).await.expect("accepted").job();
        stage.until("its data to be read", async || status(&stage, job).await.reading.is_none()).await;
        jobs.push(job);
    }
    let announced = |message| match message {
        ToWorker::Job { id, .. } => Some(id),
        ToWorker::Holder { .. } => panic!("the engine speaks before the job is known"),
        _ => None,
    };
    assert_eq!(a.until("the first job", announced).await, jobs[0]);
    let (job, fence) = a.until("a fence", holder).await;
    assert!(job == jobs[0] && matches!(fence, ToNode::Fence { .. }), "{fence:?}");
    assert_eq!(status(&stage, jobs[1]).await.state, JobState::Queued);

    let order = async |order| stage.ask(|reply| CoordinatorMsg::Order(jobs[0], order, reply)).await.expect("accepted");
    assert_eq!(order(Order::Pause { at: None }).await, OrderAnswer::Accepted);
    let reason = status(&stage, jobs[0]).await.reason.unwrap_or_default();
    assert!(reason.ends_with("; the operator holds it at step 0"), "{reason}");
    assert_eq!(order(Order::Cancel).await, OrderAnswer::Accepted);
    let over = status(&stage, jobs[0]).await;
    assert_eq!((over.state, over.redundancy.state), (JobState::Cancelled, shoal_wire::api::RedundancyState::Gone));
    let second = |message| match message {
        ToWorker::Job { id, .. } => Some(id),
        _ => None,
    };
    assert_eq!(a.until("the second job", second).await, jobs[1]);
    let error = stage.ask(|reply| CoordinatorMsg::Order(JobId(9), Order::Resume, reply)).await.expect_err("no job");
    assert!(matches!(error, RequestError::NoJob(JobId(9))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_gathers_nodes_says_so() {
    let stage = Stage::up(Patience { jobs: Timing { gather: 60_000, ..Timing::STANDARD }, ..CALM }).await;
    let dir = tempfile::tempdir().expect("temporary directory");
    let small = Box::new(spec(dir.path(), ""));
    let job = stage.ask(|reply| CoordinatorMsg::Submit(small, Repeat::Join, reply)).await.expect("accepted").job();
    stage.until("its data to be read", async || status(&stage, job).await.reading.is_none()).await;
    let said = async || (status(&stage, job).await.state, status(&stage, job).await.reason.unwrap_or_default());
    let (state, reason) = said().await;
    assert!(state == JobState::Queued && reason.contains("there is no node yet"), "{reason}");
    let _a = stage.worker("a").await;
    let (state, reason) = said().await;
    assert!(state == JobState::Queued && reason.contains("waits a moment for more nodes"), "{reason}");
}

/// The generation of the next fence.
async fn fenced(worker: &mut Fake, job: JobId) -> Generation {
    let fence = |message| match holder(message) {
        Some((of, ToNode::Fence { generation, .. })) if of == job => Some(generation),
        Some(_) | None => None,
    };
    worker.until("a fence", fence).await
}

/// A worker that answered a fence too late is a member again when it speaks; also when it does not, and the operator resumes
/// the job that waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_living_worker_is_no_member_only_until_it_speaks_or_the_job_is_resumed() {
    let stage = Stage::up(Patience { jobs: Timing { answer: 50, ..Timing::STANDARD }, ..CALM }).await;
    let mut a = stage.worker("a").await;
    let dir = tempfile::tempdir().expect("temporary directory");
    let small = Box::new(spec(dir.path(), ""));
    let job = stage.ask(|reply| CoordinatorMsg::Submit(small, Repeat::Join, reply)).await.expect("accepted").job();
    let first = fenced(&mut a, job).await;
    stage.until("the job to be parked", async || status(&stage, job).await.state == JobState::Parked).await;
    assert_eq!(stage.nodes().await[0].state, NodeState::Ready);

    let order = |reply| CoordinatorMsg::Order(job, Order::Resume, reply);
    assert_eq!(stage.ask(order).await.expect("accepted"), OrderAnswer::Accepted);
    let second = fenced(&mut a, job).await;
    assert!(second > first, "{second} after {first}");
    stage.until("the job to be parked again", async || status(&stage, job).await.state == JobState::Parked).await;

    let (generation, seen) = (second, Generation::default());
    let inventory =
        Inventory { generation, seen, adopted: seen, holdings: Vec::new(), entries: Vec::new(), in_hand: None };
    a.say(FromWorker::Holder { job, message: FromNode::Inventory(inventory) });
    let third = fenced(&mut a, job).await;
    assert!(third > second, "{third} after {second}");
}

/// A coordinator may die between a job's end and its release; workers must not keep its arenas for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_outlives_a_coordinator_is_released_from_jobs_that_ended() {
    let mut stage = Stage::up(CALM).await;
    let a = stage.worker("a").await;
    let dir = tempfile::tempdir().expect("temporary directory");
    let small = Box::new(spec(dir.path(), ""));
    let job = stage.ask(|reply| CoordinatorMsg::Submit(small, Repeat::Join, reply)).await.expect("accepted").job();
    stage.ask(|reply| CoordinatorMsg::Order(job, Order::Cancel, reply)).await.expect("accepted");
    stage.replace().await;
    assert_eq!(status(&stage, job).await.state, JobState::Cancelled);

    let mut back = Fake::new(&stage.ca, "a");
    back.knock(stage.address, Some(a.node)).await.expect("let in");
    let (ended, message) = back.until("a release", holder).await;
    assert!(ended == job && matches!(message, ToNode::Release { .. }), "{message:?}");
    let mut new = stage.worker("b").await;
    let said = new.drain().await;
    assert!(!said.iter().any(|message| matches!(message, ToWorker::Holder { .. } | ToWorker::Job { .. })), "{said:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_for_answers_of_the_dead() {
    let stage = Stage::up(CALM).await;
    let mut a = stage.worker("a").await;
    let mut b = stage.worker("b").await;
    let question = Question::Report { job: JobId(1) };
    let actor = stage.actor.clone();
    let asked = question.clone();
    let answers = tokio::spawn(async move {
        let ask = |reply| CoordinatorMsg::Read(Read::Ask(To::All, asked, reply));
        actor.call(ask, Some(DEADLINE)).await.expect("the actor lives")
    });
    let heard = |message| match message {
        ToWorker::Ask { request, question } => Some((request, question)),
        _ => None,
    };
    let (request, what) = a.until("the question", heard).await;
    assert_eq!(what, question);
    b.until("the question", heard).await;
    let report = NodeReport { node: a.node.to_string(), ..NodeReport::default() };
    a.say(FromWorker::Answer { request, answer: Answer::Report(Box::new(report)) });
    drop(b);
    let answers = answers.await.expect("no panic").unwrap().expect("answered");
    assert_eq!(answers.iter().map(|answer| answer.name.as_str()).collect::<Vec<_>>(), ["a"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_who_wishes_to_leave_may_go_if_no_job_needs_it() {
    let stage = Stage::up(CALM).await;
    let mut a = stage.worker("a").await;
    a.say(FromWorker::Leaving);
    a.until("leave", |message| (message == ToWorker::Shutdown).then_some(())).await;
    assert_eq!(stage.nodes().await[0].state, NodeState::Draining);

    let mut b = stage.worker("b").await;
    stage.ask(|reply| CoordinatorMsg::Node(NodeOrder::Drain("b".to_owned(), reply))).await.expect("there");
    b.until("leave", |message| (message == ToWorker::Shutdown).then_some(())).await;
    let drain = |reply| CoordinatorMsg::Node(NodeOrder::Drain("nobody".to_owned(), reply));
    assert!(matches!(stage.ask(drain).await, Err(RequestError::NoNode(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_heartbeat_is_answered_and_counted() {
    let stage = Stage::up(CALM).await;
    let mut a = stage.worker("a").await;
    a.drain().await;
    assert_eq!(stage.nodes().await[0].used_bytes, 7);
    stage.ask(CoordinatorMsg::Shutdown).await.expect("stops");
    a.until("the end", |message| (message == ToWorker::Shutdown).then_some(())).await;
}
