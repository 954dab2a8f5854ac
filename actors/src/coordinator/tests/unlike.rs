//! Workers whose processors give other bits.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_of_another_arithmetic_is_left_out_and_everyone_can_see_why() {
    let stage = Stage::up(CALM).await;
    let (mut a, mut b) = (stage.worker("a").await, stage.plain_worker("b").await);
    let dir = tempfile::tempdir().expect("temporary directory");
    let small = Box::new(spec(dir.path(), ""));
    let job = stage.ask(|reply| CoordinatorMsg::Submit(small, Repeat::Join, reply)).await.expect("accepted").job();
    assert_eq!(status(&stage, job).await.arithmetic, None, "nothing is planned yet");
    for fake in [&mut a, &mut b] {
        let generation = fake
            .until("a fence", |message| match holder(message) {
                Some((_, ToNode::Fence { generation, .. })) => Some(generation),
                _ => None,
            })
            .await;
        let seen = Generation::default();
        let inventory =
            Inventory { generation, seen, adopted: seen, holdings: Vec::new(), entries: Vec::new(), in_hand: None };
        fake.say(FromWorker::Holder { job, message: FromNode::Inventory(inventory) });
    }
    let deployed = |message| match holder(message) {
        Some((_, ToNode::Deploy(deploy))) => Some(deploy),
        _ => None,
    };
    let deploy = a.until("a deployment", deployed).await;
    assert_eq!(deploy.plan.nodes().into_iter().collect::<Vec<_>>(), [a.node]);
    b.until("its release", |message| match holder(message) {
        Some((_, ToNode::Release { .. })) => Some(()),
        _ => None,
    })
    .await;

    assert_eq!(status(&stage, job).await.arithmetic.as_deref(), Some("fused"));
    // One that comes later is told the same.
    let c = stage.plain_worker("c").await;
    let shown: Vec<_> = stage.nodes().await.into_iter().map(|info| (info.node, info.left_out)).collect();
    let reason = format!("left out of {job}: its products are plain (portable), those of the job fused");
    let left_out = Some(reason);
    assert_eq!(shown, [("a".into(), None), ("b".into(), left_out.clone()), ("c".into(), left_out)]);
    let events = stage.ask(|reply| CoordinatorMsg::Read(Read::Events(job, 0, reply))).await.expect("there");
    let events: Vec<_> = events.into_iter().filter(|event| event.kind == "node_left_out").collect();
    assert_eq!(events.iter().map(|event| event.node.as_deref()).collect::<Vec<_>>(), [Some("b"), Some("c")]);
    assert!(events[0].reason.starts_with("b is left out: its products are plain (portable)"), "{}", events[0].reason);
    // What lets the job go on is one of its own arithmetic, and no order.
    let again = Box::new(spec(dir.path(), ""));
    stage.ask(|reply| CoordinatorMsg::Submit(again, Repeat::Again, reply)).await.expect("accepted");
    drop(a);
    stage.until("it is parked", async || status(&stage, job).await.state == JobState::Parked).await;
    let parked = async || status(&stage, job).await.reason.unwrap_or_default();
    stage.until("the other to wait", async || parked().await.contains("j2 waits behind it: ")).await;
    let reason = parked().await;
    assert!(reason.contains("start a worker of class avx2, avx512 or neon"), "{reason}");
    assert!(reason.contains("behind it: it goes on when a worker whose arithmetic is fused joins, "), "{reason}");
    // They may leave whenever they like: nothing waits for them.
    for mut fake in [b, c] {
        fake.say(FromWorker::Leaving);
        fake.until("leave to end", |message| (message == ToWorker::Shutdown).then_some(())).await;
    }
}
