//! Every optimizer, killed in the middle.

use shoal_tests::JobFile;
use shoal_wire::api::JobState;

use crate::cluster;

#[test]
fn no_optimizer_knows_that_a_worker_was_killed() {
    let cluster = cluster(4);
    for (name, train) in [
        ("adam", "optimizer = \"adam\""),
        ("sgd", "optimizer = \"sgd\"\nmomentum = 0.9\nnesterov = true\nlearning_rate = 0.1"),
        ("rmsprop", "optimizer = \"rmsprop\"\nlearning_rate = 1e-3"),
        (
            "adafactor",
            "optimizer = \"adafactor\"\nrelative_step = true\n[[train.decay]]\nparameters = \"b?.*.bias\"\nweight_decay = 0.1",
        ),
    ] {
        let file = JobFile { steps: 30, train, ..JobFile::default() };
        let job = cluster.submit(&file.write(cluster.path(), &format!("{name}-undisturbed")));
        let want = cluster.final_digest(&job).state_blake3;
        let again = JobFile { pipeline: 4, data: 1, ..file };
        let job = cluster.submit(&again.write(cluster.path(), &format!("{name}-killed")));
        cluster.wait(&job, "step=8");
        cluster.wait(&job, "redundancy=full");
        cluster.kill(1);
        cluster.grow(4);
        assert_eq!(cluster.final_digest(&job).state_blake3, want, "{name}");
        let status = cluster.status(&job);
        assert_eq!((status.state, status.steps_lost, status.optimizer.as_str()), (JobState::Done, 0, name));
        assert!(cluster.events(&job).iter().any(|e| e.kind == "node_lost"), "{name} was disturbed");
    }
}
