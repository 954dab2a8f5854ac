//! Waiting that does not blame others for an own late timer.

use std::future::Future;
use std::time::Duration;

use tokio::time::sleep;

/// The steps in which time is counted.
const SLICE: Duration = Duration::from_millis(20);

/// Waits for `wait` in small steps. A step that comes late (a stopped process, busy cores) counts with its nominal
/// length, so the end moves by as much as the timer was late.
pub(super) async fn patience(wait: Duration) {
    let mut left = wait;
    while !left.is_zero() {
        let slice = left.min(SLICE);
        sleep(slice).await;
        left -= slice;
    }
}

/// The result of `work`, or nothing if it takes longer than `wait`.
pub(super) async fn within<T>(wait: Duration, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        done = work => Some(done),
        () = patience(wait) => None,
    }
}
