//! Waiting for a predicate over a value, with a deadline; never for "some time".

use std::time::{Duration, Instant};

/// Asks again until `probe` gives a value.
///
/// # Panics
/// When the deadline passes; says what was waited for.
pub fn until<T>(what: &str, limit: Duration, mut probe: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = probe() {
            return value;
        }
        assert!(start.elapsed() < limit, "waited {limit:?} for {what}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}
