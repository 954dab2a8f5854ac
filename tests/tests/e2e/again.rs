//! A cluster that was taken down and comes back: what was written is reached, what was only in memory is named.

use std::collections::BTreeSet;
use std::fs;

use rustix::process::Signal;
use shoal_tests::{Cluster, JobFile};
use shoal_wire::api::StateDigest;

use crate::cluster;

fn names(cluster: &Cluster) -> BTreeSet<String> {
    cluster.nodes().into_iter().map(|node| node.node).collect()
}

#[test]
fn a_finished_job_is_reached_after_down_and_up() {
    let cluster = cluster(2);
    // Every piece on one node only.
    let job = cluster.submit(&JobFile { redundancy: 0, ..JobFile::default() }.write(cluster.path(), "kept"));
    let want = cluster.final_digest(&job).state_blake3;
    let before = names(&cluster);
    let down = cluster.run(&["down"]);
    assert!(down.status.success());
    assert_eq!(String::from_utf8_lossy(&down.stderr), "", "a finished job loses nothing");

    let said = cluster.ok(&["up", "--nodes", "1"]);
    assert!(said.contains("started w1\n"), "{said}");
    let note = "note: written pieces of j1 lie with w2, stopped; `shoalctl up --nodes 2` starts them again";
    assert!(said.contains(note), "{said}");
    let refused = cluster.run(&["digest", &job]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("w2 had pieces of it and do not run; `shoalctl up --nodes 2` starts"), "{said}");

    let said = cluster.ok(&["up", "--nodes", "2"]);
    assert!(said.contains("started w2\n"), "{said}");
    assert_eq!(names(&cluster), before, "nobody new was made");
    let file = fs::read_to_string(cluster.path().join("cluster/nodes/w2/node.toml")).expect("a node file");
    assert!(file.contains("memory = \"1GiB\"") && file.contains("data_dir = \"data\""), "{file}");
    let again: StateDigest = cluster.json(&["digest", &job]);
    assert_eq!(again.state_blake3, want);

    // A name may come back while the coordinator still believes in the process that had it.
    cluster.kill(1);
    cluster.ok(&["up", "--nodes", "2"]);
    let nodes = cluster.nodes();
    assert_eq!(nodes.len(), 2, "{nodes:?}");
    assert_eq!(nodes.iter().map(|node| &node.node).collect::<BTreeSet<_>>().len(), 2, "{nodes:?}");
}

#[test]
fn down_says_what_is_lost() {
    let cluster = cluster(2);
    let job = cluster.submit(&JobFile { steps: 400, ..JobFile::default() }.write(cluster.path(), "unfinished"));
    cluster.ok(&["pause", &job, "--at", "step=3"]);
    cluster.ok(&["wait", &job, "--until", "paused", "--timeout", "2m"]);
    let down = cluster.run(&["down"]);
    let said = String::from_utf8_lossy(&down.stderr).into_owned();
    assert!(down.status.success(), "{said}");
    assert!(said.contains("j1 is at step 3 of 400; its state was in the workers' memory and is gone"), "{said}");
}

/// Its coordinator is told to stop by that, and has the directory, its ports and the journal for a moment more.
#[test]
fn up_right_after_the_death_of_a_respawner_takes_over() {
    let cluster = cluster(1);
    let job = cluster.submit(&JobFile { steps: 100_000, ..JobFile::default() }.write(cluster.path(), "long"));
    cluster.wait(&job, "step=2");
    for _ in 0..5 {
        let pids = cluster.path().join("cluster/pids");
        let respawner = fs::read_to_string(pids.join("respawner")).expect("a process id");
        cluster.signal(respawner.trim().parse().expect("a number"), Signal::KILL);
        cluster.ok(&["up", "--nodes", "1"]);
    }
    let step = cluster.status(&job).step;
    cluster.wait(&job, &format!("step={}", step + 2));
    cluster.ok(&["cancel", &job]);
}
