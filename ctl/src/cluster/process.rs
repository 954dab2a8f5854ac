//! Processes by number and start time, so that a number that was given to somebody else is never signalled.
//!
//! CT-4 (a running process is listed in /proc): a system without /proc is none that this runs on.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use shoal_daemon::process::stat;

use crate::failure::Failure;

/// One process, for as long as it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// When it began, in clock ticks since the machine started.
    pub started_at: u64,
}

impl Process {
    /// The process with this number now, if it lives.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        stat(pid).filter(|stat| stat.lives).map(|stat| Self { pid, started_at: stat.started_at })
    }

    /// The calling process.
    ///
    /// # Panics
    /// If the system does not list it.
    #[must_use]
    pub fn this() -> Self {
        Self::of(std::process::id()).expect("CT-4 (a running process is listed in /proc)")
    }

    /// Whether it still lives; a process that only waits to be collected by its parent does not.
    #[must_use]
    pub fn lives(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// Living processes that it started.
    #[must_use]
    pub fn children(self) -> Vec<Self> {
        let pids = fs::read_dir("/proc").into_iter().flatten();
        pids.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter(|pid| stat(*pid).is_some_and(|stat| stat.parent == self.pid))
            .filter_map(Self::of)
            .collect()
    }

    /// Sends a signal, unless the process is gone.
    pub fn signal(self, signal: Signal) {
        if self.lives()
            && let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw)
        {
            // It may end between the check and the signal; then there is nothing left to do.
            let _ = kill_process(pid, signal);
        }
    }
}

/// Waits until none of `processes` lives; gives back those that still do at the deadline.
#[must_use]
pub fn wait_for_end(processes: &[Process], deadline: Duration) -> Vec<Process> {
    let give_up = Instant::now() + deadline;
    loop {
        let living: Vec<Process> = processes.iter().copied().filter(|process| process.lives()).collect();
        if living.is_empty() || Instant::now() >= give_up {
            return living;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Starts a program in a process group of its own (a Ctrl-C at the terminal is not for it), with its output in `log`.
///
/// # Errors
/// If the log cannot be opened or the program not started.
pub fn spawn(program: &Path, arguments: &[&OsStr], log: &Path) -> Result<Process, Failure> {
    let file = OpenOptions::new().create(true).append(true).open(log).map_err(Failure::file("open", log))?;
    let copy = file.try_clone().map_err(Failure::file("open", log))?;
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(copy)
        .process_group(0)
        .spawn()
        .map_err(Failure::file("start", program))?;
    // A process that ended at once has no start time any more; it reads as one that does not live.
    Ok(Process::of(child.id()).unwrap_or(Process { pid: child.id(), started_at: 0 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper(log: &Path) -> Process {
        spawn(Path::new("/bin/sh"), &["-c".as_ref(), "echo up; exec sleep 60".as_ref()], log).expect("start a shell")
    }

    #[test]
    fn a_process_is_its_number_and_its_start() {
        let this = Process::this();
        assert!(this.lives());
        assert!(!Process { started_at: this.started_at + 1, ..this }.lives(), "same number, other process");
        assert_eq!(Process::of(0), None);
    }

    #[test]
    fn what_is_started_is_a_child_and_can_be_ended() {
        let dir = tempfile::tempdir().expect("temp dir");
        let child = sleeper(&dir.path().join("log"));
        assert!(child.lives());
        assert!(Process::this().children().contains(&child));
        assert_eq!(wait_for_end(&[child], Duration::ZERO), [child]);
        child.signal(Signal::KILL);
        assert_eq!(wait_for_end(&[child], Duration::from_secs(10)), [], "a zombie does not live");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let dir = tempfile::tempdir().expect("temp dir");
        let error = spawn(Path::new("/no/such/program"), &[], &dir.path().join("log")).expect_err("no program");
        assert_eq!(error.to_string(), "cannot start /no/such/program");
    }
}
