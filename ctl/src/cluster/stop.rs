//! `down`: asks the coordinator to end the cluster, every worker that is joined to it included, then ends what `up` started.

use std::fmt;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::Serialize;
use shoal_wire::api::JobStatus;

use super::dir::{CLAIM, COORDINATOR, LocalCluster, Started};
use super::process::{Process, wait_for_end};
use crate::client::Client;
use crate::failure::Failure;

/// For a shutdown on request, and again for one on SIGTERM.
const GRACE: Duration = Duration::from_secs(5);
/// For a worker to hand over what it holds, once the coordinator is gone or does not answer.
const HAND_OVER: Duration = Duration::from_secs(1);
/// For the system to end what was killed.
const KILLED: Duration = Duration::from_secs(5);

/// Between two looks at a coordinator that is no process of this machine, as far as is known.
const AGAIN: Duration = Duration::from_millis(50);

/// What was ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stopped {
    /// Ended on request.
    pub stopped: Vec<String>,
    /// Had to be killed.
    pub killed: Vec<String>,
    /// Jobs whose training state went with the memory of the workers.
    pub lost: Vec<LostState>,
}

/// A job that was not over, and what of it was only in memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LostState {
    /// Its id.
    pub job: String,
    /// Committed steps.
    pub step: u64,
    /// Steps in all.
    pub steps: u64,
}

impl LostState {
    fn of(status: JobStatus) -> Option<Self> {
        let JobStatus { job, step, steps, state, .. } = status;
        (!state.is_over() && step > 0).then_some(Self { job, step, steps })
    }
}

impl fmt::Display for LostState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is at step {} of {}; its state was in the workers' memory and is gone: it starts again from step 0, or fails \
             if its on_loss is halt",
            self.job, self.step, self.steps
        )
    }
}

/// Asks the cluster to stop, whoever started its coordinator, then tells each living process that was started here, then kills what
/// is left of them.
///
/// # Errors
/// If records cannot be read, a process does not end even so, or a coordinator that was started by hand goes on.
pub fn stop(dir: &LocalCluster) -> Result<Stopped, Failure> {
    let _claim = dir.claim(CLAIM)?;
    let started = dir.started()?;
    let living: Vec<&Started> = started.iter().filter(|started| started.process.lives()).collect();
    let mut left = processes(&started);
    let client = Client::new(dir.paths().root());
    let (mut lost, mut by_hand) = (Vec::new(), None);
    if living.iter().any(|started| started.name == COORDINATOR) {
        // Asked before anything is stopped; a coordinator that does not answer cannot say.
        lost = unfinished(&client);
        if client.shutdown().is_ok() {
            left = wait_for_end(&left, GRACE);
        }
    } else if let Some(Ok(jobs)) = client.reaches().then(|| client.jobs()) {
        // Whoever does not answer like a coordinator only has the port of one that was here.
        lost = jobs.into_iter().filter_map(LostState::of).collect();
        by_hand = Some(end_elsewhere(&client));
        left = wait_for_end(&left, GRACE);
    }
    // A worker takes the first one as a wish to hand over what it holds, the second one as an order.
    for patience in [HAND_OVER, GRACE] {
        left.iter().for_each(|process| process.signal(Signal::TERM));
        left = wait_for_end(&left, patience);
    }
    end(&left)?;
    for record in &started {
        dir.forget(&record.name)?;
    }
    let (killed, stopped): (Vec<&Started>, Vec<&Started>) =
        living.into_iter().partition(|started| left.contains(&started.process));
    let names = |list: Vec<&Started>| list.into_iter().map(|started| started.name.clone()).collect();
    // What was started here ends even if the coordinator goes on.
    let coordinator = by_hand.transpose()?.map(|()| COORDINATOR.to_owned());
    Ok(Stopped { stopped: coordinator.into_iter().chain(names(stopped)).collect(), killed: names(killed), lost })
}

/// Asks a coordinator that was not started here, of which `dir` has the address, to stop the cluster.
///
/// # Errors
/// If it cannot be reached, or goes on.
pub fn stop_elsewhere(dir: &LocalCluster) -> Result<Stopped, Failure> {
    let client = Client::new(dir.paths().root());
    let lost = unfinished(&client);
    end_elsewhere(&client)?;
    Ok(Stopped { stopped: vec![COORDINATOR.to_owned()], killed: Vec::new(), lost })
}

fn end_elsewhere(client: &Client) -> Result<(), Failure> {
    client.shutdown()?;
    let deadline = Instant::now() + GRACE;
    while client.reaches() {
        if Instant::now() > deadline {
            let (address, _) = client.addresses()?;
            return Err(Failure::No(format!("the coordinator at {address} was told to stop, and still answers")));
        }
        std::thread::sleep(AGAIN);
    }
    Ok(())
}

/// What a coordinator's jobs lose if it stops now; nothing if it does not say.
fn unfinished(client: &Client) -> Vec<LostState> {
    client.jobs().unwrap_or_default().into_iter().filter_map(LostState::of).collect()
}

/// The living ones of what was started, and the respawner's child, which is not recorded and must not outlive its parent.
fn processes(started: &[Started]) -> Vec<Process> {
    let living = || started.iter().filter(|started| started.process.lives());
    let children = living().filter(|started| started.name == COORDINATOR).flat_map(|s| s.process.children());
    living().map(|started| started.process).chain(children).collect()
}

/// Kills what was started in a directory that is not there any more, so that nothing can be asked of anybody.
///
/// # Errors
/// If a process does not end even so.
pub fn kill(started: &[Started]) -> Result<(), Failure> {
    end(&processes(started))
}

fn end(left: &[Process]) -> Result<(), Failure> {
    left.iter().for_each(|process| process.signal(Signal::KILL));
    match wait_for_end(left, KILLED).first() {
        None => Ok(()),
        Some(process) => Err(Failure::No(format!("process {} does not end even when killed", process.pid))),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::cluster::process;

    #[test]
    fn only_what_was_started_here_is_ended() {
        let dir = tempfile::tempdir().expect("temp dir");
        let cluster = LocalCluster::new(&dir.path().join("c")).expect("path");
        let claim = cluster.claim(CLAIM).expect("claim");
        let shell = |script: &str| {
            let log = dir.path().join("log");
            process::spawn(Path::new("/bin/sh"), &["-c".as_ref(), script.as_ref()], &log).expect("start a shell")
        };
        let (ours, stranger) = (shell("exec sleep 60"), shell("exec sleep 60"));
        cluster.record(&Started { name: "w1".into(), process: ours }).expect("record");
        // The number was given to another process since.
        let reused = Process { started_at: stranger.started_at + 1, ..stranger };
        cluster.record(&Started { name: "w2".into(), process: reused }).expect("record");
        drop(claim);

        // Somebody else has the port of a coordinator that was here, and closes whatever comes.
        let other = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        std::fs::write(cluster.paths().http_address(), other.local_addr().expect("bound").to_string())
            .expect("written");
        std::thread::spawn(move || other.incoming().for_each(drop));

        let stopped = stop(&cluster).expect("stop");
        assert_eq!(stopped, Stopped { stopped: vec!["w1".into()], killed: vec![], lost: vec![] });
        assert!(!ours.lives() && stranger.lives());
        assert_eq!(cluster.started().expect("records"), []);

        let orphan = shell("exec sleep 60");
        kill(&[Started { name: "w3".into(), process: orphan }, Started { name: "w2".into(), process: reused }])
            .expect("killed");
        assert!(!orphan.lives() && stranger.lives());
        stranger.signal(Signal::KILL);
        assert_eq!(wait_for_end(&[stranger], KILLED), []);
    }
}
