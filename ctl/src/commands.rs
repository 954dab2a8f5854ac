//! A file for each verb.

use crate::cli::{Global, Verb};
use crate::client::Client;
use crate::cluster::LocalCluster;
use crate::failure::{Failure, Verdict};
use crate::output::Format;

mod bench;
mod cancel;
mod chaos;
mod completions;
mod data;
mod demo;
mod digest;
mod down;
mod drain;
mod eval;
mod events;
mod export;
mod init;
mod job_file;
mod list;
mod nodes;
mod pause;
mod plan;
mod presets;
mod report;
mod resume;
mod sample;
mod status;
mod submit;
mod up;
mod wait;
mod why;

/// What every command needs.
pub struct Context {
    /// The cluster directory.
    pub dir: LocalCluster,
    /// Its coordinator.
    pub client: Client,
    /// How to answer.
    pub format: Format,
}

impl Context {
    /// As the operator said.
    ///
    /// # Errors
    /// If the working directory is gone, or the cluster directory is a file.
    pub fn new(global: &Global) -> Result<Self, Failure> {
        if global.dir.exists() && !global.dir.is_dir() {
            return Err(Failure::Usage(format!(
                "{} is a file; --dir and SHOAL_DIR take a cluster's directory",
                global.dir.display()
            )));
        }
        let dir = LocalCluster::new(&global.dir)?;
        let client = Client::new(dir.paths().root());
        Ok(Self { dir, client, format: global.format() })
    }
}

/// Does what was typed.
///
/// # Errors
/// As the command; the error knows its exit code.
pub fn run(verb: Verb, global: &Global) -> Result<Verdict, Failure> {
    let context = &Context::new(global)?;
    match verb {
        Verb::Init(args) => init::run(context, &args),
        Verb::Up(args) => up::run(context, &args),
        Verb::Down => down::run(context),
        Verb::Nodes => nodes::run(context),
        Verb::Submit(args) => submit::run(context, &args),
        Verb::List => list::run(context),
        Verb::Status(args) => status::run(context, &args),
        Verb::Wait(args) => wait::run(context, &args),
        Verb::Eval(args) => eval::run(context, &args),
        Verb::Events(args) => events::run(context, &args),
        Verb::Why(args) => why::run(context, &args),
        Verb::Pause(args) => pause::run(context, &args),
        Verb::Resume(args) => resume::run(context, &args),
        Verb::Cancel(args) => cancel::run(context, &args),
        Verb::Digest(args) => digest::run(context, &args),
        Verb::Export(args) => export::run(context, &args),
        Verb::Sample(args) => sample::run(context, &args),
        Verb::Report(args) => report::run(context, &args),
        Verb::Presets(args) => presets::run(context, &args),
        Verb::Plan(args) => plan::run(context, &args),
        Verb::Data(args) => data::run(context, &args),
        Verb::Drain(args) => drain::run(context, &args),
        Verb::Chaos(args) => chaos::run(context, args),
        Verb::Bench(args) => bench::run(context, &args),
        Verb::Demo(args) => demo::run(context, &args),
        Verb::Completions(args) => completions::run(&args),
        Verb::Daemon(_) => unreachable!("CT-1 (main turns a daemon's command line into a daemon)"),
    }
}
