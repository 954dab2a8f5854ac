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
    let claim = dir.claim(wanted.timeout)?;
    identity::make_cluster(dir)?;
    let client = Client::new(dir.root());
    let coordinator = coordinator(dir, program, wanted.http_port.unwrap_or(0))?;
    let present = wait(dir, &[&coordinator], give_up, "the coordinator does not answer", || client.nodes().ok())?;
    let live = live(dir, &present)?;
    let names = dir.fresh_names((wanted.nodes as usize).saturating_sub(live.len()));
    let mut workers = Vec::new();
    for name in &names {
        workers.push(worker(dir, program, name, wanted)?);
    }
    let expected: Vec<&str> = live.iter().map(String::as_str).chain(names.iter().map(String::as_str)).collect();
    let watched: Vec<&Started> = std::iter::once(&coordinator).chain(&workers).collect();
    let what = format!("not all of {} are ready", expected.join(", "));
    let before: Vec<Started> = dir.started()?.into_iter().filter(|started| live.contains(&started.name)).collect();
    let ready = wait(dir, &watched, give_up, &what, || {
        if before.iter().any(|started| !started.process.lives()) {
            return Some(None);
        }
        let nodes: Vec<NodeInfo> =
            client.nodes().ok()?.into_iter().filter(|node| expected.contains(&node.node.as_str())).collect();
        let ready = nodes.iter().filter(|node| node.state == NodeState::Ready).count();
        (ready == expected.len()).then_some(Some(nodes))
    })?;
    let Some(nodes) = ready else {
        // A worker that counted was dying already: now it does not count any more.
        drop(claim);
        let mut again = raise(dir, program, wanted)?;
        again.started.splice(0..0, names);
        return Ok(again);
    };
    let (http, page) = client.addresses()?;
    let settings = live.iter().filter_map(|name| node::read(&dir.node_file(name)).ok()).collect::<Vec<_>>();
    Ok(Raised {
        dir: dir.root().display().to_string(),
        coordinator_pid: coordinator.process.pid,
        notes: notes(wanted, live.len(), &settings, &http),
        http,
        page,
        wanted: wanted.nodes,
        started: names,
        nodes,
    })
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
        dir.root().into(),
        "--http".into(),
        format!("127.0.0.1:{http_port}").into(),
        "--log".into(),
        dir.log(COORDINATOR).into(),
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
    identity::make_node(dir, name)?;
    let arguments = [
        "daemon".into(),
        "worker".into(),
        "--dir".into(),
        dir.root().into(),
        "--name".into(),
        name.into(),
        "--log".into(),
        dir.log(name).into(),
    ];
    launch(dir, program, name, &arguments)
}

fn launch(dir: &LocalCluster, program: &Path, name: &str, arguments: &[OsString]) -> Result<Started, Failure> {
    let process = process::spawn(program, arguments, &dir.log(name))?;
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
