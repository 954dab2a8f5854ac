//! `completions`: a script for the shell.

use clap::CommandFactory;

use crate::cli::{Cli, Completions};
use crate::failure::Verdict;

pub(super) fn run(args: &Completions) -> Verdict {
    clap_complete::generate(args.shell, &mut Cli::command(), "shoalctl", &mut std::io::stdout());
    Verdict::True
}
