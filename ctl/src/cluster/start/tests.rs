use rustix::process::Signal;

use super::*;

#[test]
fn what_was_asked_for_and_not_done_is_said() {
    let spec = |name: &str, memory, threads| NodeSpec {
        name: name.to_owned(),
        listen: ([127, 0, 0, 1], 0).into(),
        join: None,
        memory,
        threads,
        class: Auto::Auto,
        data_dir: "/data".into(),
    };
    let settings = [spec("w1", Bytes(2 << 30), 1), spec("w2", Bytes(1 << 30), 1)];
    let silent = Wanted { nodes: 2, memory: None, threads: None, class: None, http_port: None, timeout: LOOK };
    assert_eq!(notes(&silent, 2, &settings, "http://127.0.0.1:80"), Vec::<String>::new());
    let as_it_is = Wanted { threads: Some(1), http_port: Some(80), ..silent };
    assert_eq!(notes(&as_it_is, 2, &settings, "http://127.0.0.1:80"), Vec::<String>::new());
    let class = Some(Auto::Set(Class::Avx2));
    let (memory, threads, http_port) = (Some(Bytes(1 << 30)), Some(3), Some(81));
    let other = Wanted { nodes: 1, memory, threads, class, http_port, ..silent };
    let said = notes(&other, 2, &settings, "http://127.0.0.1:80");
    for (note, words) in said.iter().zip([
        "2 workers run and 1 were asked for: none was stopped",
        "--memory 1GiB is not what w1 run with",
        "--threads 3 is not what w1, w2 run with",
        "--class avx2 is not what w1, w2 run with",
        "--http-port 81 is not http://127.0.0.1:80",
    ]) {
        assert!(note.starts_with(words), "{note}");
    }
    assert_eq!(said.len(), 5);
}

fn node(name: &str, pid: u32, state: NodeState) -> NodeInfo {
    NodeInfo {
        node: name.to_owned(),
        id: String::new(),
        pid,
        role: vec!["worker".to_owned()],
        address: "127.0.0.1:1".to_owned(),
        state,
        budget_bytes: 0,
        used_bytes: 0,
        class: "avx2".to_owned(),
        arithmetic: "fused".to_owned(),
        left_out: None,
    }
}

/// A worker that answers as ready may be dying; whoever replaces it may be slow. One call sees to all of that.
#[test]
fn what_ends_meanwhile_is_replaced_under_the_same_claim_and_deadline() {
    let temp = tempfile::tempdir().expect("temp dir");
    let dir = LocalCluster::new(&temp.path().join("c")).expect("path");
    let claim = dir.claim(Duration::ZERO).expect("claim");
    identity::make_cluster(dir.paths()).expect("certificates");
    // In place of a daemon, something that lives.
    let program = temp.path().join("daemon");
    std::fs::write(&program, "#!/bin/sh\nexec sleep 600\n").expect("write");
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a script");
    let coordinator = launch(&dir, &program, COORDINATOR, &[]).expect("started");
    let wanted = Wanted {
        nodes: 2,
        memory: None,
        threads: None,
        class: None,
        http_port: None,
        timeout: Duration::from_secs(60),
    };
    let dying: Vec<Started> = missing(&dir, &[], &wanted)
        .expect("names")
        .into_iter()
        .map(|spec| worker(&dir, &program, spec).expect("started"))
        .collect();
    let mut looks = 0;
    let all_ready = || {
        // First w1 and then w2 ends; what stands in for them is ready at once.
        if let Some(next) = dying.get(looks / 2).filter(|_| looks % 2 == 1) {
            next.process.signal(Signal::KILL);
            assert_eq!(process::wait_for_end(&[next.process], Duration::from_secs(10)), []);
        }
        looks += 1;
        let here = dir.started().expect("records").into_iter().filter(|started| started.name != COORDINATOR);
        // The coordinator notices nothing yet: in its eyes everyone is ready but who has just been started.
        let slow = |name: &str| looks < 5 && !["w1", "w2"].contains(&name);
        Some(
            here.map(|s| {
                node(&s.name, s.process.pid, if slow(&s.name) { NodeState::Suspect } else { NodeState::Ready })
            })
            .collect(),
        )
    };
    // Both die while w3 is not ready yet.
    let wanted = Wanted { nodes: 3, ..wanted };
    let give_up = Instant::now() + wanted.timeout;
    let gathered = gather(&dir, &coordinator, &program, &wanted, give_up, all_ready).expect("three workers");
    assert_eq!(gathered.found, Vec::<String>::new());
    assert_eq!(gathered.started, ["w3", "w1", "w2"], "a name whose process is gone comes back");
    assert_eq!(gathered.nodes.len(), 3);
    drop(claim);
    super::super::stop::stop(&dir).expect("everything is stopped");
}

#[test]
fn a_worker_counts_while_its_process_lives_and_it_is_not_leaving() {
    let ours: Vec<(Started, bool)> =
        [("w1", true), ("w2", false), ("w3", true), ("w4", true), ("w5", true), ("w6", true)]
            .map(|(name, lives)| {
                (Started { name: name.to_owned(), process: process::Process { pid: 1, started_at: 1 } }, lives)
            })
            .into();
    let present = [
        node("w1", 1, NodeState::Ready),
        node("w2", 1, NodeState::Ready),
        node("w3", 1, NodeState::Draining),
        node("w5", 2, NodeState::Ready),
        node("w6", 2, NodeState::Gone),
        node("other", 1, NodeState::Suspect),
        node("old", 1, NodeState::Gone),
    ];
    assert_eq!(living(&ours, &present), ["w1", "other", "w4", "w5", "w6"], "w5 and w6 are listed as who they were");
    assert_eq!(living(&ours, &[]), ["w1", "w3", "w4", "w5", "w6"], "a coordinator that has just begun knows nobody");
}
