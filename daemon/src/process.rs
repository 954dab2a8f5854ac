//! What the system knows of a process, and whether it is on its way out.

use std::fs;

/// Set in the environment of a coordinator that a respawner started, to that respawner's process id.
pub(crate) const RESPAWNED: &str = "SHOAL_RESPAWNED";

/// What the system knows of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// It runs, and nothing that cannot be caught has been sent to it. One that was killed or ends by itself holds what it
    /// holds for a moment more; one that only waits to be collected by its parent may have threads that do.
    pub lives: bool,
    /// The process that started it, or that took it over.
    pub parent: u32,
    /// When it began, in clock ticks since the machine started.
    pub started_at: u64,
}

/// `PF_EXITING` of Linux's process flags.
const EXITING: u64 = 4;
/// SIGKILL (9) in a set of signals.
const KILLED: u64 = 1 << 8;

/// The process with this number, if there is one.
#[must_use]
pub fn stat(pid: u32) -> Option<Stat> {
    parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Fields of `/proc/<pid>/stat` (proc(5)): after the name in parentheses come state (3) and parent (4), then flags as field
/// 9, start time as 22, pending signals as 31.
fn parse(text: &str) -> Option<Stat> {
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let flags: u64 = fields.nth(4)?.parse().ok()?;
    let started_at = fields.nth(12)?.parse().ok()?;
    let pending: u64 = fields.nth(8)?.parse().ok()?;
    let dying = matches!(state, 'Z' | 'X' | 'x') || flags & EXITING != 0 || pending & KILLED != 0;
    Some(Stat { lives: !dying, parent, started_at })
}

/// Whether a process ends without anybody's doing more: it is gone or dying, or it is a coordinator whose respawner is,
/// and is told to stop by that.
pub(crate) fn is_ending(pid: u32) -> bool {
    let Some(Stat { lives: true, parent, .. }) = stat(pid) else { return true };
    respawner_of(pid).is_some_and(|respawner| parent != respawner || stat(respawner).is_none_or(|stat| !stat.lives))
}

/// The respawner that started this coordinator, if it is one and may be looked at.
fn respawner_of(pid: u32) -> Option<u32> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut variables = environment.split(|byte| *byte == 0);
    let set = variables.find_map(|variable| variable.strip_prefix(RESPAWNED.as_bytes())?.strip_prefix(b"="))?;
    str::from_utf8(set).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::*;

    /// A process with much memory takes a moment to end; in that moment it is not to be counted on.
    #[test]
    fn what_was_killed_does_not_live_though_it_still_runs() {
        let line = |state: char, flags: u64, pending: u64| {
            format!(
                "9 (a (b) c) {state} 8 9 7 0 -1 {flags} 5 0 0 0 0 0 0 0 20 0 1 0 1398019 0 0 99 0 0 0 0 0 {pending} 0 0 0 0 9"
            )
        };
        let runs = Stat { lives: true, parent: 8, started_at: 1_398_019 };
        let ends = Stat { lives: false, ..runs };
        assert_eq!(parse(&line('R', 4_195_336, 0)), Some(runs));
        assert_eq!(parse(&line('R', 4_195_336, 2)), Some(runs), "SIGINT may be caught");
        assert_eq!(parse(&line('R', 4_195_340, 0)), Some(ends), "it ends");
        assert_eq!(parse(&line('R', 4_195_336, 256)), Some(ends), "it was killed");
        assert_eq!(parse(&line('Z', 4_195_336, 0)), Some(ends), "it waits to be collected");
        assert_eq!(parse("9 (short) R 8"), None);
    }

    #[test]
    fn a_coordinator_whose_respawner_is_gone_is_ending() {
        let us = std::process::id();
        assert!(!is_ending(us) && is_ending(0));
        let sleeper = |respawner: Option<u32>| {
            let mut command = Command::new("sleep");
            command.arg("600").envs(respawner.map(|pid| (RESPAWNED, pid.to_string())));
            let child = command.spawn().expect("starts");
            // A new program's environment is there a moment after the program.
            let deadline = Instant::now() + Duration::from_secs(30);
            while fs::read(format!("/proc/{}/environ", child.id())).is_ok_and(|environment| environment.is_empty()) {
                assert!(Instant::now() < deadline, "the program has an environment");
                std::thread::yield_now();
            }
            child
        };
        for (respawner, ends) in [(None, false), (Some(us), false), (Some(1), true)] {
            let mut child = sleeper(respawner);
            assert_eq!(is_ending(child.id()), ends, "{respawner:?}");
            child.kill().expect("it lives");
            child.wait().expect("it ends");
            assert!(is_ending(child.id()), "it is gone");
        }
    }
}
