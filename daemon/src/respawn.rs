//! The coordinator's parent: starts it, and starts it again when it dies or is stopped.
//!
//! The child is this executable with the same arguments and one environment variable more. It ends with the parent: on the
//! parent's SIGTERM it is told to stop; when it ends in peace, so does the parent; and when the parent is killed, the
//! system tells the child to stop.

use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getppid, kill_process, set_parent_process_death_signal, waitpid,
};

use crate::cluster::ClusterDir;
use crate::files::PidFile;
use crate::lock::DirLock;
use crate::process::RESPAWNED;
use crate::run::DaemonError;
use crate::signals;

/// How often the child is looked at besides when the system says that it changed.
const LOOK: Duration = Duration::from_millis(100);
/// First and longest pause before a start that follows a quick death.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(5));
/// A child that lived so long starts again at once.
const SETTLED: Duration = Duration::from_secs(5);
/// How long a child may take to end after being told to.
const GRACE: Duration = Duration::from_secs(5);

/// The respawner whose child this process is, if it is one.
pub(crate) fn parent() -> Option<Pid> {
    let pid = std::env::var(RESPAWNED).ok()?;
    Pid::from_raw(pid.parse().ok()?)
}

/// In the child: be told to stop when the parent is gone. False if it is gone already.
pub(crate) fn follow(parent: Pid) -> Result<bool, DaemonError> {
    let what = "to say when the parent process ends";
    set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(|errno| DaemonError::System { what, source: errno.into() })?;
    Ok(getppid() == Some(parent))
}

/// What became of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It ended in peace.
    Ended,
    /// It ended by itself and said that something was wrong.
    Failed,
    /// It was killed, by someone else or (after it was stopped) from here.
    Died,
}

/// Keeps a coordinator running until it ends in peace or this process is told to stop.
pub(crate) fn run(cluster: &ClusterDir) -> Result<(), DaemonError> {
    let _lock = DirLock::take(&cluster.root().join("respawner"))?;
    let _pid = PidFile::write(cluster.pid("respawner"))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| DaemonError::System { what: "a runtime", source })?;
    runtime.block_on(watch_over(cluster))
}

async fn watch_over(cluster: &ClusterDir) -> Result<(), DaemonError> {
    let mut stop = signals::stop()?;
    let mut pause = PAUSE.0;
    for starts in 1u64.. {
        let (born, before) = (Instant::now(), serving(cluster));
        let mut child = start()?;
        tracing::info!(pid = child.id(), "coordinator started");
        tokio::select! {
            fate = fate(&mut child) => match fate {
                Fate::Ended => return Ok(()),
                // What keeps the first one from starting keeps the next one from it too: a taken port, a bad certificate.
                Fate::Failed if starts == 1 && serving(cluster) == before => return Err(DaemonError::FirstStart),
                Fate::Failed | Fate::Died => {}
            },
            _ = stop.recv() => {
                end(&mut child).await;
                return Ok(());
            }
        }
        pause = if born.elapsed() >= SETTLED { PAUSE.0 } else { (pause * 2).min(PAUSE.1) };
        tracing::warn!(pid = child.id(), pause_ms = pause.as_millis() as u64, "coordinator died, starts again");
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = stop.recv() => return Ok(()),
        }
    }
    Ok(())
}

/// Which file names the HTTP address: a coordinator that comes up puts a new one there.
fn serving(cluster: &ClusterDir) -> Option<(u64, i64, i64)> {
    let meta = std::fs::metadata(cluster.http_address()).ok()?;
    Some((meta.ino(), meta.ctime(), meta.ctime_nsec()))
}

fn start() -> Result<Child, DaemonError> {
    let exe = std::env::current_exe().map_err(|source| DaemonError::System { what: "its own path", source })?;
    Command::new(exe)
        .args(std::env::args_os().skip(1))
        .env(RESPAWNED, std::process::id().to_string())
        .spawn()
        .map_err(|source| DaemonError::System { what: "a child process", source })
}

/// Returns when the child has ended. One that is stopped (SIGSTOP) is as good as dead and is killed.
async fn fate(child: &mut Child) -> Fate {
    let mut look = tokio::time::interval(LOOK);
    loop {
        look.tick().await;
        match look_at(child) {
            None => {}
            Some(status) if status.stopped() => {
                tracing::warn!(pid = child.id(), "coordinator was stopped, it is killed");
                // It fails only if the child is gone.
                let _ = child.kill();
            }
            Some(status) if status.exit_status() == Some(0) => return Fate::Ended,
            Some(status) if status.exit_status().is_some() => return Fate::Failed,
            Some(_) => return Fate::Died,
        }
    }
}

/// What happened to the child since the last look, if anything.
fn look_at(child: &Child) -> Option<WaitStatus> {
    let pid = Pid::from_raw(child.id() as i32);
    match waitpid(pid, WaitOptions::NOHANG | WaitOptions::UNTRACED) {
        Ok(found) => found.map(|(_, status)| status),
        Err(error) => {
            tracing::error!(%error, pid = child.id(), "the child cannot be watched");
            None
        }
    }
}

/// Tells the child to stop, and kills it if it does not.
async fn end(child: &mut Child) {
    if let Some(pid) = Pid::from_raw(child.id() as i32) {
        // It fails only if the child is gone.
        let _ = kill_process(pid, Signal::TERM);
    }
    if tokio::time::timeout(GRACE, fate(child)).await.is_err() {
        tracing::warn!(pid = child.id(), "coordinator did not stop in time, it is killed");
        let _ = child.kill();
        let _ = child.wait();
    }
}
