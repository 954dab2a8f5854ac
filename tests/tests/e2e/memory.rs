//! A worker's memory: tensors within their budget, the process within that and a stated constant, and what happens when
//! those that are left cannot hold a job.

use std::fs;
use std::time::Duration;

use shoal_config::node::own_memory;
use shoal_daemon::worker::RESIDENT_OVERHEAD_BYTES;
use shoal_tests::{Cluster, JobFile, wait};
use shoal_wire::api::{JobState, NodeReport};

/// What two workers need for [`job`] with a shadow of everything and not much more; one alone would need 160 MiB.
const BUDGET: u64 = 136 << 20;

/// Large tensors, little computing: 5 million parameters, 60 MB of weights and moments.
fn job() -> JobFile {
    JobFile { width: 320, pipeline: 2, data: 1, global_batch: 2, steps: 24, eval_every: 8, ..JobFile::default() }
}

/// The most that a process ever had resident, in bytes.
fn peak(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a high-water mark");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("kilobytes") << 10
}

/// Every live worker is within its bounds. Returns the largest peak.
fn assert_within_bounds(cluster: &Cluster, when: &str) -> u64 {
    let peaks = cluster.nodes().into_iter().map(|node| {
        let resident = peak(node.pid);
        assert_eq!(node.budget_bytes, BUDGET);
        assert!(node.used_bytes <= BUDGET, "{when}: arenas of {} hold {} of {BUDGET}", node.node, node.used_bytes);
        let bound = BUDGET + RESIDENT_OVERHEAD_BYTES;
        assert!(resident <= bound, "{when}: {} had {resident} bytes resident, {bound} are allowed", node.node);
        resident
    });
    peaks.max().expect("a worker")
}

#[test]
fn memory_stays_within_its_bounds_and_a_job_that_does_not_fit_waits_for_nodes() {
    let cluster = Cluster::new(env!("CARGO_BIN_EXE_shoalctl-under-test")).with_memory(&format!("{}MiB", BUDGET >> 20));
    cluster.grow(2);
    let file = job();
    let want = cluster.undisturbed(&file, "undisturbed");

    let id = cluster.submit(&file.write(cluster.path(), "near-the-limit"));
    // However slow this test is, the job does not end before it.
    cluster.ok(&["pause", &id, "--at", "step=20"]);
    cluster.wait(&id, "redundancy=full");
    cluster.wait(&id, "step=3");
    let _: shoal_wire::api::StateDigest = cluster.json(&["digest", &id]);
    let to = cluster.path().join("hf");
    cluster.ok(&["export", &id, "--to", to.to_str().expect("UTF-8")]);
    let largest = assert_within_bounds(&cluster, "trained, hashed and exported");
    assert!(largest > BUDGET / 2, "{largest} bytes: the job is too small to show anything");

    let killed = cluster.kill(0);
    let parked = wait::until("the job to be parked", Duration::from_secs(30), || {
        Some(cluster.status(&id)).filter(|status| status.state == JobState::Parked)
    });
    let reason = parked.reason.expect("a reason");
    // Of its memory, what its devices leave.
    let left = BUDGET - own_memory(1).0;
    for word in ["on 1 node:", "on a node that may hold", &format!("({left} bytes)"), "add nodes"] {
        assert!(reason.contains(word), "{word:?} is not in {reason:?}");
    }
    let why = cluster.ok(&["why", &id]);
    assert!(why.contains("add nodes"), "{why}");
    assert_within_bounds(&cluster, "parked");

    // The state waited in the memory of the one that is left.
    cluster.grow(2);
    cluster.ok(&["resume", &id]);
    assert_eq!(cluster.final_digest(&id).state_blake3, want, "without {killed}");
    assert_eq!(cluster.status(&id).steps_lost, 0);
    assert_within_bounds(&cluster, "recovered");
    let reports: Vec<NodeReport> = cluster.json(&["report", &id]);
    for report in reports {
        let lines = report.devices.iter().flat_map(|device| &device.arenas);
        let high: u64 = lines.filter(|line| line.tag == "weight").map(|line| line.high_water_bytes).sum();
        assert!(high > 0 && high < BUDGET, "{high} bytes of weights on {}", report.node);
    }
}
