use std::sync::Mutex;

use super::*;

/// The runs of a division, in order.
fn runs(threads: usize, count: usize, unit: usize, evenly: bool) -> Vec<Range<usize>> {
    let (pool, runs) = (Pool::new(threads), Mutex::new(Vec::new()));
    let body = |run| runs.lock().expect("no run panics").push(run);
    if evenly {
        pool.divide_evenly(count, unit, body)
    } else {
        pool.divide(count, unit, body)
    }
    let mut runs = runs.into_inner().expect("no run panics");
    runs.sort_unstable_by_key(|run: &Range<usize>| (run.start, run.end));
    runs
}

#[test]
fn runs_follow_each_other_in_whole_units() {
    for threads in [1, 2, 3, 16] {
        for (count, unit) in [(1, 1), (1, 16), (100, 16), (2048, 48), (50_304, 64), (1_000_000, 1)] {
            for evenly in [false, true] {
                let runs = runs(threads, count, unit, evenly);
                assert_eq!((runs[0].start, runs[runs.len() - 1].end), (0, count), "{runs:?}");
                assert!(runs.windows(2).all(|w| w[0].end == w[1].start && w[0].end % unit == 0), "{runs:?}");
                assert!(runs.len() <= if evenly { threads } else { MOST }, "{runs:?}");
                assert!(threads > 1 || runs.len() == 1, "{runs:?}");
            }
        }
    }
}

/// What is left when a thread is done is less than what it did: nobody waits for long.
#[test]
fn runs_become_smaller() {
    let lengths: Vec<usize> = runs(2, 9_600, 48, false).iter().map(ExactSizeIterator::len).collect();
    assert_eq!(lengths[..3], [67 * 48, 45 * 48, 30 * 48]);
    assert!(lengths.is_sorted_by(|a, b| a >= b) && lengths[lengths.len() - 1] == 48, "{lengths:?}");
}

#[test]
fn every_part_is_called_once() {
    for threads in [1, 3] {
        let calls = [const { AtomicUsize::new(0) }; 50];
        Pool::new(threads).each(50, |part| {
            calls[part].fetch_add(1, Ordering::Relaxed);
        });
        assert!(calls.iter().all(|calls| calls.load(Ordering::Relaxed) == 1));
    }
}
