//! Being told to stop.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::run::DaemonError;

/// Yields once for every SIGTERM or SIGINT.
pub(crate) fn stop() -> Result<mpsc::UnboundedReceiver<()>, DaemonError> {
    let fault = |source| DaemonError::System { what: "a signal handler", source };
    let mut term = signal(SignalKind::terminate()).map_err(fault)?;
    let mut int = signal(SignalKind::interrupt()).map_err(fault)?;
    let (told, stop) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
            if told.send(()).is_err() {
                break;
            }
        }
    });
    Ok(stop)
}
