//! How far a reading of data has come, and whether it should go on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::DataError;

/// Shared by the thread that reads and whoever shows how far it is.
#[derive(Debug)]
pub struct Reading {
    done: AtomicU64,
    all: AtomicU64,
    stopped: AtomicBool,
    since: Instant,
    /// When something was last read, in milliseconds since then.
    last: AtomicU64,
}

impl Default for Reading {
    fn default() -> Self {
        Self {
            done: AtomicU64::new(0),
            all: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            since: Instant::now(),
            last: AtomicU64::new(0),
        }
    }
}

impl Reading {
    /// For so long nothing was read.
    #[must_use]
    pub fn idle(&self) -> Duration {
        self.since.elapsed().saturating_sub(Duration::from_millis(self.last.load(Ordering::Relaxed)))
    }

    /// Tokens read, and tokens in all.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.all.load(Ordering::Relaxed))
    }

    /// Nobody wants the rest.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// It begins, and there are so many tokens.
    pub(crate) fn begin(&self, tokens: u64) {
        self.all.store(tokens, Ordering::Relaxed);
    }

    /// So many more tokens are read.
    pub(crate) fn advance(&self, tokens: u64) -> Result<(), DataError> {
        self.done.fetch_add(tokens, Ordering::Relaxed);
        self.last.store(self.since.elapsed().as_millis() as u64, Ordering::Relaxed);
        if self.stopped.load(Ordering::Relaxed) { Err(DataError::Stopped) } else { Ok(()) }
    }
}
