use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::transport::instance::Instance;
use crate::transport::watch::{Desk, Probe, Watch, serve};

const DIR: &str = "SHOAL_TEST_CHILD";
const PATIENCE: Duration = Duration::from_millis(300);

/// A worker in a process of its own: says where it listens, lets everyone in, and ends with its stdin.
#[test]
#[ignore = "runs as the child process of other tests"]
fn child() {
    let dir = std::env::var(DIR).expect("run by another test");
    let config = EndpointConfig::new(
        loopback(),
        Identity::load(Path::new(&dir), &Bearer::Worker("node-2".to_owned())).expect("an identity"),
    );
    let (endpoint, mut inbound) = Endpoint::bind(config, Arc::new(NoBulk)).expect("a free port");
    println!("listening {}", endpoint.local_address());
    std::thread::spawn(move || {
        while let Some(event) = inbound.blocking_recv() {
            if let Inbound::Knock(caller) = event
                && let Who::Peer(node) = caller.hello().who
            {
                caller.admit(PeerId::Worker(node), hello(2));
            }
        }
    });
    std::io::stdin().read_line(&mut String::new()).expect("stdin");
}

/// Kills the child when the test is over, however it is over.
struct Process(Child);

impl Process {
    fn start(dir: &Path) -> (Self, SocketAddr) {
        let mut child = Command::new(std::env::current_exe().expect("this test binary"))
            .args(["--exact", "transport::tests::death::child", "--ignored", "--nocapture"])
            .env(DIR, dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child process");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let address = lines
            .map_while(Result::ok)
            .find_map(|line| line.split("listening ").nth(1).and_then(|text| text.trim().parse().ok()))
            .expect("the child says where it listens");
        (Self(child), address)
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.0.id() as i32).expect("a process id");
        kill_process(pid, signal).expect("our own child");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn cluster() -> (ClusterCa, tempfile::TempDir) {
    let ca = ClusterCa::generate().expect("a cluster");
    let dir = tempfile::tempdir().expect("a directory");
    ca.issue("node-2", dir.path(), pki::NODE_VALIDITY).expect("an identity");
    (ca, dir)
}

/// `kill -9` is seen by the death-watch in milliseconds, long before the idle timeout.
#[tokio::test]
async fn a_killed_process_is_seen_in_milliseconds() {
    let (ca, dir) = cluster();
    let mut a = End::new(&ca, 1);
    let mut seen = Vec::new();
    for _ in 0..5 {
        let (process, address) = Process::start(dir.path());
        a.endpoint.connect(callee(2), address, hello(1)).await.expect("a connection");
        assert_eq!(a.up().await, worker(2));
        let killed = Instant::now();
        process.signal(Signal::KILL);
        assert_eq!(a.down().await, DownCause::Died);
        seen.push(killed.elapsed());
    }
    seen.sort_unstable();
    println!("kill -9 seen after {seen:?}");
    assert!(seen[2] < Duration::from_millis(50), "median of {seen:?}");
}

/// A stopped process keeps its sockets, so only silence tells; and it is told as silence.
#[tokio::test]
async fn a_stopped_process_is_seen_by_its_silence() {
    let (ca, dir) = cluster();
    let mut a = End::new(&ca, 1);
    let (process, address) = Process::start(dir.path());
    a.endpoint.connect(callee(2), address, hello(1)).await.expect("a connection");
    assert_eq!(a.up().await, worker(2));
    let stopped = Instant::now();
    process.signal(Signal::STOP);
    assert_eq!(a.down().await, DownCause::Silent);
    let seen = stopped.elapsed();
    println!("SIGSTOP seen after {seen:?}");
    assert!(seen >= Duration::from_millis(700), "{seen:?} is before the idle timeout");
    // The zombie wakes: it may be let in again, if its owner wishes.
    process.signal(Signal::CONT);
    timeout(DEADLINE, async { while a.endpoint.connect(callee(2), address, hello(1)).await.is_err() {} })
        .await
        .expect("it answers again");
    assert_eq!(a.up().await, worker(2));
}

async fn watched(own: Instance, answers: Instance) -> (Result<Watch, Probe>, SocketAddr, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind(loopback()).await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let serving = tokio::spawn(serve(listener, answers, Arc::new(Desk::default())));
    let stream = TcpStream::connect(address).await.expect("it listens");
    (Watch::dial(own, answers, address, stream, PATIENCE).await, address, serving)
}

/// The desk keeps no connection that nobody expects, so this watch is reset again and again; the process lives.
#[tokio::test]
async fn a_reset_watch_is_no_death() {
    let (own, other) = (Instance::draw().expect("randomness"), Instance::draw().expect("randomness"));
    let (watch, _, serving) = watched(own, other).await;
    let mut watch = watch.expect("it answers");
    let early = timeout(Duration::from_millis(200), watch.dead()).await;
    assert!(early.is_err(), "the process answers");
    serving.abort();
    timeout(DEADLINE, watch.dead()).await.expect("refused is dead");
}

#[tokio::test]
async fn another_process_on_the_port_does_not_pass_for_the_dead_one() {
    let draw = || Instance::draw().expect("randomness");
    let (own, first, second) = (draw(), draw(), draw());
    let (watch, address, serving) = watched(own, first).await;
    let mut watch = watch.expect("it answers");
    serving.abort();
    assert!(serving.await.expect_err("aborted").is_cancelled());
    let listener = timeout(DEADLINE, async {
        loop {
            if let Ok(listener) = TcpListener::bind(address).await {
                break listener;
            }
        }
    })
    .await
    .expect("the port is free again");
    tokio::spawn(serve(listener, second, Arc::new(Desk::default())));
    timeout(DEADLINE, watch.dead()).await.expect("another process answers");
    let stream = TcpStream::connect(address).await.expect("it listens");
    let found = Watch::dial(own, first, address, stream, PATIENCE).await;
    assert!(matches!(found, Err(Probe::Dead)), "{found:?}");
}
