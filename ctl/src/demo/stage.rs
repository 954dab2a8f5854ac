//! A cluster in a temporary directory that never outlives the demonstration.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use shoal_config::Bytes;
use tempfile::TempDir;

use crate::client::Client;
use crate::cluster::{LocalCluster, Raised, Started, Wanted, kill, raise, stop};
use crate::failure::Failure;

/// Arena budget of a worker: the demo's state takes a few MiB of it.
const MEMORY: Bytes = Bytes(512 << 20);
/// For daemons to be ready.
const READY: Duration = Duration::from_secs(30);

/// Temporary directory and cluster.
#[derive(Debug)]
pub struct Stage {
    program: PathBuf,
    nodes: u32,
    /// The cluster's directory.
    pub dir: LocalCluster,
    /// Its coordinator.
    pub client: Client,
    open: bool,
    /// What was started, in case that the directory that says so goes.
    started: RefCell<Vec<Started>>,
    temp: TempDir,
}

impl Stage {
    /// Makes the directory; nothing runs yet.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn open(program: &Path, nodes: u32) -> Result<Self, Failure> {
        let temp = tempfile::Builder::new()
            .prefix("shoal-demo-")
            .tempdir()
            .map_err(Failure::file("create a directory in", std::env::temp_dir()))?;
        let dir = LocalCluster::new(&temp.path().join("cluster"))?;
        let client = Client::new(dir.paths().root());
        Ok(Self { program: program.to_owned(), nodes, dir, client, open: true, started: RefCell::default(), temp })
    }

    /// Puts a file beside the cluster.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, Failure> {
        let path = self.temp.path().join(name);
        std::fs::write(&path, bytes).map_err(Failure::file("write", &path))?;
        Ok(path)
    }

    /// Brings the cluster to its number of live workers.
    ///
    /// # Errors
    /// As [`raise`].
    pub fn raise(&self) -> Result<Raised, Failure> {
        let (nodes, memory) = (self.nodes, Some(MEMORY));
        let wanted = Wanted { nodes, memory, threads: None, class: None, http_port: None, timeout: READY };
        let raised = raise(&self.dir, &self.program, &wanted);
        if let Ok(started) = self.dir.started() {
            *self.started.borrow_mut() = started;
        }
        raised
    }

    /// Stops every process and removes the directory.
    ///
    /// # Errors
    /// If a process does not end.
    pub fn close(&mut self) -> Result<(), Failure> {
        if !std::mem::take(&mut self.open) {
            return Ok(());
        }
        if self.dir.paths().root().exists() {
            stop(&self.dir)?;
        }
        kill(&self.started.borrow())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            eprintln!("shoalctl: {:#}", anyhow::Error::from(error));
        }
    }
}
