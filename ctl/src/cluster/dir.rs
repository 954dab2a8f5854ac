//! The directory of a cluster, and who may write into it.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use shoal_config::node::{self, NodeSpec};
pub use shoal_daemon::cluster::{COORDINATOR, ClusterDir};

use super::process::Process;
use crate::failure::Failure;

/// A cluster directory of this machine: what lies where, and the processes that were started here.
#[derive(Clone, Debug)]
pub struct LocalCluster {
    paths: ClusterDir,
}

/// For another command that starts or stops something.
pub const CLAIM: Duration = Duration::from_secs(60);
/// Between two looks at a lock that somebody else holds.
const RETRY: Duration = Duration::from_millis(30);

/// Held while one command starts or stops processes of a cluster.
#[derive(Debug)]
pub struct Claim {
    _file: File,
}

/// A process that `up` started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// Node name, or [`COORDINATOR`].
    pub name: String,
    /// The process.
    #[serde(flatten)]
    pub process: Process,
}

impl LocalCluster {
    /// For the directory that the operator named; nothing is touched yet.
    ///
    /// # Errors
    /// If the working directory is gone.
    pub fn new(root: &Path) -> Result<Self, Failure> {
        let root = std::path::absolute(root).map_err(Failure::file("resolve", root))?;
        Ok(Self { paths: ClusterDir::new(root) })
    }

    /// What lies where in it.
    #[must_use]
    pub fn paths(&self) -> &ClusterDir {
        &self.paths
    }

    /// Whether a cluster lives here.
    #[must_use]
    pub fn is_cluster(&self) -> bool {
        self.paths.ca().join("ca.crt").is_file()
    }

    /// Makes the directory if it is not there, and refuses one that holds something else.
    ///
    /// # Errors
    /// If it is not empty and no cluster, cannot be made, or another command is at work in it for longer than `patience`.
    pub fn claim(&self, patience: Duration) -> Result<Claim, Failure> {
        match fs::read_dir(self.paths.root()) {
            Ok(mut entries) => {
                if !self.is_cluster() && entries.next().is_some() && !self.paths.pids().is_dir() {
                    return Err(Failure::Usage(format!(
                        "{} is not empty and not a cluster directory; name a new or empty one with --dir",
                        self.paths.root().display()
                    )));
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(source) => return Err(Failure::File { action: "read", path: self.paths.root().to_owned(), source }),
        }
        let pids = self.paths.pids();
        fs::create_dir_all(&pids).map_err(Failure::file("create", &pids))?;
        let lock = pids.join("up.lock");
        let file = OpenOptions::new().create(true).append(true).open(&lock).map_err(Failure::file("open", &lock))?;
        let give_up = Instant::now() + patience;
        let mut told = false;
        while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            if Instant::now() >= give_up {
                return Err(Failure::Timeout(format!(
                    "another shoalctl is starting or stopping processes in {} and was waited for {patience:?}; try again \
                     when it is done",
                    self.paths.root().display()
                )));
            }
            if !std::mem::replace(&mut told, true) {
                eprintln!("shoalctl: another shoalctl is at work in {}; waiting for it", self.paths.root().display());
            }
            std::thread::sleep(RETRY);
        }
        Ok(Claim { _file: file })
    }

    /// Everything that `up` started and nobody has taken down, by name; some may have ended since.
    ///
    /// # Errors
    /// If a record cannot be read.
    pub fn started(&self) -> Result<Vec<Started>, Failure> {
        let pids = self.paths.pids();
        let entries = match fs::read_dir(&pids) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(Failure::File { action: "read", path: pids, source }),
        };
        let mut all = Vec::new();
        for entry in entries {
            let path = entry.map_err(Failure::file("read", &pids))?.path();
            if path.extension().is_none_or(|ending| ending != "json") {
                continue;
            }
            let text = fs::read(&path).map_err(Failure::file("read", &path))?;
            let started: Started = serde_json::from_slice(&text).map_err(|error| Failure::File {
                action: "understand",
                path,
                source: error.into(),
            })?;
            all.push(started);
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// Keeps a record, so that `down` finds the process.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn record(&self, started: &Started) -> Result<(), Failure> {
        let path = self.paths.pids().join(format!("{}.json", started.name));
        let aside = path.with_extension("new");
        fs::write(&aside, crate::output::json::line(started)).map_err(Failure::file("write", &aside))?;
        fs::rename(&aside, &path).map_err(Failure::file("write", path))
    }

    /// Drops a record.
    ///
    /// # Errors
    /// If it is there and cannot be removed.
    pub fn forget(&self, name: &str) -> Result<(), Failure> {
        let path = self.paths.pids().join(format!("{name}.json"));
        match fs::remove_file(&path) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(source) => Err(Failure::File { action: "remove", path, source }),
        }
    }

    /// The next `count` names `w1`, `w2`, ... that no worker of this cluster ever had.
    #[must_use]
    pub fn fresh_names(&self, count: usize) -> Vec<String> {
        let used = fs::read_dir(self.paths.nodes())
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix('w')?.parse::<u64>().ok())
            .max()
            .unwrap_or(0);
        (used + 1..).take(count).map(|number| format!("w{number}")).collect()
    }

    /// Writes a worker's `node.toml`.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_node(&self, spec: &NodeSpec) -> Result<(), Failure> {
        let dir = self.paths.node(&spec.name);
        fs::create_dir_all(&dir).map_err(Failure::file("create", &dir))?;
        let path = self.paths.node_file(&spec.name);
        fs::write(&path, node::render(spec)).map_err(Failure::file("write", path))
    }

    /// The end of a log, for an error message.
    #[must_use]
    pub fn log_tail(&self, name: &str) -> String {
        const LINES: usize = 12;
        let path = self.paths.log(name);
        let text = fs::read(&path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        match lines.len().saturating_sub(LINES) {
            0 if lines.is_empty() => format!("{} is empty", path.display()),
            from => format!("the end of {}:\n  {}", path.display(), lines[from..].join("\n  ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_of_something_else_is_refused() {
        let dir = tempfile::tempdir().expect("temp dir");
        fs::write(dir.path().join("thesis.txt"), "precious").expect("write");
        let error = LocalCluster::new(dir.path()).expect("path").claim(Duration::ZERO).expect_err("not a cluster");
        assert_eq!(error.code(), 2);
        assert!(error.to_string().contains("not empty and not a cluster directory"), "{error}");
        assert!(!dir.path().join("pids").exists(), "nothing is touched");
    }

    #[test]
    fn one_command_at_a_time() {
        let dir = tempfile::tempdir().expect("temp dir");
        let cluster = LocalCluster::new(&dir.path().join("new")).expect("path");
        let claim = cluster.claim(Duration::ZERO).expect("first claim");
        assert!(cluster.claim(Duration::ZERO).expect_err("second claim").to_string().contains("another shoalctl"));
        let waiting = std::thread::spawn({
            let cluster = cluster.clone();
            move || cluster.claim(Duration::from_secs(60)).map(drop)
        });
        drop(claim);
        waiting.join().expect("no panic").expect("claim after release");
    }

    #[test]
    fn names_are_never_used_twice() {
        let dir = tempfile::tempdir().expect("temp dir");
        let cluster = LocalCluster::new(dir.path()).expect("path");
        assert_eq!(cluster.fresh_names(2), ["w1", "w2"]);
        fs::create_dir_all(cluster.paths.node("w7")).expect("node dir");
        fs::create_dir_all(cluster.paths.node("big")).expect("node dir");
        assert_eq!(cluster.fresh_names(2), ["w8", "w9"]);
    }

    #[test]
    fn records_come_back_and_can_be_dropped() {
        let dir = tempfile::tempdir().expect("temp dir");
        let cluster = LocalCluster::new(dir.path()).expect("path");
        let _claim = cluster.claim(Duration::ZERO).expect("claim");
        let started = Started { name: "w1".into(), process: Process::this() };
        cluster.record(&started).expect("record");
        assert_eq!(cluster.started().expect("records"), [started]);
        cluster.forget("w1").expect("forget");
        cluster.forget("w1").expect("forget again");
        assert_eq!(cluster.started().expect("records"), []);
    }
}
