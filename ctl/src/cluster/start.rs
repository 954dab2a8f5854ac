//! `up`: from nothing, or from what is left, to a coordinator and N live workers.

use std::ffi::OsString;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;
use shoal_config::Bytes;
use shoal_config::node::{self, NodeSpec};
use shoal_wire::api::{NodeInfo, NodeState};

use super::dir::{COORDINATOR, LocalCluster, Started};
use super::identity;
use super::process;
use crate::client::Client;
use crate::failure::Failure;

/// Between two looks at the list of workers.
const LOOK: Duration = Duration::from_millis(30);

/// What there should be.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Live workers.
    pub nodes: u32,
    /// Arena budget of a worker that is started.
    pub memory: Option<Bytes>,
    /// Compute threads of a worker that is started.
    pub threads: Option<u32>,
    /// HTTP port of a coordinator that is started, 0 for any.
    pub http_port: Option<u16>,
    /// Deadline for everything.
    pub timeout: Duration,
}

/// What there is now.
#[derive(Clone, Debug, Serialize)]
pub struct Raised {
    /// Cluster directory.
    pub dir: String,
    /// The respawner that keeps a coordinator alive.
    pub coordinator_pid: u32,
    /// Address of the HTTP interface.
    pub http: String,
    /// Address of the page for people.
    pub page: String,
    /// Live workers asked for.
    pub wanted: u32,
    /// Workers started by this call.
    pub started: Vec<String>,
    /// What was asked for and not done, and why.
    pub notes: Vec<String>,
    /// All live workers.
    pub nodes: Vec<NodeInfo>,
}

/// Brings a local cluster to what is wanted, with `program` as the daemons' executable. Live workers are never harmed:
/// if there are more than wanted, they stay.
///
/// # Errors
/// If the directory is of something else, a port is taken, a daemon ends or is not ready in time; the end of its log is
/// part of the message.
pub fn raise(dir: &LocalCluster, program: &Path, wanted: &Wanted) -> Result<Raised, Failure> {
    let give_up = Instant::now() + wanted.timeout;
    let _claim = dir.claim(wanted.timeout)?;
    identity::make_cluster(dir.paths())?;
    let client = Client::new(dir.paths().root());
    let coordinator = coordinator(dir, program, wanted.http_port.unwrap_or(0))?;
    let gathered = gather(dir, &coordinator, program, wanted, give_up, || client.nodes().ok())?;
    let (http, page) = client.addresses()?;
    let settings =
        gathered.found.iter().filter_map(|name| node::read(&dir.paths().node_file(name)).ok()).collect::<Vec<_>>();
    Ok(Raised {
        dir: dir.paths().root().display().to_string(),
        coordinator_pid: coordinator.process.pid,
        notes: notes(wanted, gathered.found.len(), &settings, &http),
        http,
        page,
        wanted: wanted.nodes,
        started: gathered.started,
        nodes: gathered.nodes,
    })
}

/// Enough workers, all ready.
#[derive(Debug, PartialEq)]
struct Gathered {
    /// Names of those that ran already.
    found: Vec<String>,
    /// Names of those that were started.
    started: Vec<String>,
    /// All of them.
    nodes: Vec<NodeInfo>,
}

/// Starts as many workers as are missing and waits until all are ready. One that ran already and ends meanwhile (it was
/// dying when it was counted) is replaced; one that was started here and ends is an error, so nothing is started for ever.
fn gather(
    dir: &LocalCluster,
    coordinator: &Started,
    program: &Path,
    wanted: &Wanted,
    give_up: Instant,
    mut nodes: impl FnMut() -> Option<Vec<NodeInfo>>,
) -> Result<Gathered, Failure> {
    let mut started: Vec<Started> = Vec::new();
    loop {
        let watched: Vec<&Started> = std::iter::once(coordinator).chain(&started).collect();
        let present = wait(dir, &watched, give_up, "the coordinator does not answer", &mut nodes)?;
        let live = live(dir, &present)?;
        for name in dir.fresh_names((wanted.nodes as usize).saturating_sub(live.len())) {
            started.push(worker(dir, program, &name, wanted)?);
        }
        let names: Vec<String> = started.iter().map(|started| started.name.clone()).collect();
        let found: Vec<String> = live.into_iter().filter(|name| !names.contains(name)).collect();
        let before: Vec<Started> = dir.started()?.into_iter().filter(|started| found.contains(&started.name)).collect();
        let expected: Vec<&str> = found.iter().chain(&names).map(String::as_str).collect();
        let watched: Vec<&Started> = std::iter::once(coordinator).chain(&started).collect();
        let what = format!("not all of {} are ready", expected.join(", "));
        let ready = wait(dir, &watched, give_up, &what, || {
            if before.iter().any(|started| !started.process.lives()) {
                return Some(None);
            }
            let nodes: Vec<NodeInfo> =
                nodes()?.into_iter().filter(|node| expected.contains(&node.node.as_str())).collect();
            let ready = nodes.iter().filter(|node| node.state == NodeState::Ready).count();
            (ready == expected.len()).then_some(Some(nodes))
        })?;
        if let Some(nodes) = ready {
            return Ok(Gathered { found, started: names, nodes });
        }
    }
}

/// What of `wanted` is not so, because what runs is left alone.
fn notes(wanted: &Wanted, running: usize, settings: &[NodeSpec], http: &str) -> Vec<String> {
    let mut notes = Vec::new();
    let asked = wanted.nodes as usize;
    if running > asked {
        notes.push(format!(
            "{running} workers run and {asked} were asked for: none was stopped; `shoalctl drain NODE` or `down` stops them"
        ));
    }
    let mut differ = |option: &str, asked: String, names: Vec<&str>| {
        if !names.is_empty() {
            let names = names.join(", ");
            notes
                .push(format!("{option} {asked} is not what {names} run with: it counts for workers that are started"));
        }
    };
    let named = |other: &dyn Fn(&NodeSpec) -> bool| {
        settings.iter().filter(|spec| other(spec)).map(|spec| spec.name.as_str()).collect()
    };
    if let Some(memory) = wanted.memory {
        differ("--memory", memory.exact(), named(&|spec| spec.memory != memory));
    }
    if let Some(threads) = wanted.threads {
        differ("--threads", threads.to_string(), named(&|spec| spec.threads != threads));
    }
    if let Some(port) = wanted.http_port.filter(|port| *port != 0 && !http.ends_with(&format!(":{port}"))) {
        notes.push(format!("--http-port {port} is not {http}, where the running coordinator serves; `down` first"));
    }
    notes
}

/// The living respawner, or a new one.
fn coordinator(dir: &LocalCluster, program: &Path, http_port: u16) -> Result<Started, Failure> {
    let known = dir.started()?.into_iter().find(|started| started.name == COORDINATOR);
    if let Some(living) = known.filter(|started| started.process.lives()) {
        return Ok(living);
    }
    if http_port != 0 {
        TcpListener::bind(("127.0.0.1", http_port)).map_err(|error| {
            Failure::Usage(format!(
                "port {http_port} cannot be used ({error}); choose another with --http-port, or 0 for any"
            ))
        })?;
    }
    let arguments = [
        "daemon".into(),
        "respawn".into(),
        "--dir".into(),
        dir.paths().root().into(),
        "--http".into(),
        format!("127.0.0.1:{http_port}").into(),
        "--log".into(),
        dir.paths().log(COORDINATOR).into(),
    ];
    launch(dir, program, COORDINATOR, &arguments)
}

fn worker(dir: &LocalCluster, program: &Path, name: &str, wanted: &Wanted) -> Result<Started, Failure> {
    dir.write_node(&NodeSpec {
        name: name.to_owned(),
        listen: ([127, 0, 0, 1], 0).into(),
        join: None,
        memory: wanted.memory.unwrap_or(node::DEFAULT_MEMORY),
        threads: wanted.threads.unwrap_or(1),
        // Beside the file, wherever the directory is carried.
        data_dir: "data".into(),
    })?;
    identity::make_node(dir.paths(), name)?;
    let arguments = [
        "daemon".into(),
        "worker".into(),
        "--dir".into(),
        dir.paths().root().into(),
        "--name".into(),
        name.into(),
        "--log".into(),
        dir.paths().log(name).into(),
    ];
    launch(dir, program, name, &arguments)
}

fn launch(dir: &LocalCluster, program: &Path, name: &str, arguments: &[OsString]) -> Result<Started, Failure> {
    let process = process::spawn(program, arguments, &dir.paths().log(name))?;
    let started = Started { name: name.to_owned(), process };
    dir.record(&started)?;
    Ok(started)
}

/// Workers that count: not leaving, and, if we started them, with a living process. The coordinator may not have noticed a
/// death yet, and one that has just begun does not know the living yet: they are on their way to it.
fn live(dir: &LocalCluster, present: &[NodeInfo]) -> Result<Vec<String>, Failure> {
    let workers = dir.started()?.into_iter().filter(|started| started.name != COORDINATOR);
    let ours: Vec<(String, bool)> = workers.map(|started| (started.name, started.process.lives())).collect();
    Ok(living(&ours, present))
}

/// `ours` are the workers we started, and whether their process lives.
fn living(ours: &[(String, bool)], present: &[NodeInfo]) -> Vec<String> {
    let is_dead = |name: &str| ours.iter().any(|(ours, lives)| ours == name && !lives);
    let known = present.iter().filter(|node| match node.state {
        NodeState::Ready | NodeState::Suspect => !is_dead(&node.node),
        NodeState::Draining | NodeState::Gone => false,
    });
    let coming = ours.iter().filter(|(name, lives)| *lives && present.iter().all(|node| node.node != *name));
    known.map(|node| &node.node).chain(coming.map(|(name, _)| name)).cloned().collect()
}

/// Asks until there is an answer, the deadline passes, or one of `watched` ends.
fn wait<T>(
    dir: &LocalCluster,
    watched: &[&Started],
    give_up: Instant,
    what: &str,
    mut ask: impl FnMut() -> Option<T>,
) -> Result<T, Failure> {
    loop {
        if let Some(answer) = ask() {
            return Ok(answer);
        }
        if let Some(ended) = watched.iter().find(|started| !started.process.lives()) {
            return Err(Failure::No(format!("{} ended while starting; {}", ended.name, dir.log_tail(&ended.name))));
        }
        if Instant::now() >= give_up {
            let name = watched.last().map_or(COORDINATOR, |started| started.name.as_str());
            return Err(Failure::Timeout(format!("{what} within the time given; {}", dir.log_tail(name))));
        }
        std::thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
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
            data_dir: "/data".into(),
        };
        let settings = [spec("w1", Bytes(2 << 30), 1), spec("w2", Bytes(1 << 30), 1)];
        let silent = Wanted { nodes: 2, memory: None, threads: None, http_port: None, timeout: LOOK };
        assert_eq!(notes(&silent, 2, &settings, "http://127.0.0.1:80"), Vec::<String>::new());
        let as_it_is = Wanted { threads: Some(1), http_port: Some(80), ..silent };
        assert_eq!(notes(&as_it_is, 2, &settings, "http://127.0.0.1:80"), Vec::<String>::new());
        let other = Wanted { nodes: 1, memory: Some(Bytes(1 << 30)), threads: Some(3), http_port: Some(81), ..silent };
        let said = notes(&other, 2, &settings, "http://127.0.0.1:80");
        for (note, words) in said.iter().zip([
            "2 workers run and 1 were asked for: none was stopped",
            "--memory 1GiB is not what w1 run with",
            "--threads 3 is not what w1, w2 run with",
            "--http-port 81 is not http://127.0.0.1:80",
        ]) {
            assert!(note.starts_with(words), "{note}");
        }
        assert_eq!(said.len(), 4);
    }

    fn node(name: &str, state: NodeState) -> NodeInfo {
        NodeInfo {
            node: name.to_owned(),
            id: String::new(),
            pid: 1,
            role: vec!["worker".to_owned()],
            address: "127.0.0.1:1".to_owned(),
            state,
            budget_bytes: 0,
            used_bytes: 0,
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
        let wanted =
            Wanted { nodes: 2, memory: None, threads: None, http_port: None, timeout: Duration::from_secs(60) };
        let dying: Vec<Started> =
            ["w1", "w2"].iter().map(|name| worker(&dir, &program, name, &wanted).expect("started")).collect();
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
                here.map(|s| node(&s.name, if slow(&s.name) { NodeState::Suspect } else { NodeState::Ready }))
                    .collect(),
            )
        };
        // Both die while w3 is not ready yet.
        let wanted = Wanted { nodes: 3, ..wanted };
        let give_up = Instant::now() + wanted.timeout;
        let gathered = gather(&dir, &coordinator, &program, &wanted, give_up, all_ready).expect("three workers");
        assert_eq!(gathered.found, Vec::<String>::new());
        assert_eq!(gathered.started, ["w3", "w4", "w5"]);
        assert_eq!(gathered.nodes.len(), 3);
        drop(claim);
        super::super::stop::stop(&dir).expect("everything is stopped");
    }

    #[test]
    fn a_worker_counts_while_its_process_lives_and_it_is_not_leaving() {
        let ours: Vec<(String, bool)> = [("w1", true), ("w2", false), ("w3", true), ("w4", true)]
            .map(|(name, lives)| (name.to_owned(), lives))
            .into();
        let present = [
            node("w1", NodeState::Ready),
            node("w2", NodeState::Ready),
            node("w3", NodeState::Draining),
            node("other", NodeState::Suspect),
            node("old", NodeState::Gone),
        ];
        assert_eq!(living(&ours, &present), ["w1", "other", "w4"]);
        assert_eq!(living(&ours, &[]), ["w1", "w3", "w4"], "a coordinator that has just begun knows nobody");
    }
}
