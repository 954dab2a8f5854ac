use shoal_plan::ids::NodeId;

use super::*;

const GRACE: Duration = Duration::from_secs(4);

fn worker(number: u64) -> PeerId {
    PeerId::Worker(NodeId(number))
}

fn entry(by: Dialler, since: Instant) -> Entry<&'static str> {
    Entry { link: Arc::new("link"), by, since, told: watch::channel(false).1 }
}

fn dial<L>(table: &mut Table<L>, peer: PeerId) -> u64 {
    match table.begin(peer) {
        Begin::Dial(token, _) => token,
        other => panic!("expected to dial, found {other:?}"),
    }
}

/// TT-2 (crossing dials): both ends dial at once; every order of the four arrivals ends with the lower peer's connection at both.
#[test]
fn crossing_dials_leave_one_connection() {
    let now = Instant::now();
    for higher_first in [true, false] {
        let (mut low, mut high) = (Table::default(), Table::default());
        let (low_token, high_token) = (dial(&mut low, worker(2)), dial(&mut high, worker(1)));
        let refuse = |low: &mut Table<_>| {
            let arrival = low.arrived(worker(2), Some(worker(1)), &entry(Dialler::There, now), GRACE);
            assert!(matches!(arrival, Arrival::Crossing));
        };
        if higher_first {
            refuse(&mut low);
        }
        let arrival = high.arrived(worker(1), Some(worker(2)), &entry(Dialler::There, now), GRACE);
        assert!(matches!(arrival, Arrival::Installed(_)));
        assert!(low.dialled(worker(2), low_token, entry(Dialler::Here, now)).is_some());
        if !higher_first {
            refuse(&mut low);
        }
        assert!(high.dialled(worker(1), high_token, entry(Dialler::Here, now)).is_none(), "the lower one's stays");
        assert_eq!((low.peers(), high.peers()), (vec![worker(2)], vec![worker(1)]));
    }
}

/// TT-1 (one connection a peer).
#[test]
fn a_newer_connection_waits_until_the_end_of_the_older_is_told() {
    let now = Instant::now();
    let mut table = Table::default();
    let peer = worker(1);
    let old = entry(Dialler::There, now);
    assert!(matches!(table.arrived(peer, Some(worker(2)), &old, GRACE), Arrival::Installed(_)));
    let new = entry(Dialler::There, now);
    let Arrival::After(Some(link), _) = table.arrived(peer, Some(worker(2)), &new, GRACE) else {
        panic!("the old link is replaced only after its end");
    };
    assert!(Arc::ptr_eq(&link, &old.link));
    let token = table.ending(peer, &old.link).expect("it stood for its peer");
    assert!(matches!(table.arrived(peer, Some(worker(2)), &new, GRACE), Arrival::After(None, _)));
    assert!(matches!(table.begin(peer), Begin::After(_)), "a dead link is no connection");
    table.told(peer, token);
    assert!(matches!(table.arrived(peer, Some(worker(2)), &new, GRACE), Arrival::Installed(_)));
    assert!(table.ending(peer, &old.link).is_none());
    assert!(table.link(peer).is_some(), "an old link's end does not touch the new one");
}

#[test]
fn a_long_standing_connection_gives_way_to_a_dial_from_the_other_end() {
    let now = Instant::now();
    let mut table = Table::default();
    let token = dial(&mut table, worker(2));
    assert!(table.dialled(worker(2), token, entry(Dialler::Here, now)).is_some());
    let late = entry(Dialler::There, now + GRACE);
    assert!(matches!(table.arrived(worker(2), Some(worker(1)), &late, GRACE), Arrival::After(Some(_), _)));
}

#[test]
fn a_broken_link_is_restored_or_given_up_once() {
    let now = Instant::now();
    let mut table = Table::default();
    let peer = worker(1);
    let first = entry(Dialler::There, now);
    assert!(matches!(table.arrived(peer, None, &first, GRACE), Arrival::Installed(_)));
    let token = table.ending(peer, &first.link).expect("it stood for its peer");
    let (token, by, _) = table.reopened(peer, token).expect("nothing came between");
    assert_eq!(by, Dialler::There);
    assert!(table.link(peer).is_none() && table.ending(peer, &first.link).is_none());
    assert!(table.given_up(peer, token, ConnectError::ShutDown));
    assert!(!table.given_up(peer, token, ConnectError::ShutDown));
    assert!(matches!(table.arrived(peer, None, &first, GRACE), Arrival::After(None, _)), "its end is not told yet");
    table.told(peer, token);
    assert!(matches!(table.begin(peer), Begin::Dial(..)));
}

#[test]
fn those_who_wait_for_a_dial_get_its_outcome() {
    let mut table: Table<&str> = Table::default();
    let token = dial(&mut table, worker(1));
    let Begin::Wait(outcome) = table.begin(worker(1)) else { panic!("a second connect waits for the first") };
    table.failed(worker(1), token, ConnectError::ShutDown);
    assert_eq!(*outcome.borrow(), Some(Err(ConnectError::ShutDown)));
    table.close();
    assert!(matches!(table.begin(worker(1)), Begin::Closed));
}
