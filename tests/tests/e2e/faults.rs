//! Faults made on purpose; the loss must not be able to tell.

use std::time::Duration;

use rustix::process::Signal;
use shoal_tests::{Cluster, JobFile, wait};
use shoal_wire::api::{JobState, JobStatus};

use crate::cluster;

/// Long enough for a fault in the middle.
fn long() -> JobFile {
    JobFile { steps: 60, ..JobFile::default() }
}

/// A job that is about to be disturbed, and the digest that it has when nobody disturbs it.
fn disturbed(cluster: &Cluster, file: &JobFile, name: &str) -> (String, String) {
    let want = cluster.undisturbed(file, "undisturbed");
    (cluster.submit(&file.write(cluster.path(), name)), want)
}

/// Same digest, no step lost.
fn assert_unharmed(cluster: &Cluster, job: &str, want: &str) -> JobStatus {
    assert_eq!(cluster.final_digest(job).state_blake3, want);
    let status = cluster.status(job);
    assert_eq!((status.state, status.steps_lost), (JobState::Done, 0));
    status
}

#[test]
fn a_worker_is_killed_and_another_joins() {
    let cluster = cluster(4);
    let (job, want) = disturbed(&cluster, &long(), "killed");
    for (step, victim) in [(12, 0), (26, 3), (40, 1)] {
        cluster.wait(&job, &format!("step={step}"));
        cluster.wait(&job, "redundancy=full");
        cluster.kill(victim);
        cluster.grow(4);
    }
    assert_unharmed(&cluster, &job, &want);
    let kinds: Vec<_> = cluster.events(&job).into_iter().map(|e| e.kind).collect();
    assert_eq!(kinds.iter().filter(|k| *k == "node_lost").count(), 3, "{kinds:?}");
}

#[test]
fn a_stage_panics_and_no_node_is_lost() {
    let cluster = cluster(2);
    let file = JobFile { data: 1, ..long() };
    let (job, want) = disturbed(&cluster, &file, "panics");
    cluster.wait(&job, "step=10");
    let node = cluster.nodes().swap_remove(1).node;
    cluster.ok(&["chaos", "panic-stage", &job, "--node", &node]);
    assert_unharmed(&cluster, &job, &want);
    let events = cluster.events(&job);
    assert!(events.iter().any(|e| e.kind == "stage_failed"), "{events:#?}");
    assert!(events.iter().all(|e| e.kind != "node_lost"), "{events:#?}");
}

#[test]
fn a_device_that_hangs_costs_its_node_and_no_step() {
    let cluster = cluster(3);
    let file = JobFile { data: 1, ..long() };
    let (job, want) = disturbed(&cluster, &file, "hangs");
    cluster.wait(&job, "step=10");
    let computing = cluster.computing(&job);
    let hung = cluster.nodes().into_iter().find(|node| node.node == computing).expect("it reported");
    cluster.ok(&["chaos", "hang-stage", &job, "--node", &hung.node]);
    assert_unharmed(&cluster, &job, &want);
    let events = cluster.events(&job);
    let evicted = |reason: &str| reason.contains("is evicted: its compute device has been in one piece of work for ");
    assert!(events.iter().any(|e| evicted(&e.reason)), "{events:#?}");
    wait::until("the hung worker to end", Duration::from_secs(30), || {
        cluster.nodes().iter().all(|node| node.pid != hung.pid).then_some(())
    });
}

#[test]
fn a_stopped_worker_is_lost_and_its_return_changes_nothing() {
    let cluster = cluster(4);
    let (job, want) = disturbed(&cluster, &long(), "zombie");
    cluster.wait(&job, "step=10");
    let zombie = cluster.nodes().swap_remove(2);
    cluster.signal(zombie.pid, Signal::STOP);
    wait::until("the stopped worker to be declared lost", Duration::from_secs(30), || {
        cluster.events(&job).into_iter().any(|e| e.kind == "node_lost").then_some(())
    });
    cluster.signal(zombie.pid, Signal::CONT);
    assert_unharmed(&cluster, &job, &want);
}

#[test]
fn the_coordinator_is_killed_and_comes_back() {
    let cluster = cluster(2);
    let file = JobFile { data: 1, ..long() };
    let (job, want) = disturbed(&cluster, &file, "coordinator");
    cluster.wait(&job, "step=15");
    cluster.kill_coordinator(&job);
    assert_unharmed(&cluster, &job, &want);
}

/// Nobody is there to see the worker die; the next coordinator finds out at once, instead of waiting for its return.
#[test]
fn the_coordinator_and_a_worker_are_killed_together() {
    let cluster = cluster(2);
    let file = JobFile { data: 1, ..long() };
    let (job, want) = disturbed(&cluster, &file, "together");
    cluster.wait(&job, "step=15");
    cluster.wait(&job, "redundancy=full");
    let worker = cluster.nodes().swap_remove(1).pid;
    cluster.signal(cluster.coordinator_pid(), Signal::KILL);
    cluster.signal(worker, Signal::KILL);
    cluster.coordinator_answers(&job);
    assert_unharmed(&cluster, &job, &want);
    let lost: Vec<_> = cluster.events(&job).into_iter().filter(|e| e.kind == "node_lost").collect();
    assert!(lost.len() == 1 && lost[0].reason.contains("its process died"), "{lost:#?}");
}

#[test]
fn pause_resume_and_a_digest_on_the_way() {
    let cluster = cluster(2);
    let file = JobFile { data: 1, ..long() };
    let (job, want) = disturbed(&cluster, &file, "paused");
    cluster.ok(&["pause", &job, "--at", "step=20"]);
    wait::until("the job to pause", Duration::from_secs(60), || {
        (cluster.status(&job).state == JobState::Paused).then_some(())
    });
    assert_eq!(cluster.status(&job).step, 20);
    let here: shoal_wire::api::StateDigest = cluster.json(&["digest", &job]);
    assert_eq!(here.step, 20);
    cluster.ok(&["resume", &job]);
    assert_unharmed(&cluster, &job, &want);
}

#[test]
fn two_kills_at_once_lose_steps_and_say_so() {
    let cluster = cluster(2);
    let file = JobFile { data: 1, ..long() };
    let (job, want) = disturbed(&cluster, &file, "rollback");
    cluster.wait(&job, "step=15");
    let pids: Vec<_> = cluster.nodes().into_iter().map(|n| n.pid).collect();
    for pid in pids {
        cluster.signal(pid, Signal::KILL);
    }
    // At once: some may be dying still, and do not count.
    cluster.grow(2);
    assert_eq!(cluster.final_digest(&job).state_blake3, want);
    let status = cluster.status(&job);
    assert!(status.steps_lost >= 15, "{status:?}");
    let events = cluster.events(&job);
    let lost = events.iter().find(|e| e.kind == "steps_lost").expect("an event names the loss");
    assert!(lost.reason.contains("lost"), "{lost:?}");

    let halt = JobFile { on_loss: "halt", ..file };
    let job = cluster.submit(&halt.write(cluster.path(), "halt"));
    cluster.wait(&job, "step=5");
    for node in cluster.nodes() {
        cluster.signal(node.pid, Signal::KILL);
    }
    cluster.grow(2);
    let output = cluster.run(&["wait", &job, "--until", "done", "--timeout", "60s"]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(cluster.status(&job).state, JobState::Failed);
}

#[test]
fn the_final_state_outlives_a_node() {
    let cluster = cluster(4);
    let file = JobFile::default();
    let job = cluster.submit(&file.write(cluster.path(), "outlives"));
    let want = cluster.final_digest(&job);
    cluster.kill(1);
    let again: shoal_wire::api::StateDigest = cluster.json(&["digest", &job]);
    assert_eq!(again, want);
    let to = cluster.path().join("hf");
    cluster.ok(&["export", &job, "--to", to.to_str().expect("UTF-8")]);
    assert!(to.join("config.json").exists() && to.join("model.safetensors").exists());
    let state = cluster.path().join("state");
    cluster.ok(&["export", &job, "--state", state.to_str().expect("UTF-8")]);
    assert_eq!(shoal_tests::state::recompute(&state, 4), want.state_blake3);
}
