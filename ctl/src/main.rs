//! `shoalctl`: submit and steer jobs; run local clusters.

use std::process::ExitCode;

use clap::Parser;
use shoal_ctl::cli::{Cli, Verb};
use shoal_ctl::{commands, failure};

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.verb {
        Verb::Daemon(role) => be_a_daemon(role.into_role()),
        verb => failure::conclude(commands::run(verb, &cli.global)),
    }
}

fn be_a_daemon(role: shoal_daemon::Role) -> ExitCode {
    match shoal_daemon::run(role) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("shoalctl: {:#}", anyhow::Error::from(error));
            ExitCode::FAILURE
        }
    }
}
