//! Data that is touched after a job was submitted: nothing but the submitted tokens is ever trained on, and a node without
//! them costs the others nothing.

use std::fs;
use std::time::Duration;

use shoal_tests::{Cluster, JobFile, wait};
use shoal_wire::api::JobState;

use crate::cluster;

fn long() -> JobFile {
    JobFile { steps: 60, pipeline: 1, data: 2, ..JobFile::default() }
}

fn reason_of_failure(cluster: &Cluster, job: &str) -> String {
    let output = cluster.run(&["wait", job, "--until", "done", "--timeout", "60s"]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let status = cluster.status(job);
    assert_eq!(status.state, JobState::Failed);
    status.reason.expect("a reason")
}

#[test]
fn a_node_without_the_data_is_left_out_and_the_others_go_on() {
    let cluster = cluster(2);
    let file = long();
    let want = cluster.undisturbed(&file, "undisturbed");

    let job = cluster.submit(&file.write(cluster.path(), "left-out"));
    cluster.wait(&job, "step=10");
    // The workers that have it open keep it; who opens it from now on finds something else.
    let corpus = cluster.path().join("corpus.txt");
    fs::rename(&corpus, cluster.path().join("away.txt")).expect("renamed");
    fs::write(&corpus, "something else ".repeat(1000)).expect("written");
    // It is started again under its name.
    let name = cluster.nodes()[0].node.clone();
    cluster.kill(0);
    cluster.grow(2);
    let evicted = format!("{name} is evicted: the data on {name} is not what was submitted");
    wait::until("the new worker to be left out", Duration::from_secs(30), || {
        let events = cluster.events(&job);
        events.iter().any(|e| e.reason.contains(&evicted)).then_some(())
    });
    assert_eq!(cluster.final_digest(&job).state_blake3, want);
    assert_eq!(cluster.status(&job).steps_lost, 0);
    assert_eq!(cluster.nodes().len(), 2, "it is still there for other jobs");
}

#[test]
fn data_changed_under_a_running_job_fails_it_with_the_reason() {
    let cluster = cluster(2);
    let job = cluster.submit(&long().write(cluster.path(), "changed"));
    cluster.wait(&job, "step=10");
    let corpus = cluster.path().join("corpus.txt");
    let text = fs::read_to_string(&corpus).expect("corpus");
    fs::write(&corpus, text.replace("square", "SQUARE")).expect("written");
    let reason = reason_of_failure(&cluster, &job);
    assert!(reason.contains("is not what was submitted") && reason.contains("digest"), "{reason}");

    fs::write(&corpus, &text).expect("written");
    let job = cluster.submit(&long().write(cluster.path(), "cut"));
    cluster.wait(&job, "step=10");
    fs::OpenOptions::new().write(true).open(&corpus).and_then(|f| f.set_len(1000)).expect("cut");
    let reason = reason_of_failure(&cluster, &job);
    assert!(reason.contains("corpus.txt") && reason.contains("is not what was submitted"), "{reason}");
}
