//! The bytes of every message, checked in: a change of one is a change of the protocol.

mod samples;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use samples::Sample;
use serde::Serialize;
use serde::de::DeserializeOwned;
use shoal_plan::engine::Record;
use shoal_plan::ids::{BlockId, Digest, Generation, JobId};
use shoal_plan::ledger::Version;
use shoal_plan::space::Interval;
use shoal_wire::api::JobState;
use shoal_wire::control::{self, Control};
use shoal_wire::data::{self, Header};
use shoal_wire::journal::{Entry, Line};
use shoal_wire::{DecodeError, EncodeError, frame, journal};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes all");
        text
    })
}

/// Compares, or with `SHOAL_BLESS=1` writes, unless bytes changed and the version did not. The version, then one line a
/// message: its name and its frame.
fn golden<T>(file: &str, version: u16, max: usize, samples: &[Sample<T>])
where
    T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let mut text = format!("version {version}\n");
    for sample in samples {
        let bytes = frame::encode(version, max, &sample.message).expect(&sample.name);
        let back: T = frame::decode(version, &bytes[frame::LENGTH_BYTES..]).expect(&sample.name);
        assert_eq!(back, sample.message, "{}", sample.name);
        writeln!(text, "{} {}", sample.name, hex(&bytes)).expect("a string takes all");
    }
    if std::env::var_os("SHOAL_BLESS").is_some() {
        let changed = fs::read_to_string(path(file)).ok().and_then(|kept| changed_alone(&kept, &text));
        assert_eq!(changed, None, "{file}: its bytes changed, raise its VERSION first");
        fs::write(path(file), &text).expect("written");
    }
    let kept = fs::read_to_string(path(file)).expect("run scripts/bless.sh once");
    for (found, want) in text.lines().zip(kept.lines()) {
        assert_eq!(found, want, "the protocol changed: raise its VERSION, then run scripts/bless.sh");
    }
    assert_eq!(text.lines().count(), kept.lines().count(), "messages came or went: run scripts/bless.sh");
}

/// A message that came, went or changed though the version did not.
fn changed_alone(kept: &str, found: &str) -> Option<String> {
    if kept.lines().next() != found.lines().next() {
        return None;
    }
    let lines = |text| str::lines(text).filter_map(|line| line.split_once(' ')).collect::<BTreeMap<_, _>>();
    let (kept, found) = (lines(kept), lines(found));
    let mut names = kept.keys().chain(found.keys());
    names.find(|name| kept.get(*name) != found.get(*name)).map(|name| (*name).to_owned())
}

#[test]
fn bytes_do_not_change_without_their_version() {
    let kept = "version 4\na 01\nb 02\n";
    assert_eq!(changed_alone(kept, "version 4\na 01\nb 03\n"), Some("b".to_owned()));
    assert_eq!(changed_alone(kept, "version 4\na 01\n"), Some("b".to_owned()));
    assert_eq!(changed_alone(kept, "version 4\na 01\nb 02\nc 03\n"), Some("c".to_owned()));
    assert_eq!(changed_alone(kept, "version 4\nb 02\na 01\n"), None);
    assert_eq!(changed_alone(kept, "version 5\na 01\nb 03\n"), None);
}

#[test]
fn control_messages_keep_their_bytes() {
    golden("control.txt", control::VERSION, frame::MAX_CONTROL_BYTES, &samples::control());
}

#[test]
fn bulk_headers_keep_their_bytes() {
    golden("data.txt", data::VERSION, frame::MAX_HEADER_BYTES, &samples::headers());
}

#[test]
fn journal_entries_keep_their_bytes() {
    golden("journal.txt", journal::VERSION, frame::MAX_CONTROL_BYTES, &samples::journal());
}

/// The header of a transfer is paid for every activation: it must stay small next to a packet.
#[test]
fn hot_headers_are_small() {
    for sample in samples::headers() {
        let bytes = frame::encode(data::VERSION, frame::MAX_HEADER_BYTES, &sample.message).expect(&sample.name).len();
        let bound = if sample.carries_sums() { 240 } else { 96 };
        assert!(bytes <= bound, "{}: {bytes} bytes", sample.name);
    }
}

/// The largest header that can be: every number at its widest.
#[test]
fn no_header_is_over_its_bound() {
    for sample in samples::widest_headers() {
        frame::encode(data::VERSION, frame::MAX_HEADER_BYTES, &sample.message).expect(&sample.name);
    }
}

#[test]
fn another_version_is_told_from_garbage() {
    let frame = frame::encode(control::VERSION + 1, 64, &Control::Goodbye("x".to_owned())).expect("small");
    let found = frame::decode::<Control>(control::VERSION, &frame[4..]);
    assert_eq!(found, Err(DecodeError::Version { expected: control::VERSION, found: control::VERSION + 1 }));
    assert_eq!(frame::decode::<Control>(control::VERSION, &[1]), Err(DecodeError::TooShort { bytes: 1 }));
}

#[test]
fn bounds_hold_on_both_sides() {
    let message = Control::Goodbye("x".repeat(100));
    let whole = frame::encode(control::VERSION, 1000, &message).expect("small").len() - frame::LENGTH_BYTES;
    assert!(frame::encode(control::VERSION, whole, &message).is_ok());
    let over = frame::encode(control::VERSION, whole - 1, &message);
    assert_eq!(over, Err(EncodeError::TooLarge { bytes: whole, max: whole - 1 }));
    assert_eq!(frame::length([0, 1, 0, 0], 255), Err(DecodeError::TooLarge { bytes: 256, max: 255 }));
    assert_eq!(frame::length([255, 0, 0, 0], 255), Ok(255));
}

#[test]
fn bytes_after_a_message_are_an_error() {
    let mut frame = frame::encode(control::VERSION, 1000, &Control::Goodbye("x".to_owned())).expect("small");
    frame.push(0);
    let found = frame::decode::<Control>(control::VERSION, &frame[frame::LENGTH_BYTES..]);
    assert_eq!(found, Err(DecodeError::Trailing { bytes: 1 }));
}

/// What code relies on without asking holds for what is read, too.
#[test]
fn an_empty_interval_is_no_message() {
    let message = |start, end| {
        Control::ToPeer(control::ToPeer::FetchWeights {
            job: JobId(1),
            generation: Generation::default(),
            version: Version { step: 1, chain: Digest::default() },
            block: BlockId(0),
            interval: Interval { start, end },
        })
    };
    for (start, end, valid) in [(16, 32, true), (32, 32, false), (33, 32, false)] {
        let frame = frame::encode(control::VERSION, 1000, &message(start, end)).expect("small");
        let found = frame::decode::<Control>(control::VERSION, &frame[frame::LENGTH_BYTES..]);
        assert_eq!(found.is_ok(), valid, "{start}..{end}");
        assert!(valid || matches!(found, Err(DecodeError::Form(_))));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever arrives, decoding ends in a message or an error.
    #[test]
    fn random_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..300), versioned in any::<bool>()) {
        if versioned && bytes.len() >= 2 {
            bytes[..2].copy_from_slice(&control::VERSION.to_le_bytes());
        }
        let _ = frame::decode::<Control>(control::VERSION, &bytes);
        let _ = frame::decode::<Header>(data::VERSION, &bytes);
        let _ = frame::decode::<Entry>(journal::VERSION, &bytes);
    }

    /// Messages with a few bytes changed reach deeper than noise: they decode or fail, and what decodes encodes again.
    #[test]
    fn damaged_messages_never_panic(pick in any::<prop::sample::Index>(), hits in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 1..6)) {
        let all = samples::control();
        let sample = &all[pick.index(all.len())];
        let mut frame = frame::encode(control::VERSION, frame::MAX_CONTROL_BYTES, &sample.message).expect("a sample");
        let body = &mut frame[frame::OVERHEAD_BYTES..];
        for (at, value) in hits {
            if !body.is_empty() {
                let at = at.index(body.len());
                body[at] = value;
            }
        }
        if let Ok(message) = frame::decode::<Control>(control::VERSION, &frame[frame::LENGTH_BYTES..]) {
            let again = frame::encode(control::VERSION, frame::MAX_CONTROL_BYTES, &message);
            prop_assert!(again.is_ok());
        }
    }
}

/// docs/cli.md has a row for every kind of event and every state of a job.
#[test]
fn the_documentation_knows_every_kind_of_event_and_every_state() {
    let page = include_str!("../../../docs/cli.md");
    let section = page.split("## Where a job stands").nth(1).and_then(|rest| rest.split("\n## ").next());
    let rows: String = section.expect("a section").lines().filter(|line| line.starts_with("| `")).collect();
    let kinds = samples::journal().into_iter().filter_map(|sample| match sample.message {
        Entry::Line { line: Line { record: Record::Happened(happening), .. }, .. } => Some(happening.kind()),
        Entry::Line { .. }
        | Entry::Counter { .. }
        | Entry::Node { .. }
        | Entry::Job { .. }
        | Entry::Facts { .. }
        | Entry::Gone { .. }
        | Entry::Turn { .. } => None,
    });
    let (states, _) = samples::variants!(JobState: Queued = "queued", Planning = "planning", Training = "training",
        Recovering = "recovering", Paused = "paused", Parked = "parked", Done = "done", Failed = "failed",
        Cancelled = "cancelled");
    let missing: Vec<&str> =
        kinds.chain(states.iter().copied()).filter(|word| !rows.contains(&format!("`{word}`"))).collect();
    assert_eq!(missing, Vec::<&str>::new(), "docs/cli.md lacks them");
}
