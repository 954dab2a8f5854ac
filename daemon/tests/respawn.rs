//! The respawner with real processes: a coordinator that is killed or stopped comes back where it was, and nothing stays
//! behind.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::fs::inotify;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use shoal_daemon::cluster::{COORDINATOR, ClusterDir};
use shoal_daemon::pki::{ClusterCa, NODE_VALIDITY};
use tempfile::TempDir;

/// Generous: two cores may be busy with other tests.
const DEADLINE: Duration = Duration::from_secs(60);

/// Tells of every file in the cluster directory, or among its process ids, that gets its name or is written into.
struct Names(Receiver<()>);

impl Names {
    fn of(cluster: &ClusterDir) -> Self {
        let watch = inotify::init(inotify::CreateFlags::CLOEXEC).expect("inotify");
        for dir in [cluster.root(), &cluster.pids()] {
            inotify::add_watch(&watch, dir, inotify::WatchFlags::MOVED_TO | inotify::WatchFlags::MODIFY)
                .expect("a directory");
        }
        let (tell, told) = channel();
        std::thread::spawn(move || {
            let mut events = [0; 4096];
            // Ends with the first event after the test does.
            while rustix::io::read(&watch, &mut events).is_ok() && tell.send(()).is_ok() {}
        });
        Self(told)
    }
}

/// A cluster directory with a running respawner, which is killed if a test fails.
struct Cluster {
    dir: TempDir,
    respawner: Child,
    names: Names,
}

impl Cluster {
    fn up() -> Self {
        let dir = tempfile::tempdir().expect("temporary directory");
        let cluster = ClusterDir::new(dir.path());
        let ca = ClusterCa::create(&cluster.ca()).expect("a CA");
        ca.issue(COORDINATOR, &cluster.coordinator(), NODE_VALIDITY).expect("a certificate");
        std::fs::create_dir(cluster.pids()).expect("made");
        let names = Names::of(&cluster);
        let respawner = shoald(dir.path(), "respawn").spawn().expect("starts");
        Self { dir, respawner, names }
    }

    /// The coordinator's process, once it is another one than `than` and answers.
    fn coordinator(&self, than: Option<Pid>) -> Pid {
        let cluster = ClusterDir::new(self.dir.path());
        let look = || {
            let pid = std::fs::read_to_string(cluster.pid(COORDINATOR)).ok()?.trim().parse().ok()?;
            Pid::from_raw(pid).filter(|pid| Some(*pid) != than && self.nodes().is_some())
        };
        let give_up = Instant::now() + DEADLINE;
        loop {
            if let Some(pid) = look() {
                return pid;
            }
            // It writes its process id, then, once it listens, its address.
            let left = give_up.saturating_duration_since(Instant::now());
            self.names.0.recv_timeout(left).expect("another coordinator comes");
        }
    }

    /// Waits until the log says something.
    fn logged(&self, words: &str) {
        let give_up = Instant::now() + DEADLINE;
        while !std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default().contains(words) {
            let left = give_up.saturating_duration_since(Instant::now());
            self.names.0.recv_timeout(left).expect("it is said");
        }
    }

    fn address(&self) -> Option<String> {
        Some(std::fs::read_to_string(ClusterDir::new(self.dir.path()).http_address()).ok()?.trim().to_owned())
    }

    /// Body of `GET /v1/nodes`.
    fn nodes(&self) -> Option<String> {
        let mut stream = TcpStream::connect(self.address()?).ok()?;
        stream.set_read_timeout(Some(DEADLINE)).ok()?;
        let token = std::fs::read_to_string(ClusterDir::new(self.dir.path()).token()).ok()?;
        let request = "GET /v1/nodes HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\nauthorization: Bearer ";
        stream.write_all(format!("{request}{}\r\n\r\n", token.trim()).as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.starts_with("HTTP/1.1 200").then(|| answer.rsplit("\r\n\r\n").next().unwrap_or_default().to_owned())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The coordinator follows its parent.
        let _ = self.respawner.kill();
        let _ = self.respawner.wait();
    }
}

fn shoald(dir: &Path, role: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shoald"));
    command.args([role, "--dir"]).arg(dir).arg("--log").arg(dir.join("log"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Stops a process, and returns when its last thread has stopped: until then one may still see its parent die.
fn stop(pid: Pid) {
    kill_process(pid, Signal::STOP).expect("it lives");
    let is_stopped = |task: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('T')
    };
    let give_up = Instant::now() + DEADLINE;
    let tasks = format!("/proc/{}/task", pid.as_raw_nonzero());
    while !std::fs::read_dir(&tasks).expect("it lives").flatten().all(is_stopped) {
        assert!(Instant::now() < give_up, "it stops");
        std::thread::yield_now();
    }
}

fn is_alive(pid: Pid) -> bool {
    // One that only waits to be collected by its parent is not.
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    test_kill_process(pid).is_ok() && !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z')
}

#[test]
fn a_coordinator_that_is_killed_or_stopped_comes_back_where_it_was() {
    let mut cluster = Cluster::up();
    let first = cluster.coordinator(None);
    let address = cluster.address();
    assert_eq!(cluster.nodes().as_deref(), Some("[]"));

    kill_process(first, Signal::KILL).expect("it lives");
    let second = cluster.coordinator(Some(first));
    assert_eq!(cluster.address(), address, "clients find it again");

    kill_process(second, Signal::STOP).expect("it lives");
    let third = cluster.coordinator(Some(second));
    assert!(!is_alive(second), "a stopped one is killed");
    assert_eq!(cluster.address(), address);

    for (role, whose) in [("respawn", cluster.respawner.id()), ("coordinator", third.as_raw_nonzero().get() as u32)] {
        let said = refused(&shoald(cluster.dir.path(), role).output().expect("runs"));
        assert!(said.contains(&format!("in use by another daemon (process {whose})")), "{role}: {said}");
    }
    assert!(is_alive(third) && cluster.nodes().is_some(), "nothing is harmed by that");

    kill_process(Pid::from_child(&cluster.respawner), Signal::TERM).expect("it lives");
    let status = cluster.respawner.wait().expect("it ends");
    assert!(status.success() && !is_alive(third), "{status}");
    assert_eq!(std::fs::read_dir(cluster.dir.path().join("pids")).expect("listed").count(), 0, "no pid file stays");
}

#[test]
fn a_coordinator_does_not_outlive_its_respawner() {
    let mut cluster = Cluster::up();
    cluster.coordinator(None);
    let lock = std::fs::File::open(ClusterDir::new(cluster.dir.path()).coordinator().join("lock")).expect("there");
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive)
        .expect_err("it is the coordinator's");
    cluster.respawner.kill().expect("it lives");
    cluster.respawner.wait().expect("it ends");
    let (tell, told) = channel();
    std::thread::spawn(move || {
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("somebody's at last");
        // An error means that nobody waits any more.
        let _ = tell.send(());
    });
    told.recv_timeout(DEADLINE).expect("the coordinator, which holds the lock, ends");
}

/// The orphan is stopped, so that it is still there when the next respawner comes; one that runs has all but ended by then.
#[test]
fn a_respawner_that_follows_a_killed_one_waits_for_the_coordinator_that_is_left() {
    let mut cluster = Cluster::up();
    let first = cluster.coordinator(None);
    // Stopped too, or it would kill the coordinator that is.
    stop(Pid::from_child(&cluster.respawner));
    stop(first);
    cluster.respawner.kill().expect("it lives");
    cluster.respawner.wait().expect("it ends");
    cluster.respawner = shoald(cluster.dir.path(), "respawn").spawn().expect("starts");
    cluster.logged("in use by a process that is ending");
    assert!(is_alive(first));
    kill_process(first, Signal::CONT).expect("it lives");
    let second = cluster.coordinator(Some(first));
    assert!(is_alive(second) && cluster.respawner.try_wait().expect("looked at").is_none());
}

#[test]
fn a_directory_that_is_no_cluster_and_a_taken_port_are_refused() {
    let empty = tempfile::tempdir().expect("temporary directory");
    let said = refused(&shoald(empty.path(), "coordinator").output().expect("runs"));
    assert!(said.contains("is not a cluster directory (ca/ is missing)"), "{said}");
    let said = refused(&shoald(&empty.path().join("nowhere"), "coordinator").output().expect("runs"));
    assert!(said.contains("nowhere is not a cluster directory"), "{said}");

    let cluster = Cluster::up();
    cluster.coordinator(None);
    let taken = cluster.address().expect("it serves");
    let other = tempfile::tempdir().expect("temporary directory");
    let ours = ClusterDir::new(other.path());
    let ca = ClusterCa::create(&ours.ca()).expect("a CA");
    ca.issue(COORDINATOR, &ours.coordinator(), NODE_VALIDITY).expect("a certificate");
    let said = refused(&shoald(other.path(), "coordinator").args(["--http", &taken]).output().expect("runs"));
    assert!(said.contains(&format!("cannot listen on {taken} for HTTP")), "{said}");
    let said = refused(&shoald(other.path(), "respawn").args(["--http", &taken]).output().expect("runs"));
    assert!(said.contains("for HTTP") && said.contains("did not start"), "a respawner says so and ends: {said}");
    let transport = std::fs::read_to_string(ClusterDir::new(cluster.dir.path()).join_address()).expect("written");
    let said =
        refused(&shoald(other.path(), "coordinator").args(["--listen", transport.trim()]).output().expect("runs"));
    assert!(said.contains("cannot listen on"), "{said}");
}
