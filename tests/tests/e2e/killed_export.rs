//! An export that is killed while it writes, against a coordinator that stops in the middle of an answer.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use shoal_plan::ids::Digest;
use shoal_plan::job::{DataFacts, Job};
use shoal_tests::wait::until;

const LIMIT: Duration = Duration::from_secs(60);

/// What is under a path that has this in it: so many bytes are promised, and these are given.
type Answers = [(&'static str, usize, String); 3];

/// The answer to which does not end.
const STATE: &str = "/state/";

/// Answers to what an export asks, the first that fits.
fn answers() -> Answers {
    let data = DataFacts {
        digest: Digest::default(),
        train_tokens: 1,
        validation_digest: Digest::default(),
        validation_tokens: 0,
        tokenizer: None,
    };
    let job = Job { spec: shoal_config::preset("tiny", Path::new("/text")).expect("a preset"), data, weights: None };
    let job = serde_json::to_string(&job).expect("JSON");
    let written = r#"{"state_blake3":"ab","step":0}"#.to_owned();
    [(STATE, 1 << 30, "x".repeat(1000)), ("/write", written.len(), written), ("/job ", job.len(), job)]
}

/// Answers what an export asks first, and gives the beginning of a state without its end.
fn coordinator(listener: &TcpListener, unfinished: &Sender<TcpStream>) {
    let answers = answers();
    for stream in listener.incoming() {
        let mut stream = stream.expect("a connection");
        let head: Vec<String> = BufReader::new(stream.try_clone().expect("a clone"))
            .lines()
            .map_while(Result::ok)
            .take_while(|line| !line.is_empty())
            .collect();
        let asked = head.first().expect("a request");
        let (path, promised, given) = answers.iter().find(|(path, ..)| asked.contains(path)).expect("an answer");
        let text = format!("HTTP/1.1 200 OK\r\ncontent-length: {promised}\r\n\r\n{given}");
        stream.write_all(text.as_bytes()).expect("it listens");
        if *path == STATE && unfinished.send(stream).is_err() {
            return;
        }
    }
}

/// A process that ends with the test, however that ends.
struct Running(Child);

impl Running {
    fn kill(&mut self) {
        self.0.kill().expect("it is ours");
        self.0.wait().expect("it ends");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn export(at: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shoalctl-under-test"));
    command.args(["export", "j1", "--state"]).arg(at.join("to")).env("SHOAL_DIR", at.join("cluster"));
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// Names that are not those of complete files, and not the lock's.
fn unfinished(at: &Path) -> Vec<String> {
    let entries = fs::read_dir(at.join("to")).into_iter().flatten();
    let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(".part-") && name != ".part-lock").collect()
}

/// An export that has begun a file and gets no further.
fn stuck(at: &Path) -> Running {
    let before = unfinished(at);
    let child = Running(export(at).spawn().expect("shoalctl starts"));
    until("a file that is begun", LIMIT, || unfinished(at).iter().any(|name| !before.contains(name)).then_some(()));
    child
}

#[test]
fn a_killed_export_is_in_nobodys_way_and_a_living_one_is() {
    let dir = tempfile::tempdir().expect("temp dir");
    fs::create_dir(dir.path().join("cluster")).expect("created");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    fs::write(dir.path().join("cluster/coordinator.addr"), &address).expect("written");
    let (sender, held) = channel();
    let server = std::thread::spawn(move || coordinator(&listener, &sender));

    let mut first = stuck(dir.path());
    let Output { status, stderr, .. } = export(dir.path()).output().expect("shoalctl starts");
    let said = String::from_utf8_lossy(&stderr);
    assert!(status.code() == Some(1) && said.contains(&format!("just now (process {})", first.0.id())), "{said}");
    let begun = unfinished(dir.path());
    assert_eq!(begun.len(), 1, "nobody took it away: {begun:?}");

    first.kill();
    assert_eq!(unfinished(dir.path()), begun, "nobody tidies up behind a killed process");
    let mut second = stuck(dir.path());
    let now = unfinished(dir.path());
    assert!(now.len() == 1 && now != begun, "the leftover is gone: {now:?}");
    second.kill();

    // Both of its answers were begun; without anybody to take them, the next one ends the server.
    drop(held);
    let mut last = TcpStream::connect(&address).expect("it listens");
    last.write_all(b"GET /v1/jobs/j1/state/0/0/weight HTTP/1.1\r\n\r\n").expect("it reads");
    server.join().expect("it answered all");
}
