//! `up`: from nothing, or from what is left, to a coordinator and N live workers.

use std::ffi::OsStr;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;
use shoal_config::Bytes;
use shoal_config::node::{self, Class, NodeSpec};
use shoal_config::spec::Auto;
use shoal_wire::api::{JobState, NodeInfo, NodeState};

use super::dir::{COORDINATOR, LocalCluster, Started};
use super::identity;
use super::process;
use super::stopped::{self, StoppedWorker};
use crate::client::Client;
use crate::failure::Failure;

/// Between two looks at the list of workers.
const LOOK: Duration = Duration::from_millis(30);

/// For a coordinator that was told to stop to end.
const ENDING: Duration = Duration::from_secs(10);

/// What there should be.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Live workers.
    pub nodes: u32,
    /// Arena budget of a worker that is started.
    pub memory: Option<Bytes>,
    /// Compute threads of a worker that is started.
    pub threads: Option<u32>,
    /// What the devices of a worker that is started compute with.
    pub class: Option<Auto<Class>>,
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
/// If the directory is of something else, a stopped worker's node.toml is wrong, a port is taken, a daemon ends or is not ready in time; the end of its log is
/// part of the message.
pub fn raise(dir: &LocalCluster, program: &Path, wanted: &Wanted) -> Result<Raised, Failure> {
    let give_up = Instant::now() + wanted.timeout;
    let _claim = dir.claim(wanted.timeout)?;
    identity::make_cluster(dir.paths())?;
    let client = Client::new(dir.paths().root());
    let coordinator = coordinator(dir, program, wanted.http_port.unwrap_or(0), give_up)?;
    let gathered = gather(dir, &coordinator, program, wanted, give_up, || client.nodes().ok())?;
    let (http, page) = client.addresses()?;
    let settings =
        gathered.found.iter().filter_map(|name| node::read(&dir.paths().node_file(name)).ok()).collect::<Vec<_>>();
    let mut notes = notes(wanted, gathered.found.len(), &settings, &http);
    let names: Vec<String> = gathered.nodes.iter().map(|node| node.node.clone()).collect();
    let jobs = client.jobs()?.into_iter().filter(|job| job.state == JobState::Done).map(|job| job.job).collect();
    let (stopped, broken) = stopped::stopped(dir, &names)?;
    notes.extend(broken.iter().map(|failure| format!("{failure}; a stopped worker that cannot be started so")));
    notes.extend(stopped::left_behind(&stopped, &jobs, names.len()));
    Ok(Raised {
        dir: dir.paths().root().display().to_string(),
        coordinator_pid: coordinator.process.pid,
        notes,
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
        for spec in missing(dir, &live, wanted)? {
            started.push(worker(dir, program, spec)?);
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
            // A name that came back may be listed as the process that had it before.
            let is_earlier = |node: &NodeInfo| started.iter().any(|s| s.name == node.node && s.process.pid != node.pid);
            let is_expected = |node: &NodeInfo| expected.contains(&node.node.as_str()) && !is_earlier(node);
            let nodes: Vec<NodeInfo> = nodes()?.into_iter().filter(is_expected).collect();
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
    if let Some(class) = wanted.class {
        differ("--class", class.to_string(), named(&|spec| spec.class != class));
    }
    if let Some(port) = wanted.http_port.filter(|port| *port != 0 && !http.ends_with(&format!(":{port}"))) {
        notes.push(format!("--http-port {port} is not {http}, where the running coordinator serves; `down` first"));
    }
    notes
}

/// The living respawner, or a new one.
fn coordinator(dir: &LocalCluster, program: &Path, http_port: u16, give_up: Instant) -> Result<Started, Failure> {
    let known = dir.started()?.into_iter().find(|started| started.name == COORDINATOR);
    if let Some(living) = known.filter(|started| started.process.lives()) {
        return Ok(living);
    }
    let_end(dir, give_up.min(Instant::now() + ENDING));
    if http_port != 0 {
        TcpListener::bind(("127.0.0.1", http_port)).map_err(|error| {
            Failure::Usage(format!(
                "port {http_port} cannot be used ({error}); choose another with --http-port, or 0 for any"
            ))
        })?;
    }
    launch(dir, program, COORDINATOR, &["respawn", "--http", &format!("127.0.0.1:{http_port}")])
}

/// Waits for a coordinator whose respawner was killed: it ends by itself, and until then it has the directory and its ports,
/// and answers as if it were the next one. Whoever does not end is the new daemon's to name.
fn let_end(dir: &LocalCluster, until: Instant) {
    let home = dir.paths().coordinator();
    let mut told = false;
    while !stopped::is_free(&home) && Instant::now() < until {
        if !std::mem::replace(&mut told, true) {
            eprintln!("shoalctl: an earlier coordinator still ends in {}; waiting for it", home.display());
        }
        std::thread::sleep(LOOK);
    }
}

/// Who is to be started: stopped workers as they were, then new ones like the newest of the others. What the operator says
/// of memory, threads and class counts for all of them.
fn missing(dir: &LocalCluster, live: &[String], wanted: &Wanted) -> Result<Vec<NodeSpec>, Failure> {
    let count = (wanted.nodes as usize).saturating_sub(live.len());
    if count == 0 {
        return Ok(Vec::new());
    }
    let (stopped, broken) = stopped::stopped(dir, live)?;
    // It may be the one that is wanted: nobody new takes its place unasked.
    if let Some(failure) = broken.into_iter().next() {
        return Err(failure);
    }
    let returning: Vec<NodeSpec> = stopped.into_iter().take(count).map(|StoppedWorker { spec, .. }| spec).collect();
    let living = live.iter().rev().filter_map(|name| node::read(&dir.paths().node_file(name)).ok());
    let like = living.chain(returning.last().cloned()).next();
    let new = dir.fresh_names(count - returning.len()).into_iter().map(|name| NodeSpec {
        name,
        listen: ([127, 0, 0, 1], 0).into(),
        join: None,
        memory: like.as_ref().map_or(node::DEFAULT_MEMORY, |like| like.memory),
        threads: like.as_ref().map_or(1, |like| like.threads),
        class: like.as_ref().map_or(Auto::Auto, |like| like.class),
        // Beside the file, wherever the directory is carried.
        data_dir: "data".into(),
    });
    let mut all: Vec<NodeSpec> = returning.iter().cloned().chain(new).collect();
    for spec in &mut all {
        spec.memory = wanted.memory.unwrap_or(spec.memory);
        spec.threads = wanted.threads.unwrap_or(spec.threads);
        spec.class = wanted.class.unwrap_or(spec.class);
        // It was read as where it lies; written, it goes where the directory goes.
        if let Ok(within) = spec.data_dir.strip_prefix(dir.paths().node(&spec.name)) {
            spec.data_dir = within.to_owned();
        }
    }
    Ok(all)
}

fn worker(dir: &LocalCluster, program: &Path, spec: NodeSpec) -> Result<Started, Failure> {
    let name = spec.name.as_str();
    dir.write_node(&spec)?;
    identity::make_node(dir.paths(), name)?;
    launch(dir, program, name, &["worker", "--name", name])
}

/// A daemon of this directory, with a log by its name: its role, and what goes with it.
fn launch(dir: &LocalCluster, program: &Path, name: &str, role: &[&str]) -> Result<Started, Failure> {
    let (root, log) = (dir.paths().root(), dir.paths().log(name));
    let mut arguments: Vec<&OsStr> = vec!["daemon".as_ref()];
    arguments.extend(role.iter().map(OsStr::new));
    arguments.extend([OsStr::new("--dir"), root.as_ref(), OsStr::new("--log"), log.as_ref()]);
    let process = process::spawn(program, &arguments, &log)?;
    let started = Started { name: name.to_owned(), process };
    dir.record(&started)?;
    Ok(started)
}

/// Workers that count: not leaving, and, if we started them, with a living process. The coordinator may not have noticed a
/// death yet, and one that has just begun does not know the living yet: they are on their way to it.
fn live(dir: &LocalCluster, present: &[NodeInfo]) -> Result<Vec<String>, Failure> {
    let workers = dir.started()?.into_iter().filter(|started| started.name != COORDINATOR);
    let ours: Vec<(Started, bool)> = workers.map(|started| (started.clone(), started.process.lives())).collect();
    Ok(living(&ours, present))
}

/// `ours` are the workers we started last under their names, and whether their process lives.
fn living(ours: &[(Started, bool)], present: &[NodeInfo]) -> Vec<String> {
    let is_process = |ours: &Started, node: &NodeInfo| ours.name == node.node && ours.process.pid == node.pid;
    let is_dead = |node: &NodeInfo| {
        ours.iter().any(|(ours, lives)| ours.name == node.node && !(*lives && is_process(ours, node)))
    };
    let known = present.iter().filter(|node| match node.state {
        NodeState::Ready | NodeState::Suspect => !is_dead(node),
        NodeState::Draining | NodeState::Gone => false,
    });
    let coming = ours.iter().filter(|(ours, lives)| *lives && !present.iter().any(|node| is_process(ours, node)));
    known.map(|node| &node.node).chain(coming.map(|(ours, _)| &ours.name)).cloned().collect()
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
mod tests;
