//! Messages of a control stream.

use shoal_exact::Arithmetic;
use shoal_plan::digest::PieceLeaves;
use shoal_plan::ids::{BlockId, JobId, NodeId, PieceId, Replica, Seat, StageIndex};
use shoal_plan::ledger::Update;
use shoal_plan::protocol::{
    Deploy, Fetch, FromNode, Holding, InHand, Inventory, Next, Norm, PersistMode, Prepared, Resolution, ToNode, Trouble,
};
use shoal_plan::space::Kind;
use shoal_wire::api::{ArenaLine, CallLine, DeviceReport, NodeReport, TrafficLine};
use shoal_wire::control::{
    Answer, Chaos, Control, FromWorker, Hello, Introduction, Peer, Question, ToPeer, ToWorker, VERSION, Who,
    WrittenPiece,
};

use super::parts::*;
use super::{Sample, named, variants, wrapped};

/// Every message of a control stream.
pub(crate) fn control() -> Vec<Sample<Control>> {
    let (all, name) = variants!(Control: Hello = "hello", ToWorker = "to_worker", FromWorker = "from_worker",
        ToPeer = "to_peer", Goodbye = "goodbye");
    let mut samples = wrapped(who(), |who| Control::Hello(Hello { protocol: VERSION, who }));
    samples.extend(wrapped(to_worker(), |message| Control::ToWorker(Box::new(message))));
    samples.extend(wrapped(from_worker(), Control::FromWorker));
    samples.extend(wrapped(to_peer(), Control::ToPeer));
    samples.push(Sample { name: "goodbye".to_owned(), message: Control::Goodbye("left on request".to_owned()) });
    for variant in all {
        assert!(samples.iter().any(|sample| name(&sample.message) == *variant), "no sample of {variant}");
    }
    samples
}

fn who() -> Vec<Sample<Who>> {
    let introduction = |node| Introduction {
        node,
        name: "node-1".to_owned(),
        address: address(),
        pid: 4242,
        budget_bytes: 2 << 30,
        threads: 1,
        class: "avx512".to_owned(),
        arithmetic: Arithmetic::Fused,
        written: vec![JobId(1), JobId(130)],
    };
    let (all, name) = variants!(Who: Coordinator = "coordinator", Worker = "worker", Peer = "peer");
    let samples = vec![
        Who::Coordinator { incarnation: 3 },
        Who::Worker(introduction(None)),
        Who::Worker(introduction(Some(NodeId(300)))),
        Who::Peer(NodeId(7)),
    ];
    named("hello/", all, name, samples)
}

fn to_worker() -> Vec<Sample<ToWorker>> {
    let (all, name) = variants!(ToWorker: Welcome = "welcome", Peers = "peers", Job = "job", Holder = "holder",
        Ask = "ask", Chaos = "chaos", Shutdown = "shutdown", HeartbeatAck = "heartbeat_ack");
    let holder = to_node();
    let first = |samples: &[Sample<ToNode>]| samples[0].message.clone();
    let samples = vec![
        ToWorker::Welcome { node: NodeId(300) },
        ToWorker::Peers(vec![Peer { node: NodeId(2), name: "node-2".to_owned(), address: address() }]),
        ToWorker::Job { id: JobId(1), job: job() },
        ToWorker::Holder { job: JobId(1), message: first(&holder) },
        ToWorker::Ask { request: 5, question: Question::Report { job: JobId(1) } },
        ToWorker::Chaos(Chaos::PanicStage { job: JobId(1) }),
        ToWorker::Chaos(Chaos::HangStage { job: JobId(1) }),
        ToWorker::Chaos(Chaos::PoisonStage { job: JobId(1) }),
        ToWorker::Shutdown,
        ToWorker::HeartbeatAck { number: 77 },
    ];
    let mut samples = named("to_worker/", all, name, samples);
    samples.retain(|sample| !matches!(sample.message, ToWorker::Holder { .. } | ToWorker::Ask { .. }));
    samples.extend(wrapped(holder, |message| ToWorker::Holder { job: JobId(1), message }));
    samples.extend(wrapped(question(), |question| ToWorker::Ask { request: 5, question }));
    samples
}

fn question() -> Vec<Sample<Question>> {
    let (all, name) = variants!(Question: Report = "report", Manifest = "manifest", Written = "written");
    let samples = vec![
        Question::Report { job: JobId(1) },
        Question::Manifest { job: JobId(1) },
        Question::Written { job: JobId(1), step: 200, block: BlockId(3), kind: Kind::Moment2, interval: interval() },
    ];
    named("to_worker/ask/", all, name, samples)
}

fn to_node() -> Vec<Sample<ToNode>> {
    let deploy = |resolve| {
        ToNode::Deploy(Box::new(Deploy {
            generation: generation(),
            resolve,
            attempt: generation(),
            version: version(),
            plan: plan(),
            fetches: vec![Fetch { to: NodeId(5), from: NodeId(2), block: BlockId(1), interval: interval() }],
            unfilled: vec![(PieceId(7), NodeId(5))],
        }))
    };
    let commit = |update, next, persist| ToNode::Commit {
        generation: generation(),
        entry: entry(update),
        next,
        fills: fills(),
        persist,
        flushed: 69_998,
    };
    let (all, name) = variants!(ToNode: Fence = "fence", Deploy = "deploy", Start = "start", Commit = "commit",
        Release = "release");
    let samples = vec![
        ToNode::Fence { generation: generation(), members: vec![NodeId(1), NodeId(300)], flushed: 69_998 },
        deploy(Resolution::Initialise),
        deploy(Resolution::Commit(entry(apply()))),
        deploy(Resolution::Abort),
        ToNode::Start {
            generation: generation(),
            version: version(),
            loss_scale: loss_scale(),
            next: Next::EvaluateThenTrain,
            fills: fills(),
            persist: persist(PersistMode::Hash),
        },
        commit(apply(), Next::Train, None),
        commit(Update::Skip, Next::Hold, persist(PersistMode::Write)),
        commit(apply(), Next::Evaluate, None),
        ToNode::Release { generation: generation() },
    ];
    named("to_worker/holder/", all, name, samples)
}

fn from_worker() -> Vec<Sample<FromWorker>> {
    let (all, name) = variants!(FromWorker: Holder = "holder", Answer = "answer", Heartbeat = "heartbeat",
        Leaving = "leaving");
    let ready = FromNode::Ready { generation: generation() };
    let samples = vec![
        FromWorker::Holder { job: JobId(1), message: ready },
        FromWorker::Answer { request: 5, answer: Answer::Refused("no such job".to_owned()) },
        FromWorker::Heartbeat { number: 77, used_bytes: 123_456_789 },
        FromWorker::Leaving,
    ];
    let mut samples = named("from_worker/", all, name, samples);
    samples.retain(|sample| !matches!(sample.message, FromWorker::Holder { .. } | FromWorker::Answer { .. }));
    samples.extend(wrapped(from_node(), |message| FromWorker::Holder { job: JobId(1), message }));
    samples.extend(wrapped(answer(), |answer| FromWorker::Answer { request: 5, answer }));
    samples
}

fn answer() -> Vec<Sample<Answer>> {
    let report = NodeReport {
        node: "n3".to_owned(),
        devices: vec![DeviceReport {
            device: "cpu".to_owned(),
            parameters: 100,
            owned: 50,
            shadowed: 50,
            arenas: vec![ArenaLine {
                tier: "device".to_owned(),
                tag: "weights".to_owned(),
                live_bytes: 1,
                high_water_bytes: 2,
            }],
            calls: vec![CallLine { block: 1, forward: 2, backward: 3 }],
            busy_seconds: 1.5,
        }],
        traffic: vec![TrafficLine {
            peer: "coordinator".to_owned(),
            purpose: "control".to_owned(),
            bytes_sent: 1,
            messages_sent: 2,
            bytes_received: 3,
            messages_received: 4,
            framing_sent: 5,
            framing_received: 6,
        }],
        decisions: 7,
        decision_seconds: 0.5,
    };
    let piece = WrittenPiece {
        version: version(),
        block: BlockId(3),
        kind: Kind::Weight,
        interval: interval(),
        leaves: vec![digest(4), digest(5)],
    };
    let (all, name) = variants!(Answer: Report = "report", Manifest = "manifest", Written = "written",
        Refused = "refused");
    let samples = vec![
        Answer::Report(Box::new(report)),
        Answer::Manifest(vec![piece]),
        Answer::Written(vec![0, 0, 128, 63]),
        Answer::Refused("no such job".to_owned()),
    ];
    named("from_worker/answer/", all, name, samples)
}

fn from_node() -> Vec<Sample<FromNode>> {
    let holding =
        |prepared, loss| Holding { block: BlockId(1), interval: interval(), version: version(), prepared, loss };
    let (all, name) = variants!(FromNode: Inventory = "inventory", Ready = "ready", Prepared = "prepared",
        Filled = "filled", Evaluated = "evaluated", Persisted = "persisted", Trouble = "trouble");
    let samples = vec![
        FromNode::Inventory(Inventory {
            generation: generation(),
            seen: generation(),
            adopted: generation(),
            holdings: vec![holding(Some(Norm::Finite(sum(0.375))), Some(loss())), holding(None, None)],
            entries: vec![entry(apply()), entry(Update::Skip)],
            in_hand: Some(InHand { what: "store".to_owned(), millis: 300 }),
        }),
        FromNode::Ready { generation: generation() },
        FromNode::Prepared(Prepared {
            generation: generation(),
            step: 70_001,
            pieces: vec![(PieceId(7), Norm::Finite(sum(0.375))), (PieceId(8), Norm::NotFinite)],
            loss: Some(loss()),
        }),
        FromNode::Filled { generation: generation(), piece: PieceId(7), version: version() },
        FromNode::Evaluated { generation: generation(), step: 70_001, replica: Replica(1), loss: loss() },
        FromNode::Persisted {
            generation: generation(),
            request: 9,
            version: version(),
            leaves: vec![PieceLeaves {
                block: BlockId(1),
                interval: interval(),
                kind: Kind::Moment1,
                leaves: vec![digest(6)],
            }],
        },
        FromNode::Trouble { generation: generation(), trouble: Trouble::Disk { cause: String::new() } },
    ];
    let mut samples = named("from_worker/holder/", all, name, samples);
    samples.retain(|sample| !matches!(sample.message, FromNode::Trouble { .. }));
    samples.extend(wrapped(trouble(), |trouble| FromNode::Trouble { generation: generation(), trouble }));
    samples
}

fn trouble() -> Vec<Sample<Trouble>> {
    let cause = || "what was found".to_owned();
    let (all, name) = variants!(Trouble: StageFailed = "stage_failed", HoldingLost = "holding_lost",
        PeerUnreachable = "peer_unreachable", OverBudget = "over_budget", Data = "data", Disk = "disk");
    let samples = vec![
        Trouble::StageFailed { seat: Seat { stage: StageIndex(1), replica: Replica(2) }, cause: cause() },
        Trouble::HoldingLost { cause: cause() },
        Trouble::PeerUnreachable { peer: NodeId(4), cause: cause() },
        Trouble::OverBudget { cause: cause() },
        Trouble::Data { cause: cause() },
        Trouble::Disk { cause: cause() },
    ];
    named("from_worker/holder/trouble/", all, name, samples)
}

fn to_peer() -> Vec<Sample<ToPeer>> {
    let (all, name) = variants!(ToPeer: FetchState = "fetch_state", FetchWeights = "fetch_weights");
    let samples = vec![
        ToPeer::FetchState {
            job: JobId(1),
            generation: generation(),
            version: version(),
            block: BlockId(1),
            interval: interval(),
        },
        ToPeer::FetchWeights {
            job: JobId(1),
            generation: generation(),
            version: version(),
            block: BlockId(1),
            interval: interval(),
        },
    ];
    named("to_peer/", all, name, samples)
}
