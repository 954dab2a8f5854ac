//! Where log lines go, and what a panic says.

use std::fs::OpenOptions;
use std::io;
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tracing_subscriber::EnvFilter;

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
#[error("the log file {path} cannot be opened")]
pub struct LogError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// Sends log lines to a file, or to standard error. `SHOAL_LOG` filters as `RUST_LOG` usually does (default `info`).
/// A second call in one process keeps the first one's choice.
///
/// # Errors
/// If the file cannot be opened.
pub fn start(file: Option<&Path>) -> Result<(), LogError> {
    let filter = EnvFilter::try_from_env("SHOAL_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_target(false);
    // An error means that a subscriber is set already.
    let _ = match file {
        None => lines.with_writer(io::stderr).try_init(),
        Some(path) => {
            let fault = |source| LogError { path: path.to_owned(), source };
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent).map_err(fault)?;
            }
            let file = OpenOptions::new().create(true).append(true).open(path).map_err(fault)?;
            lines.with_ansi(false).with_writer(Mutex::new(file)).try_init()
        }
    };
    Ok(())
}

/// Makes a panic one log line. Writing a backtrace takes tens of milliseconds, in which the supervisor would not know.
pub fn shorten_panics() {
    panic::set_hook(Box::new(|info| {
        let payload = info.payload();
        let cause = payload.downcast_ref::<&str>().copied();
        let cause = cause.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, thread = std::thread::current().name(), cause, "panic");
    }));
}
