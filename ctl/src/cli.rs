//! What can be typed.
//!
//! * CT-1 (main turns a daemon's command line into a daemon): it is no verb that a command carries out.
//! * CT-2 (the command line asks for one of --to and --state): clap refuses an export that names neither or both.
//! * CT-3 (the command line asks for a file or a preset with its data): clap refuses a job that is named by neither.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use shoal_config::Bytes;
use shoal_config::node::Class;
use shoal_config::spec::Auto;

use crate::output::Format;

mod condition;
mod data;
mod eval;
mod export;
mod here;
mod sample;
mod submit;
mod word;

pub use condition::{AtCommit, Condition};
use condition::{job_id, node_name};
pub use data::{Data, Prepare};
pub use eval::{DataKind, Eval};
pub use export::{Export, ExportTarget, ModelForm};
pub use here::Here;
pub use sample::Sample;
pub use submit::{JobSource, PlanArgs, Presets, Submit};

const EXIT_CODES: &str = "\
Exit codes:
  0  done, and what was asked is so
  1  done, and what was asked is not so, or the job failed
  2  usage or configuration
  3  timeout
  4  cluster not reachable";

/// Train networks on machines that come and go.
#[derive(Debug, Parser)]
#[command(name = "shoalctl", version, after_help = EXIT_CODES, propagate_version = true)]
pub struct Cli {
    /// Which cluster and which form of output.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// Options of every command.
#[derive(Clone, Debug, Args)]
pub struct Global {
    /// Cluster directory.
    #[arg(long, global = true, env = "SHOAL_DIR", default_value = ".shoal", value_name = "DIR")]
    pub dir: PathBuf,
    /// Print one JSON document (or one object a line where it streams) and nothing else on standard output; an error is
    /// one JSON object on standard error.
    #[arg(long, global = true)]
    pub json: bool,
}

impl Global {
    /// The form of output that was asked for.
    #[must_use]
    pub fn format(&self) -> Format {
        if self.json { Format::Json } else { Format::Human }
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Make a cluster's certificate authority, and certificates for its daemons.
    Init(Init),
    /// Start a local cluster, or bring its live workers back to N: stopped workers first, under their names, those with written
    /// pieces before others. Nothing that runs is stopped or changed.
    Up(Up),
    /// Stop the cluster: every worker that is joined to its coordinator, and what `up` started. There are no checkpoints yet:
    /// a job that is not over loses its training state with the workers' memory, and starts again from step 0 at the next `up`.
    Down,
    /// List workers.
    Nodes,
    /// Submit a job file.
    Submit(Submit),
    /// List the jobs that come with the program, or print the job file of one.
    Presets(Presets),
    /// List jobs.
    List,
    /// Show where a job stands.
    Status(JobName),
    /// Wait until a job has come so far.
    Wait(Wait),
    /// Print a job's events.
    Events(Events),
    /// Explain why a job is where it is.
    Why(JobName),
    /// Hold a job after a committed step.
    Pause(Pause),
    /// Let a paused job go on.
    Resume(JobName),
    /// End a job.
    Cancel(JobName),
    /// Hash a job's weights and moments.
    Digest(Digest),
    /// Write a job's weights to files.
    Export(Export),
    /// Go on with a text by the weights of a job.
    Sample(Sample),
    /// Compute the loss of a job's weights on data, in this process.
    Eval(Eval),
    /// Show what every device of a job held, sent and computed.
    Report(JobName),
    /// Show the plan of a job file for a number of nodes; needs no cluster.
    Plan(PlanArgs),
    /// Make data for jobs; needs no cluster.
    #[command(subcommand)]
    Data(Data),
    /// Let a worker hand over what it holds and leave.
    Drain(NodeName),
    /// Make a fault on purpose.
    #[command(subcommand)]
    Chaos(Chaos),
    /// Measure.
    #[command(subcommand)]
    Bench(Bench),
    /// Train on a local cluster twice, once with a worker killed and another joined, and compare the bits.
    Demo(Demo),
    /// Print a completion script.
    Completions(Completions),
    /// Be a daemon.
    #[command(subcommand, hide = true)]
    Daemon(shoal_daemon::cli::RoleArgs),
}

/// A job.
#[derive(Debug, Args)]
pub struct JobName {
    /// Id of the job, such as `j1`.
    #[arg(value_parser = job_id)]
    pub job: String,
}

/// A worker.
#[derive(Debug, Args)]
pub struct NodeName {
    /// Name of the worker, as `nodes` lists it.
    #[arg(value_parser = node_name)]
    pub node: String,
}

/// Arguments of `init`.
#[derive(Debug, Args)]
pub struct Init {
    /// A worker to make a directory with certificate and node.toml for; may be repeated.
    #[arg(long = "node", value_name = "NAME")]
    pub nodes: Vec<String>,
}

/// Arguments of `up`.
#[derive(Debug, Args)]
pub struct Up {
    /// Live workers wanted.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=64))]
    pub nodes: u32,
    /// What the arenas of a worker may hold, at least 12MiB with one thread, 27MiB with two, some 7MiB more for every further one [default: what it had, or another worker of the cluster; else 2GiB]. Running workers keep what they have.
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<Bytes>,
    /// Compute threads of a worker [default: what it had, or another worker of the cluster; else 1]. Running workers keep what they have.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// What the devices of a worker compute with: `portable`, `avx2`, `avx512`, `neon`, or `auto`, the best that the machine has [default: what it had, or another worker of the cluster; else auto]. Running workers keep what they have.
    #[arg(long, value_name = "CLASS")]
    pub class: Option<Auto<Class>>,
    /// Port of the HTTP interface on loopback; 0 lets the system choose [default: 0]. A running coordinator keeps its own.
    #[arg(long, value_name = "PORT")]
    pub http_port: Option<u16>,
    /// How long to wait until all are ready.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    pub timeout: Duration,
}

/// Arguments of `wait`.
#[derive(Debug, Args)]
pub struct Wait {
    /// Id of the job, such as `j1`.
    #[arg(value_parser = job_id)]
    pub job: String,
    /// `step=K`, `done`, `failed`, `paused` or `redundancy=full`.
    #[arg(long, value_name = "CONDITION")]
    pub until: Condition,
    /// Give up after this long, with exit code 3.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub timeout: Option<Duration>,
}

/// Arguments of `events`.
#[derive(Debug, Args)]
pub struct Events {
    /// Id of the job, such as `j1`.
    #[arg(value_parser = job_id)]
    pub job: String,
    /// Go on until the job is over.
    #[arg(long)]
    pub follow: bool,
    /// Only events after this number.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub after: u64,
}

/// Arguments of `pause`.
#[derive(Debug, Args)]
pub struct Pause {
    /// Id of the job, such as `j1`.
    #[arg(value_parser = job_id)]
    pub job: String,
    /// After this committed step, `step=K`; else after the one in flight.
    #[arg(long, value_name = "step=K")]
    pub at: Option<AtCommit>,
}

/// Arguments of `digest`.
#[derive(Debug, Args)]
pub struct Digest {
    /// Id of the job, such as `j1`.
    #[arg(value_parser = job_id)]
    pub job: String,
    /// After this committed step, `step=K`; else after the next one.
    #[arg(long, value_name = "step=K")]
    pub at: Option<AtCommit>,
    /// Give up after this long, with exit code 3.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = humantime::parse_duration)]
    pub timeout: Duration,
}

/// Faults on purpose.
#[derive(Debug, Subcommand)]
pub enum Chaos {
    /// A stage actor of the job panics at its next instruction; its supervisor restarts it.
    PanicStage {
        /// Id of the job, such as `j1`.
        #[arg(value_parser = job_id)]
        job: String,
        /// Name of the worker; the first one that is ready if none is given.
        #[arg(long, value_name = "NAME", value_parser = node_name)]
        node: Option<String>,
    },
    /// The compute device of a worker hangs at the next instruction of a stage of the job, for good; it will be evicted.
    HangStage {
        /// Id of the job, such as `j1`.
        #[arg(value_parser = job_id)]
        job: String,
        /// Name of the worker; the first one that is ready if none is given.
        #[arg(long, value_name = "NAME", value_parser = node_name)]
        node: Option<String>,
    },
    /// The next gradient of a stage of the job is infinite: the step is skipped and changes nothing.
    PoisonStage {
        /// Id of the job, such as `j1`.
        #[arg(value_parser = job_id)]
        job: String,
        /// Name of the worker; the first one that is ready if none is given.
        #[arg(long, value_name = "NAME", value_parser = node_name)]
        node: Option<String>,
    },
}

/// Measurements.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Training throughput of one device, beside the rate of its matrix products: 10 s of steps with products between them, with the default preset in about half a minute.
    Train {
        /// Which preset to train.
        #[arg(long, value_name = "NAME", default_value = "bench-s")]
        preset: String,
        /// Compute threads.
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
        threads: u32,
    },
    /// Every operation of a training step at the sizes of two models, beside matrix products and memory of the same run: about a minute a preset.
    Kernels {
        /// Whose sizes; may be given more than once.
        #[arg(long, value_name = "NAME", default_values = ["bench-s", "bench-m"])]
        preset: Vec<String>,
        /// Compute threads.
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
        threads: u32,
    },
}

/// Arguments of `demo`.
#[derive(Debug, Args)]
pub struct Demo {
    /// Workers.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=16))]
    pub nodes: u32,
    /// Optimizer steps of each of the two runs.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(6..=1_000_000))]
    pub steps: Option<u64>,
    /// UTF-8 text, a file or a directory; the project's own sources and docs if none is given.
    #[arg(long, value_name = "PATH")]
    pub data: Option<PathBuf>,
}

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// Which shell.
    pub shell: clap_complete::Shell,
}

#[cfg(test)]
mod tests;
