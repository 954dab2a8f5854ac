//! How a command ends: with an exit code and a sentence.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;

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
            Self::Usage(_) | Self::Config(_) => 2,
            Self::Timeout(_) => 3,
            Self::Unreachable(_) => 4,
        }
    }
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::True => Self::SUCCESS,
            Verdict::False => Self::from(1),
        }
    }
}

/// Ends the process: says why on standard error, with every cause, and gives the exit code.
#[must_use]
pub fn conclude(result: Result<Verdict, Failure>) -> ExitCode {
    match result {
        Ok(verdict) => verdict.into(),
        Err(failure) => {
            let code = failure.code();
            // Whoever reads the output has had enough of it and is not interested in more.
            if matches!(&failure, Failure::Output(error) if error.kind() == ErrorKind::BrokenPipe) {
                return ExitCode::from(code);
            }
            eprintln!("shoalctl: {:#}", anyhow::Error::from(failure));
            ExitCode::from(code)
        }
    }
}
