use shoal_exact::Arithmetic;

use super::*;

fn introduction(name: &str) -> Introduction {
    Introduction {
        node: None,
        name: name.to_owned(),
        address: ([127, 0, 0, 1], 4000).into(),
        pid: 77,
        budget_bytes: 1 << 30,
        threads: 1,
        class: "portable".to_owned(),
        arithmetic: Arithmetic::Fused,
        written: Vec::new(),
    }
}

const A: NodeId = NodeId(1);
const B: NodeId = NodeId(2);

fn two() -> Members {
    let mut members = Members::new(Patience::default(), BTreeSet::new());
    assert_eq!(members.arrive(Millis(0), A, introduction("a")), Arrival::Joined);
    assert_eq!(members.arrive(Millis(0), B, introduction("b")), Arrival::Joined);
    members
}

fn states(members: &Members, now: u64) -> Vec<NodeState> {
    members.infos(Millis(now)).into_iter().map(|info| info.state).collect()
}

#[test]
fn late_is_suspect_then_overdue() {
    let mut members = two();
    members.heartbeat(Millis(900), A, 5);
    assert_eq!(states(&members, 1_000), [NodeState::Ready, NodeState::Suspect]);
    assert_eq!(members.overdue(Millis(4_999), 0), []);
    assert_eq!(members.overdue(Millis(5_000), 0), [B]);
    assert!(members.lose(Millis(0), B));
    assert!(!members.lose(Millis(0), B), "known");
    assert_eq!(states(&members, 5_000), [NodeState::Suspect, NodeState::Gone]);
    assert_eq!(members.overdue(Millis(5_899), 0), []);
    assert_eq!(members.overdue(Millis(5_900), 0), [A]);
}

/// MB-2: a watcher that was held up for six seconds learns nothing from six seconds of silence.
#[test]
fn own_lateness_extends_every_deadline() {
    let mut members = two();
    assert_eq!(members.overdue(Millis(6_100), 6_000), []);
    assert_eq!(members.overdue(Millis(10_999), 0), []);
    assert_eq!(members.overdue(Millis(11_000), 0), [A, B]);
}

#[test]
fn a_broken_link_is_suspect_until_it_is_back_or_overdue() {
    let mut members = two();
    members.part(Millis(100), A);
    assert_eq!(states(&members, 100), [NodeState::Suspect, NodeState::Ready]);
    assert_eq!(members.linked(), [B]);
    assert_eq!(members.offers().len(), 2, "a broken link is not a death");
    assert_eq!(members.arrive(Millis(200), A, introduction("a")), Arrival::Returned);
    assert_eq!(states(&members, 200), [NodeState::Ready, NodeState::Ready]);
    members.part(Millis(300), A);
    members.heartbeat(Millis(5_200), B, 0);
    assert_eq!(members.overdue(Millis(5_300), 0), [A]);
}

/// MB-1: what is gone does not come back under its id, whatever else arrives of it.
#[test]
fn gone_is_gone() {
    let mut members = two();
    members.lose(Millis(0), A);
    members.part(Millis(1), A);
    members.heartbeat(Millis(1), A, 9);
    assert!(!members.may_return(A) && members.may_return(B) && members.may_return(NodeId(9)));
    assert_eq!(states(&members, 1), [NodeState::Gone, NodeState::Ready]);
    assert_eq!(members.find("a"), None);
    assert_eq!(members.peers().len(), 1);
}

#[test]
fn a_restarted_process_takes_its_name_over() {
    let mut members = two();
    members.lose(Millis(0), A);
    members.arrive(Millis(10), NodeId(3), introduction("a"));
    assert_eq!(states(&members, 10), [NodeState::Ready, NodeState::Ready]);
    assert_eq!((members.find("a"), members.find("n3"), members.find("n1")), (Some(NodeId(3)), Some(NodeId(3)), None));
}

#[test]
fn one_who_wishes_to_leave_is_offered_no_more_and_said_to_have_left() {
    let mut members = two();
    assert_eq!(members.farewell(A), LossCause::Died);
    assert!(members.leave(A));
    assert!(!members.leave(A), "known");
    assert_eq!(states(&members, 0), [NodeState::Draining, NodeState::Ready]);
    assert_eq!(members.offers().iter().map(|(node, _)| *node).collect::<Vec<_>>(), [B]);
    assert_eq!(members.farewell(A), LossCause::Left);
}

#[test]
fn names_are_listed_by_number_and_the_gone_only_for_a_while() {
    let mut members = Members::new(Patience::default(), BTreeSet::new());
    for (id, name) in [(1, "w10"), (2, "w2"), (3, "big"), (4, "w1")] {
        members.arrive(Millis(0), NodeId(id), introduction(name));
    }
    let listed = |members: &Members, now| {
        members.infos(Millis(now)).into_iter().map(|info| format!("{} {}", info.node, info.id)).collect::<Vec<_>>()
    };
    assert_eq!(listed(&members, 0), ["big n3", "w1 n4", "w2 n2", "w10 n1"]);
    members.lose(Millis(1_000), NodeId(2));
    assert_eq!(listed(&members, GONE_SHOWN_MS + 999).len(), 4);
    assert_eq!(listed(&members, GONE_SHOWN_MS + 1_000), ["big n3", "w1 n4", "w10 n1"]);
    assert!(!members.may_return(NodeId(2)), "it is not forgotten");
}
