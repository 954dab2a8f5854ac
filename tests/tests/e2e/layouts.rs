//! One job, many layouts, one digest.

use shoal_tests::{Family, JobFile};

use crate::cluster;

#[test]
fn one_digest_for_every_layout() {
    let cluster = cluster(1);
    let mut digests = Vec::new();
    let mut nodes = 1;
    for (n, pipeline, data, schedule) in [
        (1, 1, 1, "gpipe"),
        (1, 2, 2, "1f1b"),
        (2, 2, 1, "1f1b"),
        (2, 1, 2, "gpipe"),
        (3, 1, 3, "1f1b"),
        (3, 4, 1, "gpipe"),
        (4, 4, 1, "1f1b"),
        (4, 2, 2, "gpipe"),
    ] {
        if n > nodes {
            cluster.grow(n);
            nodes = n;
        }
        let name = format!("n{n}p{pipeline}d{data}{schedule}");
        let file = JobFile { pipeline, data, schedule, fixed: true, ..JobFile::default() };
        let job = cluster.submit(&file.write(cluster.path(), &name));
        let digest = cluster.final_digest(&job);
        let status = cluster.status(&job);
        assert_eq!(digest.step, file.steps);
        let plan = status.plan.expect("a plan");
        assert!(plan.contains(&format!("pipeline {pipeline}")) && plan.contains(&format!("data {data}")), "{plan}");
        if n == 1 {
            let warned =
                cluster.events(&job).into_iter().any(|e| e.kind == "warning" && e.reason.contains("redundancy"));
            assert!(warned, "r = 1 on one node runs and warns");
        }
        digests.push((name, digest.state_blake3, status.loss.map(f64::to_bits), status.val_loss.map(f64::to_bits)));
    }
    let (_, state, loss, val) = digests[0].clone();
    assert!(loss.is_some() && val.is_some());
    assert!(digests.iter().all(|d| (&d.1, d.2, d.3) == (&state, loss, val)), "{digests:#?}");
}

#[test]
fn another_seed_or_dropout_gives_another_digest() {
    let cluster = cluster(1);
    let digest = |file: JobFile, name: &str| {
        let job = cluster.submit(&file.write(cluster.path(), name));
        cluster.final_digest(&job).state_blake3
    };
    let short = JobFile { steps: 3, pipeline: 1, data: 1, ..JobFile::default() };
    let first = digest(short.clone(), "first");
    assert_eq!(first, digest(short.clone(), "again"));
    assert_ne!(first, digest(JobFile { dropout: 0.2, ..short.clone() }, "dropout"));
    assert_ne!(first, digest(JobFile { steps: 4, ..short }, "longer"));
}

/// A head of its own at the end of a pipeline, one that is the token table at the other end, and workers that are killed.
#[test]
fn a_family_has_one_digest_whatever_happens() {
    let cluster = cluster(1);
    for (family, layouts) in [
        (Family::Llama, &[(1, 1, 1, "gpipe"), (2, 3, 2, "1f1b"), (3, 1, 3, "gpipe")][..]),
        (Family::TiedLlama, &[(1, 1, 1, "gpipe"), (2, 3, 2, "1f1b")][..]),
        (Family::BareGpt2, &[(1, 1, 1, "gpipe"), (3, 3, 1, "1f1b")][..]),
    ] {
        cluster.grow(1);
        let file = JobFile { family, steps: 30, ..JobFile::default() };
        let mut digests = Vec::new();
        for &(nodes, pipeline, data, schedule) in layouts {
            cluster.grow(nodes);
            let name = format!("{family:?}-n{nodes}p{pipeline}d{data}");
            let job = cluster.submit(
                &JobFile { pipeline, data, schedule, fixed: true, ..file.clone() }.write(cluster.path(), &name),
            );
            digests.push((name, cluster.final_digest(&job).state_blake3));
        }
        cluster.grow(3);
        let job =
            cluster.submit(&JobFile { data: 1, ..file.clone() }.write(cluster.path(), &format!("{family:?}-killed")));
        for (step, victim) in [(8, 0), (18, 1)] {
            cluster.wait(&job, &format!("step={step}"));
            cluster.wait(&job, "redundancy=full");
            cluster.kill(victim);
        }
        digests.push(("killed".to_owned(), cluster.final_digest(&job).state_blake3));
        assert_eq!(cluster.status(&job).steps_lost, 0);
        assert!(digests.iter().all(|(_, digest)| *digest == digests[0].1), "{digests:#?}");
    }
}
