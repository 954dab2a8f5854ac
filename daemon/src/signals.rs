//! Being told to stop.

use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::run::DaemonError;

/// Yields once for every SIGTERM or SIGINT. From now on, a file that may not grow any more is an error of whoever writes it,
/// as on a full disk, and not the end of the process.
pub(crate) fn stop() -> Result<mpsc::UnboundedReceiver<()>, DaemonError> {
    let fault = |source| DaemonError::System { what: "a signal handler", source };
    let mut term = signal(SignalKind::terminate()).map_err(fault)?;
    let mut int = signal(SignalKind::interrupt()).map_err(fault)?;
    // Once caught, a signal stays caught; nobody has to listen.
    drop(signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).map_err(fault)?);
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
