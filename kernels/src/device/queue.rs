//! The one ordered queue through which a device is used.
//!
//! QU-1 (the thread outlives its queue): it ends only when no sender is left.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Device;

/// A job that panicked; the device and the jobs behind it are unharmed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("device job panicked: {message}")]
pub struct JobPanic {
    /// What it panicked with.
    pub message: String,
}

type Job = Box<dyn FnOnce(&Device) + Send>;

/// A thread that owns a device and runs jobs in the order they were submitted. Clones feed the same thread; it ends, after
/// what was submitted is done, when the last clone is dropped.
#[derive(Clone)]
pub struct Queue {
    jobs: Sender<Job>,
    busy_nanos: Arc<AtomicU64>,
    in_hand: Arc<Hand>,
}

/// When the job was begun that the thread runs now, and who waits for its end.
#[derive(Debug, Default)]
struct Hand {
    begun: Mutex<Option<Instant>>,
    changed: Condvar,
}

impl Queue {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(name: &str, device: Device) -> std::io::Result<Self> {
        let (jobs, inbox) = channel::<Job>();
        let busy_nanos = Arc::new(AtomicU64::new(0));
        let in_hand = Arc::new(Hand::default());
        let (busy, hand) = (Arc::clone(&busy_nanos), Arc::clone(&in_hand));
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            for job in inbox {
                let start = Instant::now();
                hand.set(Some(start));
                // The job reports its own panic; this one guards the thread against a panic in a completion.
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| job(&device))) {
                    tracing::error!(reason = message_of(&*panic), "device completion panicked");
                }
                hand.set(None);
                busy.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
            }
        })?;
        Ok(Self { jobs, busy_nanos, in_hand })
    }

    /// Queues `job` and returns at once; `done` gets its result, or its panic, on the device thread: it should only pass
    /// it on.
    pub fn submit<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Device) -> T + Send + 'static,
        done: impl FnOnce(Result<T, JobPanic>) + Send + 'static,
    ) {
        let run = move |device: &Device| {
            let result = catch_unwind(AssertUnwindSafe(|| device.enter(|| job(device))));
            done(result.map_err(|panic| JobPanic { message: message_of(&*panic).to_owned() }));
        };
        self.jobs
            .send(Box::new(run))
            .expect("QU-1 (the thread outlives its queue): it ends only when no sender is left");
    }

    /// Seconds spent in jobs and completions.
    #[must_use]
    pub fn busy_seconds(&self) -> f64 {
        self.busy_nanos.load(Ordering::Relaxed) as f64 * 1e-9
    }
}

impl Queue {
    /// For how long the thread has been in the job that it runs now; none if it runs none.
    #[must_use]
    pub fn in_hand(&self) -> Option<Duration> {
        self.in_hand.lock().map(|begun| begun.elapsed())
    }

    /// Waits until the thread runs nothing, for at most `patience`; whether that came true.
    #[must_use]
    pub fn wait_idle(&self, patience: Duration) -> bool {
        let hand = &self.in_hand;
        let waited = hand.changed.wait_timeout_while(hand.lock(), patience, |begun| begun.is_some());
        waited.unwrap_or_else(PoisonError::into_inner).0.is_none()
    }
}

impl Hand {
    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        // Only ever assigned: a panic elsewhere cannot leave half of it.
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, begun: Option<Instant>) {
        *self.lock() = begun;
        self.changed.notify_all();
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Queue({:.3} s busy)", self.busy_seconds())
    }
}

fn message_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("panic without a message")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::{Arena, Budget, Tier};

    const DEADLINE: Duration = Duration::from_secs(20);

    fn queue(threads: usize) -> Queue {
        let arena = Arena::new(Tier::Device, 64 << 20, &Budget::new(64 << 20));
        Queue::start("device-test", Device::cpu(threads, &arena).expect("room for scratch")).expect("a thread")
    }

    #[test]
    fn jobs_run_in_order_and_a_panic_reaches_only_its_own_completion() {
        for threads in [1, 2] {
            let queue = queue(threads);
            let (tell, told) = channel();
            for i in 0..6 {
                let tell = tell.clone();
                queue.submit(
                    move |_| {
                        assert!(i != 3, "job {i} fails");
                        i
                    },
                    move |result| tell.send(result).expect("the test listens"),
                );
            }
            for i in 0..6 {
                let result = told.recv_timeout(DEADLINE).expect("every job completes");
                match result {
                    Ok(done) => assert_eq!(done, i),
                    Err(panic) => assert_eq!((i, panic.message.as_str()), (3, "job 3 fails")),
                }
            }
        }
    }

    #[test]
    fn what_is_in_hand_is_known_until_it_ends() {
        let queue = queue(1);
        let (go_on, wait) = channel::<()>();
        let (tell, told) = channel();
        let begun = tell.clone();
        queue.submit(
            move |_| {
                begun.send(()).expect("the test listens");
                wait.recv_timeout(DEADLINE).expect("the test goes on");
            },
            |result| result.expect("it ends"),
        );
        told.recv_timeout(DEADLINE).expect("it begins");
        let first = queue.in_hand().expect("it runs");
        assert!(queue.in_hand().expect("it runs still") >= first);
        go_on.send(()).expect("it waits");
        queue.submit(|_| (), move |_| tell.send(()).expect("the test listens"));
        told.recv_timeout(DEADLINE).expect("the next one runs");
        assert!(queue.wait_idle(DEADLINE), "nothing is left to do");
        assert_eq!(queue.in_hand(), None);
    }

    #[test]
    fn a_panicking_completion_leaves_the_thread_alive_and_time_is_counted() {
        let queue = queue(1);
        let (tell, told) = channel();
        queue.submit(|_| (), |_| panic!("completion fails"));
        let start = Instant::now();
        queue.submit(
            |_| {
                let begin = Instant::now();
                while begin.elapsed() < Duration::from_millis(5) {
                    std::hint::spin_loop();
                }
            },
            {
                let tell = tell.clone();
                move |_| tell.send(()).expect("the test listens")
            },
        );
        queue.submit(|_| (), move |_| tell.send(()).expect("the test listens"));
        for _ in 0..2 {
            told.recv_timeout(DEADLINE).expect("the thread lives on");
        }
        let busy = queue.busy_seconds();
        assert!(busy >= 0.005 && busy <= start.elapsed().as_secs_f64() + 0.5, "{busy}");
    }
}
