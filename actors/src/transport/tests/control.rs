use shoal_wire::data::TrafficKind;
use shoal_wire::frame;

use super::*;

#[tokio::test]
async fn messages_arrive_in_order_both_ways() {
    let (mut a, mut b) = pair().await;
    for number in 0..500 {
        a.endpoint.send(worker(2), &heartbeat(number)).expect("room in the queue");
        b.endpoint.send(worker(1), &heartbeat(1000 + number)).expect("room in the queue");
    }
    for number in 0..500 {
        assert_eq!(b.heard().await, number);
        assert_eq!(a.heard().await, 1000 + number);
    }
}

#[tokio::test]
async fn control_is_counted_to_the_byte() {
    let (a, mut b) = pair().await;
    let mut bytes = 0;
    for number in [1, 1 << 20, 1 << 40] {
        let message = heartbeat(number);
        let frame = frame::encode(wire::VERSION, frame::MAX_CONTROL_BYTES, &message).expect("a frame");
        bytes += (frame.len() - frame::OVERHEAD_BYTES) as u64;
        a.endpoint.send(worker(2), &message).expect("room in the queue");
        b.heard().await;
    }
    let line = |end: &End| {
        let lines = end.endpoint.traffic();
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].purpose, TrafficKind::Control.word());
        lines[0].clone()
    };
    let framing = 3 * frame::OVERHEAD_BYTES as u64;
    assert_eq!((line(&a).bytes_sent, line(&a).messages_sent, line(&a).framing_sent), (bytes, 3, framing));
    assert_eq!((line(&b).bytes_received, line(&b).messages_received, line(&b).framing_received), (bytes, 3, framing));
    assert_eq!((line(&a).bytes_received, line(&b).bytes_sent), (0, 0));
}

/// The receiver does not read; the queue fills, and `send` says so instead of waiting. As a message is lost, the link
/// breaks at both ends, nothing follows the lost one, and the link comes back.
#[tokio::test]
async fn a_full_queue_is_an_error_at_once_and_breaks_the_link() {
    let ca = ClusterCa::generate().expect("a cluster");
    let mut a = End::with(&ca, 1, Arc::new(NoBulk), |config| config.limits.control_queue = 8);
    let mut b = End::with(&ca, 2, Arc::new(NoBulk), |config| config.limits.inbound_queue = 1);
    join(&mut a, &mut b).await;
    let large = Control::ToWorker(Box::new(wire::ToWorker::Peers(
        (0..5_000).map(|n| wire::Peer { node: NodeId(n << 40), name: String::new(), address: a.address() }).collect(),
    )));
    let mut taken = 0;
    let error = loop {
        match a.endpoint.send(worker(2), &large) {
            Ok(()) => taken += 1,
            Err(error) => break error,
        }
        assert!(taken < 10_000, "nothing bounds the queue");
    };
    assert_eq!(error, SendError::QueueFull { peer: worker(2), messages: 8 });
    assert_eq!(a.endpoint.send(worker(2), &heartbeat(1)), Err(SendError::NotConnected(worker(2))));
    assert_eq!(a.down().await, DownCause::LinkReset);
    let mut heard = 0;
    loop {
        match b.next().await {
            Inbound::Control { message: Control::ToWorker(_), .. } => heard += 1,
            Inbound::PeerDown { cause: DownCause::LinkReset, .. } => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(heard <= taken, "{heard} of {taken}");
    assert_eq!((b.up().await, a.up().await), (worker(1), worker(2)));
    a.endpoint.send(worker(2), &heartbeat(2)).expect("room in the queue");
    assert_eq!(b.heard().await, 2);
}

#[tokio::test]
async fn nobody_connected_is_an_error() {
    let ca = ClusterCa::generate().expect("a cluster");
    let a = End::new(&ca, 1);
    assert_eq!(a.endpoint.send(worker(2), &heartbeat(1)), Err(SendError::NotConnected(worker(2))));
}

/// A goodbye arrives after everything that was sent before it.
#[tokio::test]
async fn a_goodbye_is_the_last_thing_heard() {
    let (mut a, mut b) = pair().await;
    for number in 0..100 {
        a.endpoint.send(worker(2), &heartbeat(number)).expect("room in the queue");
    }
    a.endpoint.disconnect(worker(2), "left on request");
    for number in 0..100 {
        assert_eq!(b.heard().await, number);
    }
    assert_eq!(b.down().await, DownCause::Closed("left on request".to_owned()));
    assert_eq!(a.endpoint.send(worker(2), &heartbeat(1)), Err(SendError::NotConnected(worker(2))));
    join(&mut a, &mut b).await;
}

#[tokio::test]
async fn shutdown_says_goodbye_to_all() {
    let ca = ClusterCa::generate().expect("a cluster");
    let (mut a, mut b, mut c) = (End::new(&ca, 1), End::new(&ca, 2), End::new(&ca, 3));
    join(&mut a, &mut b).await;
    join(&mut c, &mut a).await;
    assert_eq!(a.endpoint.peers(), [worker(2), worker(3)]);
    a.endpoint.shutdown("stopping").await;
    assert_eq!(b.down().await, DownCause::Closed("stopping".to_owned()));
    assert_eq!(c.down().await, DownCause::Closed("stopping".to_owned()));
    assert_eq!(a.connect(&b).await, Err(ConnectError::ShutDown));
}

#[tokio::test]
async fn dropping_the_last_handle_closes() {
    let (a, mut b) = pair().await;
    drop(a);
    assert!(matches!(b.down().await, DownCause::Closed(_)));
}
