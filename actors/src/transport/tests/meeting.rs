use futures_util::FutureExt;

use super::*;

/// Both dial at once, many times over: one connection each time, and both directions of it work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crossing_dials_become_one_connection() {
    let ca = ClusterCa::generate().expect("a cluster");
    let (mut a, mut b) = (End::new(&ca, 1), End::new(&ca, 2));
    for round in 0..20 {
        let (to_b, to_a) = (a.endpoint.clone(), b.endpoint.clone());
        let (at_a, at_b) = (a.address(), b.address());
        let dials =
            async { tokio::join!(to_b.connect(callee(2), at_b, hello(1)), to_a.connect(callee(1), at_a, hello(2))) };
        let (dials, up_a, up_b) = tokio::join!(dials, a.up(), b.up());
        assert_eq!(dials, (Ok(()), Ok(())), "round {round}");
        assert_eq!((up_a, up_b), (worker(2), worker(1)));
        a.endpoint.send(worker(2), &heartbeat(round)).expect("connected");
        b.endpoint.send(worker(1), &heartbeat(round)).expect("connected");
        assert_eq!((a.heard().await, b.heard().await), (round, round));
        a.endpoint.disconnect(worker(2), "next round");
        assert_eq!(b.down().await, DownCause::Closed("next round".to_owned()));
    }
}

#[tokio::test]
async fn a_second_connect_finds_the_first() {
    let (a, b) = pair().await;
    assert_eq!(a.connect(&b).await, Ok(()));
    assert_eq!(b.connect(&a).await, Ok(()));
    assert_eq!(a.endpoint.peers(), [worker(2)]);
}

/// Both of a pair say that their link broke, and that it is there again.
async fn broken_and_back(a: &mut End, b: &mut End, what: &str) {
    let at_a = async { (a.down().await, a.up().await) };
    let at_b = async { (b.down().await, b.up().await) };
    let (at_a, at_b) = tokio::join!(at_a, at_b);
    assert_eq!(at_a, (DownCause::LinkReset, worker(2)), "{what}");
    assert_eq!(at_b, (DownCause::LinkReset, worker(1)), "{what}");
}

/// The connection breaks while both processes live: both say so, the dialler dials again, and it works as before.
#[tokio::test]
async fn a_broken_link_comes_back() {
    let (mut a, mut b) = pair().await;
    for (round, breaker) in [1, 2, 1].into_iter().enumerate() {
        let link = if breaker == 1 { a.link(2) } else { b.link(1) };
        quic::CloseCode::Replaced.close(&link.connection, "a fault");
        drop(link);
        broken_and_back(&mut a, &mut b, &format!("round {round}")).await;
        a.endpoint.send(worker(2), &heartbeat(5)).expect("connected");
        assert_eq!(b.heard().await, 5);
    }
}

/// Only a goodbye counts as leaving: with any other close, and with a stream that makes no sense, a process that lives is
/// still there.
#[tokio::test]
async fn an_end_without_a_goodbye_is_a_broken_link() {
    let (mut a, mut b) = pair().await;
    type Fault = fn(&link::Link);
    let faults: [(&str, Fault); 5] = [
        ("unreadable", |link| quic::CloseCode::Unreadable.close(&link.connection, "a fault")),
        ("refused", |link| quic::CloseCode::Refused.close(&link.connection, "a fault")),
        ("another peer", |link| quic::CloseCode::WrongPeer.close(&link.connection, "a fault")),
        ("a code that nobody knows", |link| link.connection.close(quinn::VarInt::from_u32(99), b"a fault")),
        ("garbage", |link| {
            let garbage = bytes::Bytes::from_static(&[5, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
            link.queue.push(crate::transport::control::Outgoing::Frame(garbage)).expect("room in the queue");
        }),
    ];
    for (fault, make) in faults {
        make(&a.link(2));
        broken_and_back(&mut a, &mut b, fault).await;
        b.endpoint.send(worker(1), &heartbeat(5)).expect("connected");
        assert_eq!(a.heard().await, 5);
    }
}

/// The far end lost its state of the connection (it was told to forget) and dials anew: the old link gives way.
#[tokio::test]
async fn a_newer_dial_of_the_same_peer_replaces_the_link() {
    let (mut a, mut b) = pair().await;
    assert!(a.endpoint.shared().table().drop_peer(worker(2)).is_some());
    let connect = a.connect(&b);
    let (connected, told) = tokio::join!(connect, async { (b.down().await, b.up().await) });
    assert_eq!(connected, Ok(()));
    assert_eq!(told, (DownCause::LinkReset, worker(1)));
    assert_eq!(a.up().await, worker(2));
    a.endpoint.send(worker(2), &heartbeat(3)).expect("connected");
    assert_eq!(b.heard().await, 3);
}

/// Whoever takes another name must not end up with a link that was asked for under the old one.
#[tokio::test]
async fn parting_from_all_workers_gives_up_dials_under_way() {
    let ca = ClusterCa::generate().expect("a cluster");
    let mut a = End::with(&ca, 1, Arc::new(NoBulk), |config| config.timing.connect = 10 * DEADLINE);
    let mut b = End::new(&ca, 2);
    let mute = std::net::TcpListener::bind(loopback()).expect("a free port");
    let address = mute.local_addr().expect("bound");
    let mut dial = Box::pin(a.endpoint.connect(callee(2), address, hello(1)));
    assert!(dial.as_mut().now_or_never().is_none(), "nobody answers there");
    a.endpoint.disconnect_workers("this worker has another name now");
    assert_eq!(timeout(DEADLINE, dial).await, Ok(Err(ConnectError::ShutDown)));
    join(&mut a, &mut b).await;
    a.endpoint.disconnect_workers("and another one");
    assert_eq!(b.down().await, DownCause::Closed("and another one".to_owned()));
}
