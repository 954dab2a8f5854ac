//! A cluster of real processes in a temporary directory.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use serde::de::DeserializeOwned;
use shoal_wire::api::{EventLine, JobStatus, NodeInfo, NodeReport, NodeState, StateDigest};
use tempfile::TempDir;

use crate::{JobFile, wait};

/// Started by `shoalctl up`, ended by `shoalctl down` when dropped.
pub struct Cluster {
    exe: PathBuf,
    dir: TempDir,
    /// Budget of workers that are started.
    memory: String,
}

impl Cluster {
    /// A cluster directory with nothing running, driven by the command line at `exe`.
    ///
    /// # Panics
    /// If there is no temporary directory to be had.
    #[must_use]
    pub fn new(exe: impl Into<PathBuf>) -> Self {
        Self {
            exe: exe.into(),
            dir: TempDir::with_prefix("shoal-test-").expect("temporary directory"),
            memory: "1GiB".to_owned(),
        }
    }

    /// From now on, workers are started with this budget.
    #[must_use]
    pub fn with_memory(mut self, memory: &str) -> Self {
        memory.clone_into(&mut self.memory);
        self
    }

    /// A cluster with `nodes` workers.
    ///
    /// # Panics
    /// If it does not come up.
    #[must_use]
    pub fn up(exe: impl Into<PathBuf>, nodes: usize) -> Self {
        let cluster = Self::new(exe);
        cluster.grow(nodes);
        cluster
    }

    /// Brings the number of live workers to `nodes`.
    ///
    /// # Panics
    /// If it does not.
    pub fn grow(&self, nodes: usize) {
        self.ok(&["up", "--nodes", &nodes.to_string(), "--memory", &self.memory, "--threads", "1"]);
    }

    /// The directory for job files.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Runs a command.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn run(&self, args: &[&str]) -> Output {
        Command::new(&self.exe)
            .args(args)
            .env("SHOAL_DIR", self.dir.path().join("cluster"))
            .env("RUST_BACKTRACE", "0")
            .output()
            .expect("shoalctl starts")
    }

    /// A node that computes a stage of a job: of more nodes than seats, some have none.
    ///
    /// # Panics
    /// If there is none for a minute.
    #[must_use]
    pub fn computing(&self, job: &str) -> String {
        wait::until("a node that computes a stage", Duration::from_secs(60), || {
            let reports: Vec<NodeReport> = self.json(&["report", job]);
            let computes = |report: &NodeReport| report.devices.iter().any(|device| device.parameters > 0);
            reports.into_iter().find(computes).map(|report| report.node)
        })
    }

    /// Runs a command that must succeed; returns its standard output.
    ///
    /// # Panics
    /// If it fails, with all it said.
    pub fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(
            output.status.success(),
            "shoalctl {args:?} ended with {}\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("output is UTF-8")
    }

    /// Runs a command with `--json` that must succeed; returns its document.
    ///
    /// # Panics
    /// If it fails or prints something else.
    pub fn json<T: DeserializeOwned>(&self, args: &[&str]) -> T {
        let text = self.ok(&[args, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("shoalctl {args:?} printed {text}: {e}"))
    }

    /// Live workers.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeInfo> {
        let mut nodes: Vec<NodeInfo> = self.json(&["nodes"]);
        nodes.retain(|n| n.state != NodeState::Gone);
        nodes
    }

    /// Submits a job file; returns the job's id.
    ///
    /// # Panics
    /// If it is refused.
    pub fn submit(&self, job: &Path) -> String {
        let answer: serde_json::Value = self.json(&["submit", job.to_str().expect("UTF-8 path")]);
        answer["job"].as_str().expect("an id").to_owned()
    }

    /// Where a job stands.
    #[must_use]
    pub fn status(&self, job: &str) -> JobStatus {
        self.json(&["status", job])
    }

    /// Waits, e.g. `until = "step=5"`.
    pub fn wait(&self, job: &str, until: &str) {
        // Two cores may be busy with other tests, and whatever hangs has thirty seconds of its own before it is noticed.
        self.ok(&["wait", job, "--until", until, "--timeout", "300s"]);
    }

    /// Digest of the state at `done`.
    pub fn final_digest(&self, job: &str) -> StateDigest {
        self.wait(job, "done");
        self.json(&["digest", job])
    }

    /// Digest that a job ends with: a job file under this name, trained with nobody touching it.
    pub fn undisturbed(&self, file: &JobFile, name: &str) -> String {
        self.final_digest(&self.submit(&file.write(self.path(), name))).state_blake3
    }

    /// Kills the coordinator; back when the next one answers for a job.
    ///
    /// # Panics
    /// If none comes.
    pub fn kill_coordinator(&self, job: &str) {
        self.signal(self.coordinator_pid(), rustix::process::Signal::KILL);
        self.coordinator_answers(job);
    }

    /// Waits for a coordinator that was killed to answer for a job again.
    ///
    /// # Panics
    /// If it does not.
    pub fn coordinator_answers(&self, job: &str) {
        wait::until("the coordinator to answer again", Duration::from_secs(30), || {
            self.run(&["status", job]).status.success().then_some(())
        });
    }

    /// The coordinator's process.
    ///
    /// # Panics
    /// If its pid was not written.
    #[must_use]
    pub fn coordinator_pid(&self) -> u32 {
        let path = self.dir.path().join("cluster/coordinator/lock");
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        text.split_whitespace().next().and_then(|pid| pid.parse().ok()).expect("a pid")
    }

    /// The event log.
    ///
    /// # Panics
    /// If a line is not an event.
    #[must_use]
    pub fn events(&self, job: &str) -> Vec<EventLine> {
        let text = self.ok(&["events", job, "--json"]);
        text.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{l}: {e}"))).collect()
    }

    /// A document of the coordinator's HTTP interface.
    ///
    /// # Panics
    /// If it does not answer with one.
    #[must_use]
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> T {
        let file = self.dir.path().join("cluster/coordinator.addr");
        let address = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let token = std::fs::read_to_string(file.with_extension("token")).expect("the coordinator made a token");
        let text = ureq::get(format!("http://{}{path}", address.trim()))
            .header("authorization", format!("Bearer {}", token.trim()))
            .call()
            .and_then(|mut answer| answer.body_mut().read_to_string())
            .unwrap_or_else(|e| panic!("GET {path}: {e}"));
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("GET {path} gave {text}: {e}"))
    }

    /// Sends a signal to a process that this cluster started.
    ///
    /// # Panics
    /// If there is no such process.
    pub fn signal(&self, pid: u32, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(pid as i32).expect("a pid is not 0");
        rustix::process::kill_process(pid, signal).expect("the process is there");
    }

    /// `kill -9` of the worker at `index` of [`Self::nodes`]; returns its name once the cluster says it is gone.
    pub fn kill(&self, index: usize) -> String {
        let node = self.nodes().swap_remove(index);
        self.signal(node.pid, rustix::process::Signal::KILL);
        wait::until(&format!("{} to be gone", node.node), Duration::from_secs(10), || {
            self.nodes().iter().all(|n| n.node != node.node).then_some(())
        });
        node.node
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let output = self.run(&["down"]);
        if !output.status.success() {
            eprintln!("down: {}", String::from_utf8_lossy(&output.stderr));
        }
        if std::thread::panicking() {
            self.show_logs();
        }
    }
}

impl Cluster {
    /// The ends of all logs, for a failing test.
    fn show_logs(&self) {
        let nodes = self.dir.path().join("cluster/nodes");
        let logs = std::fs::read_dir(nodes).into_iter().flatten().flatten().map(|e| e.path().join("log"));
        for log in logs.chain([self.dir.path().join("cluster/coordinator/log")]) {
            if let Ok(text) = std::fs::read_to_string(&log) {
                let lines: Vec<_> = text.lines().collect();
                eprintln!("--- {}\n{}", log.display(), lines[lines.len().saturating_sub(25)..].join("\n"));
            }
        }
    }
}
