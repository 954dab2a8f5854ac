//! How a command ends: with an exit code and a sentence.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;

use crate::output::units::printable;
use crate::output::{Format, json};

/// Exit code of what was typed or configured wrong.
pub const USAGE: u8 = 2;

/// How a command ended without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Done, and what was asked is so: exit code 0.
    True,
    /// Done, and what was asked is not so, as the output says: exit code 1.
    False,
}

/// Why a command did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// It cannot come true, or the job failed: exit code 1.
    #[error("{0}")]
    No(String),
    /// What was typed or configured is wrong: exit code 2.
    #[error("{0}")]
    Usage(String),
    /// A file of the operator is wrong: exit code 2.
    #[error(transparent)]
    Config(#[from] shoal_config::ConfigError),
    /// It took longer than allowed: exit code 3.
    #[error("{0}")]
    Timeout(String),
    /// No coordinator answers: exit code 4.
    #[error("{0}")]
    Unreachable(String),
    /// A file or process of ours could not be handled: exit code 1.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What was tried, e.g. `write`.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Standard output went away: exit code 1, nothing left to say it on.
    #[error("cannot write to standard output")]
    Output(#[source] std::io::Error),
    /// Interrupted by the operator: exit code 1.
    #[error("interrupted; everything that was started has been stopped")]
    Interrupted,
}

impl Failure {
    /// For `map_err` on file operations.
    pub fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }

    /// 1 to 4, as documented in `--help`.
    #[must_use]
    pub fn code(&self) -> u8 {
        match self {
            Self::No(_) | Self::File { .. } | Self::Output(_) | Self::Interrupted => 1,
            Self::Usage(_) | Self::Config(_) => USAGE,
            Self::Timeout(_) => 3,
            Self::Unreachable(_) => 4,
        }
    }
}

/// An error with all its causes, as one sentence.
#[must_use]
pub fn whole(error: &anyhow::Error) -> String {
    format!("{error:#}")
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::True => Self::SUCCESS,
            Verdict::False => Self::from(1),
        }
    }
}

/// What goes wrong, for programs: one line on standard error.
#[derive(Serialize)]
struct ErrorLine<'m> {
    /// The kind of failure in a word.
    error: &'static str,
    message: &'m str,
    exit_code: u8,
}

/// The word for an exit code that is not 0.
fn word(code: u8) -> &'static str {
    match code {
        USAGE => "usage",
        3 => "timeout",
        4 => "unreachable",
        _ => "no",
    }
}

/// An error on standard error: a sentence for people, a JSON object on one line for programs.
#[must_use]
pub fn error_text(message: &str, code: u8, format: Format) -> String {
    match format {
        Format::Human => printable(&format!("shoalctl: {message}")),
        Format::Json => json::line(&ErrorLine { error: word(code), message, exit_code: code }),
    }
}

/// Ends the process: says why on standard error, with every cause, and gives the exit code.
#[must_use]
pub fn conclude(result: Result<Verdict, Failure>, format: Format) -> ExitCode {
    match result {
        Ok(verdict) => verdict.into(),
        Err(failure) => {
            let code = failure.code();
            // Whoever reads the output has had enough of it and is not interested in more.
            if matches!(&failure, Failure::Output(error) if error.kind() == ErrorKind::BrokenPipe) {
                return ExitCode::from(code);
            }
            eprintln!("{}", error_text(&format!("{:#}", anyhow::Error::from(failure)), code, format));
            ExitCode::from(code)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_a_sentence_or_an_object_on_one_line() {
        let message = "no cluster\nin \"x\"";
        assert_eq!(error_text(message, 4, Format::Human), "shoalctl: no cluster\nin \"x\"");
        let line = error_text(message, 4, Format::Json);
        assert!(!line.contains('\n'), "{line}");
        let value: serde_json::Value = serde_json::from_str(&line).expect("an object");
        assert_eq!(value, serde_json::json!({"error": "unreachable", "message": message, "exit_code": 4}));
        assert_eq!([1, 2, 3].map(word), ["no", "usage", "timeout"]);
    }
}
