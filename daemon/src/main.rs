//! `shoald`: one daemon of a Shoal cluster.

use std::process::ExitCode;

use clap::Parser;
use shoal_daemon::cli::Cli;

fn main() -> ExitCode {
    match shoal_daemon::run(Cli::parse().role.into_role()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let error = anyhow::Error::from(error);
            eprintln!("shoald: {error:#}");
            ExitCode::FAILURE
        }
    }
}
