use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

use shoal_plan::engine::{Happening, Record, State};
use shoal_plan::ids::{Digest, JobId, NodeId};
use shoal_plan::job::DataFacts;
use shoal_wire::journal::{Counter, Line, VERSION};

use super::*;

/// Where a child process of this test binary is to write, if it is one.
const CHILD_DIR: &str = "SHOAL_TEST_STORE_DIR";

fn line(number: u64) -> Entry {
    let record = if number.is_multiple_of(7) {
        Record::State(State::Training)
    } else {
        Record::Happened(Happening::Warning { reason: format!("line {number} {}", "x".repeat(number as usize % 900)) })
    };
    Entry::Line { job: JobId(3), number, line: Line { at_ms: 1_000 + number, record } }
}

fn load(store: &Store) -> Vec<Entry> {
    store.load().expect("readable")
}

fn filled(dir: &Path, lines: u64) -> Vec<Entry> {
    let store = Store::open(dir).expect("opens");
    store.append(&Entry::Counter { counter: Counter::Incarnation, value: 1 }).expect("appends");
    store.append(&Entry::Counter { counter: Counter::Incarnation, value: 2 }).expect("appends");
    for number in 0..lines {
        store.append(&line(number)).expect("appends");
    }
    store.flush().expect("flushes");
    load(&store)
}

#[test]
fn newest_entries_come_back_in_order() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let before = filled(dir.path(), 300);
    assert_eq!(before[0], Entry::Counter { counter: Counter::Incarnation, value: 2 });
    assert_eq!(before[1..], (0..300).map(line).collect::<Vec<_>>());
    let store = Store::open(dir.path()).expect("opens again");
    assert_eq!(store.mended(), Mended::default());
    assert_eq!(load(&store), before);
}

#[test]
fn torn_log_end_is_cut_and_filled_from_the_database() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let before = filled(dir.path(), 40);
    let log = std::fs::OpenOptions::new().write(true).open(dir.path().join("log")).expect("log is there");
    let len = log.metadata().expect("metadata").len();
    log.set_len(len - 5).expect("torn");
    let store = Store::open(dir.path()).expect("opens");
    assert_eq!((store.mended().to_log, store.mended().to_database), (1, 0));
    assert!(store.mended().log_bytes_cut > 0);
    assert_eq!(load(&store), before);
    drop(store);
    assert_eq!(Store::open(dir.path()).expect("opens").mended(), Mended::default());
}

/// A coordinator that counted an incarnation twice would use generations twice.
#[test]
fn a_counter_does_not_go_back_when_the_log_loses_its_end() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let counter = |value| Entry::Counter { counter: Counter::Incarnation, value };
    let store = Store::open(dir.path()).expect("opens");
    store.append(&counter(1)).expect("appends");
    let first = std::fs::metadata(dir.path().join("log")).expect("log is there").len();
    store.append(&counter(2)).expect("appends");
    store.flush().expect("flushes");
    drop(store);
    let log = std::fs::OpenOptions::new().write(true).open(dir.path().join("log")).expect("log is there");
    log.set_len(first + 3).expect("torn");
    let store = Store::open(dir.path()).expect("opens");
    assert_eq!((store.mended().to_log, store.mended().to_database), (1, 0));
    assert_eq!(load(&store), [counter(2)]);
    drop(store);
    let store = Store::open(dir.path()).expect("opens");
    assert_eq!((store.mended(), load(&store)), (Mended::default(), vec![counter(2)]));
}

/// Everything that is written about a job and two nodes, in the order in which a coordinator writes it.
fn history() -> Vec<Entry> {
    let (job, dir) = (JobId(3), Path::new("/data"));
    let text = "name = \"small\"\n[model]\nkind = \"gpt2\"\nlayers = 2\nheads = 2\nwidth = 32\ncontext = 16\n\
                [data]\nkind = \"text\"\npath = \"text.txt\"\n[train]\nsteps = 5\nglobal_batch = 4\n";
    let spec = shoal_config::job::parse(text, "job.toml", dir).expect("a good job file");
    let data = DataFacts {
        digest: Digest([7; 32]),
        train_tokens: 900,
        validation_digest: Digest::default(),
        validation_tokens: 100,
        tokenizer: None,
    };
    let counter = |value| Entry::Counter { counter: Counter::Incarnation, value };
    let name = |name: &str| name.to_owned();
    vec![
        counter(1),
        Entry::Node { id: NodeId(1), name: name("w1"), address: ([127, 0, 0, 1], 1).into() },
        Entry::Counter { counter: Counter::Jobs, value: 3 },
        Entry::Job { id: job, spec },
        line(0),
        Entry::Node { id: NodeId(2), name: name("w2"), address: ([127, 0, 0, 1], 2).into() },
        Entry::Facts { job, data, weights: None },
        Entry::Turn { number: 1, job: JobId(9) },
        line(1),
        counter(2),
        Entry::Gone { id: NodeId(1), name: name("w1") },
        line(2),
        Entry::Turn { number: 2, job },
        Entry::Counter { counter: Counter::Jobs, value: 4 },
        counter(3),
        Entry::Gone { id: NodeId(2), name: name("w2") },
    ]
}

fn folded(entries: &[Entry]) -> BTreeMap<Vec<u8>, Entry> {
    entries.iter().map(|entry| (entry.key(), entry.clone())).collect()
}

/// ST-1, whichever copy lost its end, and wherever: both come to hold what the longer one held.
#[test]
fn two_copies_that_end_at_different_places_merge_to_the_newest_of_everything() {
    let history = history();
    for logged in 0..=history.len() {
        for kept in 0..=history.len() {
            let (mut log, mut database) = (folded(&history[..logged]), folded(&history[..kept]));
            let (before, there) = (log.clone(), database.clone());
            let missing = merge::missing(&before, &there);
            log.extend(missing.in_log.iter().map(|entry| (entry.key(), (*entry).clone())));
            database.extend(missing.in_database.iter().map(|entry| (entry.key(), (*entry).clone())));
            let newest = folded(&history[..logged.max(kept)]);
            assert_eq!((&log, &database), (&newest, &newest), "log of {logged}, database of {kept}");
        }
    }
}

#[test]
fn a_log_cut_anywhere_is_filled_from_a_database_that_is_ahead() {
    let history = history();
    let dir = tempfile::tempdir().expect("temporary directory");
    let store = Store::open(dir.path()).expect("opens");
    for entry in &history {
        store.append(entry).expect("appends");
    }
    store.flush().expect("flushes");
    let newest = load(&store);
    drop(store);
    let path = dir.path().join("log");
    let whole = std::fs::read(&path).expect("log is there");
    for cut in (0..whole.len()).step_by(13) {
        std::fs::write(&path, &whole[..cut]).expect("torn");
        assert_eq!(load(&Store::open(dir.path()).expect("opens")), newest, "cut at {cut}");
        let store = Store::open(dir.path()).expect("opens again");
        assert_eq!((store.mended(), load(&store)), (Mended::default(), newest.clone()), "cut at {cut}");
    }
}

#[test]
fn damage_within_the_log_ends_it_there() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let before = filled(dir.path(), 40);
    let log = std::fs::OpenOptions::new().write(true).open(dir.path().join("log")).expect("log is there");
    let middle = log.metadata().expect("metadata").len() / 2;
    log.write_all_at(&[0xa5; 16], middle).expect("damaged");
    let store = Store::open(dir.path()).expect("opens");
    assert!(store.mended().to_log > 1, "{:?}", store.mended());
    assert_eq!(load(&store), before);
}

#[test]
fn garbage_behind_the_log_is_cut() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let before = filled(dir.path(), 5);
    let mut log = std::fs::OpenOptions::new().append(true).open(dir.path().join("log")).expect("log is there");
    log.write_all(&[0xff; 100]).expect("garbage");
    let store = Store::open(dir.path()).expect("opens");
    assert_eq!(store.mended(), Mended { log_bytes_cut: 100, ..Mended::default() });
    assert_eq!(load(&store), before);
}

#[test]
fn unopenable_database_is_rebuilt_from_the_log() {
    for damage in [&b"not a configuration"[..], &[]] {
        let dir = tempfile::tempdir().expect("temporary directory");
        let before = filled(dir.path(), 120);
        for file in ["conf", "db"] {
            std::fs::write(dir.path().join("sled").join(file), damage).expect("damaged");
        }
        let store = Store::open(dir.path()).expect("opens");
        assert_eq!(store.mended().to_database, before.len(), "{:?}", store.mended());
        assert_eq!(load(&store), before);
        drop(store);
        let store = Store::open(dir.path()).expect("opens again");
        assert_eq!((store.mended(), load(&store)), (Mended::default(), before));
    }
}

#[test]
fn half_written_snapshot_does_not_matter() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let before = filled(dir.path(), 20);
    std::fs::write(dir.path().join("sled").join("snap.0000.generating"), b"half").expect("written");
    assert_eq!(load(&Store::open(dir.path()).expect("opens")), before);
}

#[test]
fn entries_of_another_release_are_refused_not_cut() {
    const NEXT: u16 = VERSION + 1;
    let dir = tempfile::tempdir().expect("temporary directory");
    let foreign = {
        // The same entry, said to be of the next version, with a good checksum.
        let sound = value::encode(&line(1)).expect("encodes");
        let mut hasher = blake3::Hasher::new();
        hasher.update(&NEXT.to_le_bytes()).update(&sound[10..]);
        [&NEXT.to_le_bytes(), &hasher.finalize().as_bytes()[..8], &sound[10..]].concat()
    };
    let file = [&(foreign.len() as u32).to_le_bytes(), &foreign[..]].concat();
    std::fs::write(dir.path().join("log"), &file).expect("written");
    let error = Store::open(dir.path()).expect_err("another version");
    assert!(matches!(error, StoreError::Version { found: NEXT, expected: VERSION, .. }), "{error}");
    assert_eq!(std::fs::read(dir.path().join("log")).expect("still there"), file);
}

/// The other side of [`what_was_acknowledged_survives_a_kill`]: acknowledges flushed lines on standard output, for ever.
#[test]
fn child_writer() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else { return };
    let store = Store::open(Path::new(&dir)).expect("opens");
    let next = load(&store).len() as u64;
    for number in next.. {
        store.append(&line(number)).expect("appends");
        if number.is_multiple_of(3) {
            store.flush().expect("flushes");
            println!("acknowledged {number}");
        }
    }
}

#[test]
fn what_was_acknowledged_survives_a_kill() {
    let dir = tempfile::tempdir().expect("temporary directory");
    for round in 0..8u64 {
        let mut child = Command::new(std::env::current_exe().expect("own path"))
            .args(["--exact", "store::tests::child_writer", "--nocapture", "--test-threads=1"])
            .env(CHILD_DIR, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("child starts");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let wanted = 3 + round * 5 % 17;
        let acknowledged: Vec<u64> = output
            .lines()
            .map_while(Result::ok)
            .filter_map(|line| line.rsplit_once("acknowledged ").and_then(|(_, number)| number.parse().ok()))
            .take(wanted as usize)
            .collect();
        child.kill().expect("killed");
        child.wait().expect("ends");
        let last = *acknowledged.last().expect("the child acknowledged something");
        let store = Store::open(dir.path()).expect("opens after a kill");
        let entries = load(&store);
        assert!(entries.len() as u64 > last, "round {round}: {last} was acknowledged, {} are there", entries.len());
        assert_eq!(entries, (0..entries.len() as u64).map(line).collect::<Vec<_>>(), "round {round}");
    }
}
