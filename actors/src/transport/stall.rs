//! Notices a transfer of which nothing moves any more.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::sleep;

/// Looks within one wait.
const LOOKS: u32 = 20;
/// Keep-alives, heartbeats and acknowledgements of one wait stay below this; more is other transfers, which may hold up
/// one that ranks behind them.
const CHATTER: u64 = 64 << 10;

/// Bytes that one transfer has moved.
#[derive(Debug, Default)]
pub(super) struct Moved(AtomicU64);

impl Moved {
    pub(super) fn bytes(&self, bytes: usize) {
        self.0.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// Returns once neither the transfer has moved for `wait` nor `link`, which gives the bytes that its connection has
/// carried in its direction. A look that comes late (a stopped process, busy cores) counts with its nominal length, so the
/// end moves by as much as the timer was late.
pub(super) async fn stalled(wait: Duration, moved: &Moved, link: impl Fn() -> u64) {
    let own = || moved.0.load(Ordering::Relaxed);
    let mut standstill = Standstill { wait, left: wait, own: own(), link: link() };
    while let Some(slice) = standstill.next() {
        sleep(slice).await;
        standstill.look(slice, own(), link());
    }
}

/// For how long nothing may go on not moving.
struct Standstill {
    wait: Duration,
    left: Duration,
    own: u64,
    link: u64,
}

impl Standstill {
    /// How long to wait for the next look; nothing once it has lasted too long.
    fn next(&self) -> Option<Duration> {
        let slice = (self.wait / LOOKS).max(Duration::from_millis(1)).min(self.left);
        (!slice.is_zero()).then_some(slice)
    }

    fn look(&mut self, after: Duration, own: u64, link: u64) {
        if own != self.own || link >= self.link.saturating_add(CHATTER) {
            *self = Self { wait: self.wait, left: self.wait, own, link };
        } else {
            self.left = self.left.saturating_sub(after);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_secs(10);

    /// Looks until it has lasted too long; `moves` gives both counts at each look.
    fn looks(most: u32, moves: impl Fn(u32) -> (u64, u64)) -> Option<u32> {
        let mut standstill = Standstill { wait: WAIT, left: WAIT, own: 0, link: 0 };
        for number in 0..most {
            let Some(slice) = standstill.next() else { return Some(number) };
            let (own, link) = moves(number);
            standstill.look(slice, own, link);
        }
        None
    }

    #[test]
    fn what_stands_still_is_noticed_after_the_wait() {
        assert_eq!(looks(100, |_| (0, 0)), Some(LOOKS));
        assert_eq!(looks(100, |number| (u64::from(number.min(7)), 0)), Some(7 + 1 + LOOKS), "from the last byte on");
    }

    #[test]
    fn keep_alives_do_not_hide_a_standstill() {
        assert_eq!(looks(100, |number| (0, u64::from(number) * (CHATTER / u64::from(2 * LOOKS)))), Some(LOOKS));
    }

    #[test]
    fn a_byte_of_its_own_or_much_of_others_is_progress() {
        assert_eq!(looks(1000, |number| (u64::from(number / 19), 0)), None);
        assert_eq!(looks(1000, |number| (0, u64::from(number) * CHATTER / 10)), None);
    }
}
