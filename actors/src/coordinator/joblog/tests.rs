use shoal_exact::ExactSum;
use shoal_plan::engine::{Happening, LossCause};
use shoal_plan::ids::Digest;
use shoal_plan::ledger::{Corrections, Update, UpdateScalars};
use shoal_plan::protocol::{LossSum, Norm};

use super::*;

fn entry(step: u64, previous: Digest) -> LedgerEntry {
    LedgerEntry {
        step,
        previous,
        samples: Digest::of(&step.to_le_bytes()),
        tokens: 1_000,
        loss: ExactSum::of(2_500.0),
        norm: ExactSum::of(1.0),
        update: Update::Apply(UpdateScalars { scale: 0, learning_rate: 0, corrections: Corrections::None }),
        optimizer_time: step,
        loss_scale: None,
    }
}

fn generation(number: u32) -> Generation {
    Generation { incarnation: 1, number }
}

fn log(records: Vec<Record>) -> JobLog {
    let mut log = JobLog::default();
    for (i, record) in records.into_iter().enumerate() {
        assert_eq!(log.push(&Line { at_ms: 1_000 + 100 * i as u64, record }), i as u64);
    }
    log
}

fn chain(steps: std::ops::RangeInclusive<u64>, mut previous: Digest) -> Vec<LedgerEntry> {
    steps
        .map(|step| {
            let entry = entry(step, previous);
            previous = entry.hash();
            entry
        })
        .collect()
}

#[test]
fn events_are_stamped_with_what_was_true_when_they_happened() {
    let first = entry(1, Digest::default());
    let log = log(vec![
        Record::Happened(Happening::Submitted),
        Record::Fenced { generation: generation(1), members: vec![NodeId(1)] },
        Record::Committed(first),
        Record::Happened(Happening::NodeLost { node: NodeId(2), cause: LossCause::Died }),
        Record::Fenced { generation: generation(2), members: vec![NodeId(1)] },
        Record::Happened(Happening::RedundancyFull),
    ]);
    let events = log.events(0, 100, |node| format!("name of {node}"));
    let seen: Vec<_> = events.iter().map(|e| (e.number, e.kind.as_str(), e.generation.as_str(), e.step)).collect();
    assert_eq!(seen, [(1, "submitted", "0.0", 0), (2, "node_lost", "1.1", 1), (3, "redundancy_full", "1.2", 1)]);
    assert_eq!(events[1].node.as_deref(), Some("name of n2"));
    assert_eq!(events[1].time, "1970-01-01T00:00:01.300Z");
    assert_eq!(log.events(2, 100, |node| node.to_string()), events[2..]);
    assert_eq!(log.events(1, 1, |node| node.to_string())[0].number, 2);
    assert_eq!(log.events(0, 2, |node| node.to_string()).len(), 2);
    assert_eq!(log.events(99, 100, |node| node.to_string()), []);
}

#[test]
fn a_rollback_cuts_the_ledger_and_the_steps_are_committed_anew() {
    let steps = chain(1..=3, Digest::default());
    let mut again = entry(2, steps[0].hash());
    again.tokens = 7;
    let mut records = vec![Record::Fenced { generation: generation(1), members: vec![] }];
    records.extend(steps.iter().cloned().map(Record::Committed));
    records.push(Record::RolledBack { from: 3, to: 1 });
    records.push(Record::Fenced { generation: generation(2), members: vec![] });
    records.push(Record::Committed(again.clone()));
    let log = log(records);
    let lines = log.ledger(0, 10);
    assert_eq!(
        lines.iter().map(|l| (l.entry.step, l.generation.as_str())).collect::<Vec<_>>(),
        [(1, "1.1"), (2, "1.2")]
    );
    assert_eq!((log.version(2), log.version(3)), (Some(again.version()), None));
    assert_eq!(lines[0].hash, steps[0].hash().to_hex());
    assert!((lines[0].mean_loss.expect("it was not skipped") - 2.5).abs() < 1e-12);
    assert_eq!(log.ledger(1, 10).len(), 1);
    assert_eq!(log.ledger(0, 1).len(), 1);
}

#[test]
fn the_rate_counts_only_steps_of_the_newest_generation() {
    assert_eq!(log(vec![]).tokens_per_second(10), None);
    let steps = chain(1..=5, Digest::default());
    let mut records: Vec<_> = steps[..2].iter().cloned().map(Record::Committed).collect();
    records.push(Record::Fenced { generation: generation(2), members: vec![] });
    records.extend(steps[2..].iter().cloned().map(Record::Committed));
    // Lines are 100 ms apart: steps 4 and 5 came 200 ms after step 3.
    let log = log(records);
    assert_eq!(log.tokens_per_second(10), Some(10_000.0));
    assert_eq!(log.tokens_per_second(1), None);
}

#[test]
fn dates() {
    assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
    assert_eq!(rfc3339(951_827_696_789), "2000-02-29T12:34:56.789Z");
}

#[test]
fn a_validation_pass_is_told_with_its_loss() {
    let loss = LossSum { loss: Norm::Finite(ExactSum::of(24.5)), tokens: 8 };
    let log = log(vec![Record::Evaluated { step: 2, loss }, Record::Happened(Happening::Evaluated { step: 2 })]);
    assert_eq!(log.events(0, 9, |node| node.to_string())[0].reason, "validated at step 2: loss 3.0625");
}
