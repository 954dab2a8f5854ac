//! What all commands take that compute with a job's weights in their own process.

use std::time::Duration;

use clap::Args;
use shoal_config::Bytes;

use super::condition::AtCommit;

/// With which weights a command computes, and with what of this machine.
#[derive(Debug, Args)]
pub struct Here {
    /// What may be taken here, weights included, such as `2GiB` [default: what this machine has free].
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<Bytes>,
    /// With the weights of this committed step, `step=K`; else of the newest.
    #[arg(long, value_name = "step=K")]
    pub at: Option<AtCommit>,
    /// Compute threads.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: u32,
    /// Give up after this long if the weights are not there, with exit code 3.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = humantime::parse_duration)]
    pub timeout: Duration,
}
