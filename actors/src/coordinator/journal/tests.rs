use std::path::Path;

use shoal_plan::engine::{Happening, Record, State};

use super::*;
use crate::coordinator::intake::{Coming, restore};
use crate::testing::facts;

fn folded(entries: Vec<Entry>) -> Restored {
    let journal = MemoryJournal::default();
    entries.iter().try_for_each(|entry| journal.append(entry)).expect("memory takes all");
    Restored::from_entries(journal.load().expect("memory gives all"))
}

fn job() -> Entry {
    let text = "name = \"small\"\n[model]\nkind = \"gpt2\"\nlayers = 2\nheads = 2\nwidth = 32\ncontext = 16\n\
                [data]\nkind = \"text\"\npath = \"text.txt\"\n[train]\nsteps = 5\nglobal_batch = 4\n";
    let spec = shoal_config::job::parse(text, "job.toml", Path::new("/data")).expect("a good job file");
    Entry::Job { id: JobId(1), spec }
}

fn line(number: u64, record: Record) -> Entry {
    Entry::Line { job: JobId(1), number, line: Line { at_ms: 1, record } }
}

#[test]
fn a_node_that_is_gone_keeps_its_name_and_is_gone_whatever_the_order() {
    let (node, gone) = (
        Entry::Node { id: NodeId(1), name: "a".to_owned(), address: SocketAddr::from(([127, 0, 0, 1], 9)) },
        Entry::Gone { id: NodeId(1), name: "a".to_owned() },
    );
    assert_eq!(folded(vec![node.clone()]).addresses.len(), 1);
    for entries in [vec![node.clone(), gone.clone()], vec![gone.clone(), node], vec![gone]] {
        let restored = folded(entries);
        assert_eq!(restored.addresses, BTreeMap::new());
        assert_eq!(restored.nodes, BTreeMap::from([(NodeId(1), "a".to_owned())]));
        assert_eq!(restored.gone, BTreeSet::from([NodeId(1)]));
    }
}

/// IN-1: only what a job's data is decides whether it is to be read, unless the job is over.
#[test]
fn a_job_is_read_again_unless_its_facts_are_there_or_it_is_over() {
    let data = facts(900, 100);
    let facts = Entry::Facts { job: JobId(1), data, weights: None };
    let submitted = line(0, Record::Happened(Happening::Submitted));
    let state = |state| line(1, Record::State(state));
    for (entries, unread) in [
        (vec![job(), submitted.clone()], true),
        (vec![job(), submitted.clone(), state(State::Queued)], true),
        (vec![job(), submitted.clone(), state(State::Cancelled)], false),
        (vec![job(), submitted.clone(), state(State::Failed { reason: "bad".to_owned() })], false),
        (vec![job(), submitted.clone(), facts.clone()], false),
        (vec![facts, state(State::Training), submitted, job()], false),
    ] {
        let said = format!("{entries:?}");
        let restored = folded(entries).jobs.remove(&JobId(1)).expect("there");
        let known = restored.data;
        match restore(restored) {
            Coming::Unread(_) => assert!(unread, "{said}"),
            Coming::Known(job, _) => {
                assert!(!unread, "{said}");
                assert!(known.is_none_or(|data| job.data == data), "{said}");
            }
        }
    }
}
