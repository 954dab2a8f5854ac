//! `submit` and `plan`: what they take.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use shoal_config::Bytes;

/// Where a job comes from.
#[derive(Debug, Args)]
pub struct JobSource {
    /// The job file.
    #[arg(required_unless_present = "preset", conflicts_with = "preset")]
    pub file: Option<PathBuf>,
    /// In place of a job file, the preset of this name (`shoalctl presets` lists them).
    #[arg(long, value_name = "NAME", requires = "data")]
    pub preset: Option<String>,
    /// What the preset is trained on: a text, or a directory of them.
    #[arg(long, value_name = "PATH", requires = "preset", conflicts_with = "file")]
    pub data: Option<PathBuf>,
}

/// Arguments of `submit`.
#[derive(Debug, Args)]
pub struct Submit {
    /// What to submit.
    #[command(flatten)]
    pub job: JobSource,
    /// Make a second job of it, though the very same one was submitted before and is not over.
    #[arg(long)]
    pub again: bool,
    /// Do not wait until its data is read; bad data then shows in `status`.
    #[arg(long)]
    pub no_wait: bool,
    /// Stop waiting for that after this long, with exit code 3; the job stays submitted.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, conflicts_with = "no_wait")]
    pub timeout: Option<Duration>,
}

/// Arguments of `plan`.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// What to plan.
    #[command(flatten)]
    pub job: JobSource,
    /// Nodes to plan for.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub nodes: u32,
    /// What the arenas of a node may hold.
    #[arg(long, value_name = "SIZE", default_value = "2GiB")]
    pub memory: Bytes,
    /// Compute threads of a node.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: u32,
}

/// Arguments of `presets`.
#[derive(Debug, Args)]
pub struct Presets {
    /// Print the job file of this one.
    pub name: Option<String>,
}
