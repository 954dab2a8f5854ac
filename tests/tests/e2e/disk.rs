//! Disks that cannot be written: nothing hangs, nothing that was acknowledged or trained is lost, and the reason is told.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use shoal_tests::{JobFile, wait};
use shoal_wire::api::JobState;

use crate::cluster;

#[test]
fn a_trained_state_that_cannot_be_written_waits_for_room() {
    let cluster = cluster(2);
    let file = JobFile { pipeline: 1, ..JobFile::default() };
    let want = cluster.undisturbed(&file, "undisturbed");

    // A file where the directory of the next job's pieces has to be.
    let blocks: Vec<_> =
        ["w1", "w2"].map(|node| cluster.path().join(format!("cluster/nodes/{node}/data/jobs/j2"))).into();
    for block in &blocks {
        fs::write(block, "in the way").expect("written");
    }
    let job = cluster.submit(&file.write(cluster.path(), "no-room"));
    assert_eq!(job, "j2");
    let parked = wait::until("the job to be parked", Duration::from_secs(60), || {
        Some(cluster.status(&job)).filter(|status| status.state == JobState::Parked)
    });
    assert_eq!(parked.step, file.steps);
    let reason = parked.reason.expect("a reason");
    assert!(reason.contains("cannot write its pieces") && reason.contains("resume the job"), "{reason}");

    cluster.ok(&["resume", &job]);
    wait::until("the job to be parked again", Duration::from_secs(60), || {
        let again = cluster.events(&job).iter().filter(|e| e.reason.starts_with("parked:")).count() == 2;
        (again && cluster.status(&job).state == JobState::Parked).then_some(())
    });
    for block in &blocks {
        fs::remove_file(block).expect("removed");
    }
    cluster.ok(&["resume", &job]);
    assert_eq!(cluster.final_digest(&job).state_blake3, want);
    assert_eq!(cluster.status(&job).steps_lost, 0);
}

#[test]
fn a_journal_that_cannot_be_written_ends_the_coordinator_and_its_respawner_goes_on() {
    let cluster = cluster(2);
    let file = JobFile { steps: 60, ..JobFile::default() };
    let want = cluster.undisturbed(&file, "undisturbed");

    let job = cluster.submit(&file.write(cluster.path(), "journal-full"));
    cluster.wait(&job, "step=10");
    let first = cluster.coordinator_pid();
    let before = cluster.status(&job).step;
    // No file may grow any more, for this process: its journal is as on a full disk.
    let limit = Rlimit { current: Some(0), maximum: None };
    prlimit(Pid::from_raw(first as i32), Resource::Fsize, limit).expect("a limit may be lowered");
    wait::until("another coordinator", Duration::from_secs(30), || {
        let text = fs::read_to_string(cluster.path().join("cluster/coordinator/lock")).ok()?;
        let pid: u32 = text.trim().parse().ok()?;
        (pid != first && cluster.run(&["status", &job]).status.success()).then_some(())
    });
    assert!(cluster.status(&job).step >= before);
    assert_eq!(cluster.final_digest(&job).state_blake3, want);
    assert_eq!(cluster.status(&job).steps_lost, 0);
    let log = fs::read_to_string(cluster.path().join("cluster/coordinator/log")).expect("a log");
    // Its own last words went to a file that could not grow, either.
    assert!(log.contains("coordinator died, starts again"), "{log}");
}
