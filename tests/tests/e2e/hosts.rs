//! Daemons that share no directory, on addresses of their own: what docs/several-machines.md says.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use shoal_tests::{Cluster, JobFile, wait};
use shoal_wire::api::NodeState;

/// A daemon that ends with the test.
struct Daemon(Child);

impl Daemon {
    fn start(dir: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shoalctl-under-test"));
        command.args(["daemon", arguments[0], "--dir"]).arg(dir).args(&arguments[1..]).env_remove("SHOAL_DIR");
        Self(command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("a daemon starts"))
    }
}

impl Daemon {
    /// It ends by itself.
    fn ends(&mut self) {
        wait::until("a daemon that was told to stop", Duration::from_secs(30), || self.0.try_wait().expect("a child"));
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It fails only if it is gone.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn workers_with_directories_and_addresses_of_their_own_train_together() {
    let cluster = Cluster::new(env!("CARGO_BIN_EXE_shoalctl-under-test"));
    cluster.ok(&["init", "--node", "m2", "--node", "m3"]);
    let home = cluster.path().join("cluster");
    let hosts = [("m2", Ipv4Addr::new(127, 0, 0, 2)), ("m3", Ipv4Addr::new(127, 0, 0, 3))];
    let mut coordinator = Daemon::start(&home, &["coordinator", "--listen", "127.0.0.1:0"]);
    // A port that was free a moment ago may be somebody else's by now, so it takes its own and says which.
    let join = wait::until("the coordinator's address", Duration::from_secs(60), || {
        let said = fs::read_to_string(home.join("coordinator/transport.addr")).ok()?;
        said.trim().parse::<SocketAddr>().ok()
    });
    let join = join.to_string();
    let mut workers = hosts.map(|(name, address)| {
        let dir = cluster.path().join(format!("machine-{name}"));
        fs::create_dir_all(dir.join("nodes")).expect("made");
        fs::rename(home.join("nodes").join(name), dir.join("nodes").join(name)).expect("carried");
        Daemon::start(&dir, &["worker", "--name", name, "--listen", &format!("{address}:0"), "--join", &join])
    });
    wait::until("both workers", Duration::from_secs(60), || {
        let output = cluster.run(&["nodes", "--json"]);
        let nodes: Vec<shoal_wire::api::NodeInfo> = serde_json::from_slice(&output.stdout).ok()?;
        (nodes.iter().filter(|node| node.state == NodeState::Ready).count() == 2).then_some(())
    });
    let file = JobFile { pipeline: 2, data: 1, ..JobFile::default() };
    let job = cluster.submit(&file.write(cluster.path(), "apart"));
    cluster.wait(&job, "done");
    for (name, _) in hosts {
        let written = cluster.path().join(format!("machine-{name}/nodes/{name}/data/jobs"));
        assert!(written.is_dir(), "{name} writes beside its own file");
        assert!(!home.join("nodes").join(name).exists(), "nothing is put where the authority is");
    }
    // From wherever a copy of the address and the token lies.
    let copy = tempfile::tempdir().expect("temp dir");
    for name in ["coordinator.addr", "coordinator.token"] {
        fs::copy(home.join(name), copy.path().join(name)).expect("copied");
    }
    let said = cluster.ok(&["--dir", &copy.path().display().to_string(), "down"]);
    assert!(said.contains("stopped coordinator"), "{said}");
    coordinator.ends();
    workers.iter_mut().for_each(Daemon::ends);
}

#[test]
fn down_ends_a_coordinator_that_was_started_by_hand() {
    let cluster = Cluster::new(env!("CARGO_BIN_EXE_shoalctl-under-test"));
    cluster.ok(&["init"]);
    assert!(cluster.ok(&["down"]).contains("nothing was running"));
    let home = cluster.path().join("cluster");
    let mut coordinator = Daemon::start(&home, &["coordinator", "--listen", "127.0.0.1:0"]);
    wait::until("an answer", Duration::from_secs(60), || cluster.run(&["nodes"]).status.success().then_some(()));
    let said = cluster.ok(&["down"]);
    assert!(said.contains("stopped coordinator"), "{said}");
    coordinator.ends();
}
