//! Workers that are told what to compute with: those of one arithmetic give one digest, the others get nothing of the job and
//! everyone can see why.

use shoal_exact::Arithmetic;
use shoal_kernels::Class;
use shoal_tests::{Cluster, JobFile};
use shoal_wire::api::EventLine;

/// A cluster with workers of these classes.
fn cluster(classes: &[&str]) -> Cluster {
    let cluster = Cluster::new(env!("CARGO_BIN_EXE_shoalctl-under-test"));
    for (before, class) in classes.iter().enumerate() {
        add(&cluster, before, class);
    }
    cluster
}

/// One more worker.
fn add(cluster: &Cluster, before: usize, class: &str) {
    let nodes = (before + 1).to_string();
    cluster.ok(&["up", "--nodes", &nodes, "--memory", "256MiB", "--threads", "1", "--class", class]);
}

/// Classes of this machine with an arithmetic, the best last.
fn classes(arithmetic: Arithmetic) -> Vec<&'static str> {
    let here = Class::here();
    let found =
        here.iter().filter(|class| class.arithmetic() == arithmetic).map(|class| class.name()).collect::<Vec<_>>();
    // What needs plain nodes is tested on every x86-64.
    let must = cfg!(target_arch = "x86_64") && arithmetic == Arithmetic::Plain;
    assert!(!must || found.contains(&Class::Portable.name()), "{here:?}");
    found
}

fn of_kind(cluster: &Cluster, job: &str, kind: &str) -> Vec<EventLine> {
    cluster.events(job).into_iter().filter(|event| event.kind == kind).collect()
}

/// Names of the workers that are left out, with the reason.
fn left_out(cluster: &Cluster) -> Vec<(String, String)> {
    cluster.nodes().into_iter().filter_map(|node| Some((node.node, node.left_out?))).collect()
}

fn small() -> JobFile {
    JobFile { steps: 6, pipeline: 2, data: 1, fixed: true, global_batch: 4, redundancy: 0, ..JobFile::default() }
}

#[test]
fn classes_of_one_arithmetic_share_a_job_and_others_are_left_out_of_it() {
    let fused = classes(Arithmetic::Fused);
    let (Some(first), Some(last)) = (fused.first(), fused.last()) else { return eprintln!("nothing here is fused") };
    let cluster = cluster(&[first]);
    let path = small().write(cluster.path(), "classes");
    let alone = cluster.final_digest(&cluster.submit(&path)).state_blake3;

    add(&cluster, 1, last);
    let nodes = cluster.nodes();
    assert_eq!(nodes.iter().map(|node| &*node.class).collect::<Vec<_>>(), [*first, *last]);
    let job = cluster.submit(&path);
    assert_eq!(cluster.final_digest(&job).state_blake3, alone, "{first} with {last} as {first} alone");
    assert!(cluster.status(&job).plan.is_some_and(|plan| plan.ends_with("2 nodes")));

    let Some(plain) = classes(Arithmetic::Plain).pop() else { return eprintln!("nothing here is plain") };
    add(&cluster, 2, plain);
    let job = cluster.submit(&path);
    cluster.ok(&["pause", &job, "--at", "step=3"]);
    cluster.wait(&job, "paused");
    // Another one comes while the job is there.
    add(&cluster, 3, plain);
    let reason = format!("left out of {job}: its products are plain ({plain}), those of the job fused");
    assert_eq!(left_out(&cluster), [("w3".to_owned(), reason.clone()), ("w4".to_owned(), reason)]);
    let status = cluster.status(&job);
    assert_eq!((status.arithmetic.as_deref(), status.plain), (Some("fused"), None));
    assert!(cluster.ok(&["nodes"]).contains(&format!("w3: left out of {job}: ")));
    let why = cluster.ok(&["why", &job]);
    for node in ["w3", "w4"] {
        assert!(
            why.contains(&format!("{node} is left out: its products are plain ({plain}), those of this job fused")),
            "{why}"
        );
    }
    cluster.ok(&["resume", &job]);
    assert_eq!(cluster.final_digest(&job).state_blake3, alone, "nobody noticed them");
}

#[test]
fn a_plain_job_says_so_from_its_submission_on() {
    let (Some(plain), Some(fused)) = (classes(Arithmetic::Plain).pop(), classes(Arithmetic::Fused).pop()) else {
        return eprintln!("this machine has one arithmetic");
    };
    let cluster = cluster(&[plain]);
    let path = small().write(cluster.path(), "slow");
    let said = cluster.ok(&["submit", path.to_str().expect("UTF-8")]);
    assert!(
        said.contains("warning: with the nodes of now its products will be plain: no node that is here fuses"),
        "{said}"
    );
    let job = cluster.status("j1").job;
    cluster.ok(&["pause", &job, "--at", "step=3"]);
    cluster.wait(&job, "paused");
    add(&cluster, 1, fused);
    let reason = format!("left out of {job}: its products are fused ({fused}), those of the job plain");
    assert_eq!(left_out(&cluster), [("w2".to_owned(), reason)]);
    let status = cluster.status(&job);
    assert_eq!(status.arithmetic.as_deref(), Some("plain"));
    let warning = status.plain.expect("a warning");
    assert!(
        warning.contains("since its first plan, and w2 is left out: plain products take about 5 times"),
        "{warning}"
    );
    for command in ["status", "why"] {
        let said = cluster.ok(&[command, &job]);
        assert!(said.contains("warning") && said.contains("`shoalctl cancel` it and submit it again"), "{said}");
    }
    let events = of_kind(&cluster, &job, "warning");
    let told = |event: &EventLine| event.reason.contains("plain from now on: no node that is here fuses");
    assert!(events.iter().any(told), "{events:?}");
    cluster.ok(&["resume", &job]);
    let slow = cluster.final_digest(&job).state_blake3;
    assert_eq!(cluster.status(&job).plain, None, "nothing is to be done any more");

    // With both there it does not matter who came first.
    let again = cluster.submit(&path);
    let fast = cluster.final_digest(&again).state_blake3;
    assert_eq!(cluster.status(&again).arithmetic.as_deref(), Some("fused"));
    assert_eq!(of_kind(&cluster, &again, "node_left_out").len(), 1);
    assert_ne!(slow, fast, "that is what the two are told apart for");
}

#[test]
fn a_class_that_the_machine_lacks_is_refused_by_name() {
    let cluster = cluster(&[]);
    let foreign = if cfg!(target_arch = "aarch64") { "avx2" } else { "neon" };
    let refused = cluster.run(&["up", "--nodes", "1", "--class", foreign]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    let here = Class::here().into_iter().map(Class::name).collect::<Vec<_>>().join(" and ");
    assert!(
        said.contains(&format!("`class` is \"{foreign}\", and this machine has {here}; name one of those")),
        "{said}"
    );
    let refused = cluster.run(&["up", "--nodes", "1", "--class", "sse"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("`sse` is not a class; allowed: \"auto\", \"portable\""), "{said}");
    add(&cluster, 0, "auto");
    assert_eq!(cluster.nodes()[0].class, Class::detect().name());
}
