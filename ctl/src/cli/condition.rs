//! Points in a job's life that can be typed.

use std::fmt;
use std::str::FromStr;

/// `--until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// This step is committed.
    Step(u64),
    /// All steps are committed and written.
    Done,
    /// The job cannot go on.
    Failed,
    /// The operator's order holds it.
    Paused,
    /// Every interval has all its shadows.
    RedundancyFull,
}

/// `--at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtCommit(pub u64);

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "done" => Ok(Self::Done),
            "failed" => Ok(Self::Failed),
            "paused" => Ok(Self::Paused),
            "redundancy=full" => Ok(Self::RedundancyFull),
            other => step(other)
                .map(Self::Step)
                .ok_or_else(|| "allowed: step=K (K counted from 1), done, failed, paused, redundancy=full".to_owned()),
        }
    }
}

impl FromStr for AtCommit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        step(text).map(Self).ok_or_else(|| "allowed: step=K, K counted from 1".to_owned())
    }
}

/// A job's id.
pub(super) fn job_id(text: &str) -> Result<String, String> {
    match text.strip_prefix('j').and_then(|digits| digits.parse::<u64>().ok()) {
        Some(number) if text == format!("j{number}") => Ok(text.to_owned()),
        Some(_) | None => Err("jobs are called j1, j2 and so on; `shoalctl list` names them".to_owned()),
    }
}

/// A worker's name.
pub(super) fn node_name(text: &str) -> Result<String, String> {
    if shoal_config::node::is_name(text) {
        Ok(text.to_owned())
    } else {
        Err("no worker can be called so; `shoalctl nodes` names them".to_owned())
    }
}

fn step(text: &str) -> Option<u64> {
    text.strip_prefix("step=")?.parse().ok().filter(|step| *step > 0)
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step(step) => write!(f, "step={step}"),
            Self::Done => f.write_str("done"),
            Self::Failed => f.write_str("failed"),
            Self::Paused => f.write_str("paused"),
            Self::RedundancyFull => f.write_str("redundancy=full"),
        }
    }
}
