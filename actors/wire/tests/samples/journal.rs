//! Entries of the coordinator's journal.

use shoal_exact::Arithmetic;
use shoal_plan::engine::{Happening, LossCause, Order, Record, State};
use shoal_plan::ids::{JobId, NodeId, PieceId};
use shoal_plan::protocol::PersistMode;
use shoal_wire::journal::{Counter, Entry, Line};

use super::parts::*;
use super::{Sample, named, variants, wrapped};

/// Every entry of the journal.
pub(crate) fn journal() -> Vec<Sample<Entry>> {
    let line = |record| Entry::Line { job: JobId(1), number: 12, line: Line { at_ms: 1_700_000_000_123, record } };
    let (all, name) = variants!(Entry: Counter = "counter", Node = "node", Job = "job", Line = "line",
        Gone = "gone", Facts = "facts", Turn = "turn");
    let samples = vec![
        Entry::Counter { counter: Counter::Incarnation, value: 3 },
        Entry::Counter { counter: Counter::Jobs, value: 130 },
        Entry::Node { id: NodeId(300), name: "node-1".to_owned(), address: ([10, 0, 0, 2], 4701).into() },
        Entry::Job { id: JobId(1), spec: job().spec.clone() },
        line(Record::State(State::Queued)),
        Entry::Gone { id: NodeId(300), name: "node-1".to_owned() },
        Entry::Facts { job: JobId(1), data: job().data, weights: job().weights.clone() },
        Entry::Turn { number: 2, job: JobId(1) },
    ];
    let mut samples = named("", all, name, samples);
    samples.retain(|sample| !matches!(sample.message, Entry::Line { .. }));
    samples.extend(wrapped(records(), line));
    samples
}

fn records() -> Vec<Sample<Record>> {
    let (all, name) = variants!(Record: Fenced = "fenced", Planned = "planned", Restored = "restored",
        Committed = "committed", Evaluated = "evaluated", RolledBack = "rolled_back", Ordered = "ordered",
        State = "state", Happened = "happened");
    let mut samples = vec![
        Record::Fenced { generation: generation(), members: vec![NodeId(1), NodeId(300)] },
        Record::Planned { generation: generation(), plan: plan(), unfilled: vec![(PieceId(7), NodeId(5))] },
        Record::Restored { generation: generation(), piece: PieceId(7), node: NodeId(5) },
        Record::Committed(entry(apply())),
        Record::Evaluated { step: 50, loss: loss() },
        Record::RolledBack { from: 70_001, to: 0 },
        Record::Ordered(Order::Resume),
        Record::State(State::Queued),
        Record::Happened(Happening::Submitted),
    ];
    samples.retain(|record| !matches!(record, Record::Ordered(_) | Record::State(_) | Record::Happened(_)));
    samples.extend(orders().into_iter().map(|sample| Record::Ordered(sample.message)));
    samples.extend(states().into_iter().map(|sample| Record::State(sample.message)));
    samples.extend(happenings().into_iter().map(|sample| Record::Happened(sample.message)));
    named("line/", all, name, samples)
}

fn orders() -> Vec<Sample<Order>> {
    let (all, name) = variants!(Order: Pause = "pause", Resume = "resume", Cancel = "cancel", Persist = "persist");
    let samples = vec![
        Order::Pause { at: Some(100) },
        Order::Resume,
        Order::Cancel,
        Order::Persist { at: None, mode: PersistMode::Write },
    ];
    named("", all, name, samples)
}

fn states() -> Vec<Sample<State>> {
    let (all, name) = variants!(State: Queued = "queued", Planning = "planning", Training = "training",
        Recovering = "recovering", Paused = "paused", Parked = "parked", Done = "done", Failed = "failed",
        Cancelled = "cancelled");
    let samples = vec![
        State::Queued,
        State::Planning,
        State::Training,
        State::Recovering,
        State::Paused { step: 100 },
        State::Parked,
        State::Done,
        State::Failed { reason: "why".to_owned() },
        State::Cancelled,
    ];
    named("", all, name, samples)
}

fn happenings() -> Vec<Sample<Happening>> {
    let reason = || "why".to_owned();
    let node = NodeId(5);
    let (all, name) = variants!(Happening: Submitted = "submitted", NodeJoined = "node_joined", NodeLost = "node_lost",
        Decided = "decided", Resolved = "resolved", Started = "started", RedundancyFull = "redundancy_full",
        StepsLost = "steps_lost", Evaluated = "evaluated", Persisted = "persisted", StageFailed = "stage_failed", Warning = "warning",
        Ordered = "ordered", Ended = "ended", StepSkipped = "step_skipped", Stalled = "stalled",
        NodeLeftOut = "node_left_out");
    let samples = vec![
        Happening::Submitted,
        Happening::NodeJoined { node },
        Happening::NodeLost { node, cause: LossCause::Died },
        Happening::NodeLost { node, cause: LossCause::Silent },
        Happening::NodeLost { node, cause: LossCause::NotReturned },
        Happening::NodeLost { node, cause: LossCause::Evicted },
        Happening::NodeLost { node, cause: LossCause::Left },
        Happening::NodeLost { node, cause: LossCause::Stalled },
        Happening::NodeLost { node, cause: LossCause::Mute },
        Happening::Decided { reason: reason() },
        Happening::Resolved { step: 7, committed: true, reason: reason() },
        Happening::Started { step: 7, plan: "pipeline 2 x data 2".to_owned() },
        Happening::RedundancyFull,
        Happening::StepsLost { from: 9, to: 0, reason: reason() },
        Happening::Evaluated { step: 50 },
        Happening::Persisted { step: 100, digest: digest(7), written: true },
        Happening::StageFailed { node, cause: reason() },
        Happening::Warning { reason: reason() },
        Happening::Ordered { order: "pause".to_owned() },
        Happening::Ended { reason: reason() },
        Happening::StepSkipped { step: 7, node: Some(node), reason: reason() },
        Happening::Stalled { what: reason(), waited: 30_000 },
        Happening::NodeLeftOut {
            node,
            class: "portable".to_owned(),
            arithmetic: Arithmetic::Plain,
            wanted: Arithmetic::Fused,
        },
    ];
    named("", all, name, samples)
}
