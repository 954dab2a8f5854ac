//! Half types, as a person meets them.

use shoal_tests::{Cluster, JobFile};
use shoal_wire::api::JobState;

use crate::cluster;

const STEPS: u64 = 40;
const HALVES: &str =
    "precision = \"fp16\"\nwire = \"bf16\"\nloss_scale = 1024\nloss_scale_window = 7\nloss_scale_hysteresis = 1\n";

fn submit(cluster: &Cluster, name: &str) -> String {
    let file = JobFile { steps: STEPS, train: HALVES, ..JobFile::default() };
    cluster.submit(&file.write(cluster.path(), name))
}

#[test]
fn half_types_end_in_one_digest_whatever_dies() {
    let cluster = cluster(3);
    let undisturbed = submit(&cluster, "undisturbed");
    let want = cluster.final_digest(&undisturbed).state_blake3;
    let scale = cluster.status(&undisturbed).loss_scale;
    assert!(scale.is_some_and(|scale| scale != 1024.0), "40 steps are longer than its window: {scale:?}");
    let job = submit(&cluster, "killed");
    cluster.wait(&job, "step=12");
    cluster.kill_coordinator(&job);
    cluster.wait(&job, "step=20");
    cluster.wait(&job, "redundancy=full");
    cluster.kill(1);
    assert_eq!(cluster.final_digest(&job).state_blake3, want);
    let status = cluster.status(&job);
    assert_eq!((status.state, status.steps_lost, status.loss_scale), (JobState::Done, 0, scale));
}

#[test]
fn an_infinite_gradient_is_skipped_and_said() {
    let cluster = cluster(2);
    let job = submit(&cluster, "poisoned");
    cluster.wait(&job, "step=5");
    cluster.ok(&["chaos", "poison-stage", &job, "--node", "w1"]);
    cluster.final_digest(&job);
    let status = cluster.status(&job);
    assert_eq!((status.state, status.step), (JobState::Done, STEPS));
    let events = cluster.events(&job);
    let skipped: Vec<_> = events.iter().filter(|event| event.kind == "step_skipped").collect();
    let [event] = skipped[..] else { panic!("one step was poisoned: {events:#?}") };
    assert!(event.reason.contains("not finite: the gradient of block"), "{}", event.reason);
    assert!(event.reason.contains("; the loss scale from here on is "), "{}", event.reason);
}
