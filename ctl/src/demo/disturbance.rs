//! What happens to the second run: one worker is killed, another one joins.
//!
//! * TM-1 (it is later than 1970): a clock before it is none to take times from.
//! * TM-2 (milliseconds fit 64 bits): they do for half a billion years.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::Signal;
use shoal_wire::api::{LedgerLine, NodeState};

use super::stage::Stage;
use crate::cluster::process::Process;
use crate::failure::Failure;

/// When it happens, in committed steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disturbance {
    /// A worker is killed as soon as this step is committed.
    pub kill_after: u64,
    /// A new one is started as soon as this step is committed.
    pub join_after: u64,
}

/// A worker that was killed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kill {
    /// Its name.
    pub node: String,
    /// When the signal was sent, in milliseconds since 1970.
    pub sent_at_ms: u64,
    /// The generation it was sent in.
    pub generation: String,
}

impl Disturbance {
    /// At a third and at two thirds.
    #[must_use]
    pub fn for_steps(steps: u64) -> Self {
        Self { kill_after: steps / 3, join_after: 2 * steps / 3 }
    }
}

impl Kill {
    /// Sends SIGKILL to the last worker that holds something.
    ///
    /// # Errors
    /// If no worker is ready, or its process cannot be found.
    pub fn one(stage: &Stage, generation: String) -> Result<Self, Failure> {
        let mut ready = stage.client.nodes()?;
        ready.retain(|node| node.state == NodeState::Ready);
        let victim = ready
            .iter()
            .rev()
            .find(|node| node.used_bytes > 0)
            .or(ready.last())
            .ok_or_else(|| Failure::No("no worker is ready, so none can be killed".to_owned()))?;
        let process = Process::of(victim.pid)
            .ok_or_else(|| Failure::No(format!("the process of {} has ended by itself", victim.node)))?;
        let sent_at_ms = now_ms();
        process.signal(Signal::KILL);
        Ok(Self { node: victim.node.clone(), sent_at_ms, generation })
    }

    /// Milliseconds from the signal to the next commit. A commit under the generation of the signal was under way before
    /// anyone noticed and does not count.
    #[must_use]
    pub fn recovery_ms(&self, ledger: &[LedgerLine]) -> Option<u64> {
        let next =
            ledger.iter().find(|line| line.committed_at_ms >= self.sent_at_ms && line.generation != self.generation)?;
        Some(next.committed_at_ms - self.sent_at_ms)
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("TM-1 (it is later than 1970)");
    u64::try_from(since.as_millis()).expect("TM-2 (milliseconds fit 64 bits)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::audit::tests::line;

    #[test]
    fn recovery_lasts_from_the_signal_to_the_next_commit_of_survivors() {
        let at = |step, generation: &str, committed_at_ms| LedgerLine {
            generation: generation.to_owned(),
            committed_at_ms,
            ..line(step)
        };
        let kill = Kill { node: "w4".into(), sent_at_ms: 1000, generation: "1.1".into() };
        let ledger = [at(1, "1.1", 900), at(2, "1.1", 1002), at(3, "1.2", 1450), at(4, "1.2", 1500)];
        assert_eq!(kill.recovery_ms(&ledger), Some(450));
        assert_eq!(kill.recovery_ms(&ledger[..2]), None);
    }

    #[test]
    fn a_third_and_two_thirds() {
        assert_eq!(Disturbance::for_steps(60), Disturbance { kill_after: 20, join_after: 40 });
        assert_eq!(Disturbance::for_steps(6), Disturbance { kill_after: 2, join_after: 4 });
    }
}
