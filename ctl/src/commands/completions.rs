//! `completions`: a script for the shell.

use clap::CommandFactory;

use crate::cli::{Cli, Completions};
use crate::failure::{Failure, Verdict};
use crate::output;

pub(super) fn run(args: &Completions) -> Result<Verdict, Failure> {
    // Into memory first: the generator itself panics when its reader goes away.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "shoalctl", &mut script);
    output::line(&String::from_utf8_lossy(&script))?;
    Ok(Verdict::True)
}
