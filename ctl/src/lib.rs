//! `shoalctl`: what can be typed, and what then happens.
//!
//! [`cli`] is the command line; [`commands`] has a file for each verb; [`client`] is the coordinator's HTTP interface as
//! functions; [`cluster`] starts and stops local daemons; [`export`] writes a state as files; [`demo`] is the main job, end to end; [`output`] has one form
//! for people and one for programs; [`failure`] ties all of it to exit codes.

pub mod cli;
pub mod client;
pub mod cluster;
pub mod commands;
pub mod demo;
pub mod export;
pub mod failure;
pub mod machine;
pub mod output;
pub mod text_file;
pub mod tokenizer;
pub mod weights;

use std::process::ExitCode;

use clap::Parser;

/// The whole program: what `shoalctl` is, wherever it is linked. It re-executes itself as the daemons of local clusters.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return misread(&error),
    };
    match cli.verb {
        cli::Verb::Daemon(role) => be_a_daemon(role.into_role()),
        verb => failure::conclude(commands::run(verb, &cli.global), cli.global.format()),
    }
}

/// A command line that means nothing, or that asks for help.
fn misread(error: &clap::Error) -> ExitCode {
    let wants_json = std::env::args_os().any(|word| word == "--json");
    if error.use_stderr() && wants_json {
        let text = error.render().to_string();
        let message = text.trim().trim_start_matches("error: ");
        eprintln!("{}", failure::error_text(message, failure::USAGE, output::Format::Json));
    } else {
        // It fails only if nobody listens.
        let _ = error.print();
    }
    ExitCode::from(error.exit_code() as u8)
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
