//! A device as actors use it: one thread, one FIFO of closures, the only place that computes.
//!
//! A worker has two: `compute` in the device arena (stages and owned pieces), `store` in the host arena (shadow pieces).

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use shoal_config::node;
use shoal_config::spec::Auto;
use shoal_exact::Arithmetic;
use shoal_kernels::{Arena, ArenaError, Budget, Class, Device, JobPanic, Queue, Tag, Tier};
use shoal_plan::protocol::InHand;
use tokio::sync::oneshot;

/// Why a device cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// Its scratch memory does not fit.
    #[error("no room for the device's scratch memory")]
    Scratch(#[source] ArenaError),
    /// The machine does not have what the operator asked for.
    #[error("`class` is \"{asked}\", and this machine has {here}; name one of those, or \"auto\" for the best of them")]
    Class {
        /// What was asked for.
        asked: &'static str,
        /// What there is.
        here: String,
    },
    /// The system gives no thread.
    #[error("no thread for the device")]
    Thread(#[source] std::io::Error),
}

/// What devices of this machine compute with.
///
/// # Errors
/// If it does not have the class that is asked for.
pub fn class(asked: Auto<node::Class>) -> Result<Class, DeviceError> {
    match asked {
        Auto::Auto => Ok(Class::detect()),
        Auto::Set(class) => Class::named(class.name()).ok_or_else(|| DeviceError::Class {
            asked: class.name(),
            here: Class::here().into_iter().map(Class::name).collect::<Vec<_>>().join(" and "),
        }),
    }
}

/// A device's thread with the arena it computes in. Clones are the same device.
#[derive(Clone, Debug)]
pub struct DeviceThread {
    queue: Queue,
    arena: Arena,
    class: &'static str,
    arithmetic: Arithmetic,
}

impl DeviceThread {
    /// Starts the thread of `device`, whose buffers come from `arena`.
    ///
    /// # Errors
    /// If the thread cannot be had.
    pub fn of(name: &str, device: Device, arena: Arena) -> Result<Self, DeviceError> {
        let (class, arithmetic) = (device.class(), device.arithmetic());
        let queue = Queue::start(name, device).map_err(DeviceError::Thread)?;
        Ok(Self { queue, arena, class, arithmetic })
    }

    /// Where its buffers come from.
    #[must_use]
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Instruction-set class.
    #[must_use]
    pub fn class(&self) -> &'static str {
        self.class
    }

    /// What its matrix products compute.
    #[must_use]
    pub fn arithmetic(&self) -> Arithmetic {
        self.arithmetic
    }

    /// Seconds that it computed.
    #[must_use]
    pub fn busy_seconds(&self) -> f64 {
        self.queue.busy_seconds()
    }

    /// For how long it has been in the job that it runs now; none if it is idle.
    #[must_use]
    pub fn in_hand(&self) -> Option<Duration> {
        self.queue.in_hand()
    }

    /// Queues a job and returns at once; `done` gets its result on the device's thread and should only pass it on.
    pub fn submit<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Device) -> T + Send + 'static,
        done: impl FnOnce(Result<T, JobPanic>) + Send + 'static,
    ) {
        self.queue.submit(job, done);
    }

    /// Queues a job at once; the future gives its result.
    pub fn run<T: Send + 'static, J: FnOnce(&Device) -> T + Send + 'static>(
        &self,
        job: J,
    ) -> impl Future<Output = Result<T, JobPanic>> + Send + 'static + use<T, J> {
        let (tell, told) = oneshot::channel();
        // An error means that nobody waits any more.
        self.queue.submit(job, move |result| drop(tell.send(result)));
        async move {
            match told.await {
                Ok(result) => result,
                Err(_) => Err(JobPanic { message: "the device thread dropped the job".to_owned() }),
            }
        }
    }
}

/// The devices of one worker and the memory they share.
#[derive(Clone, Debug)]
pub struct Devices {
    /// Stages and owned pieces, in the device arena.
    pub compute: DeviceThread,
    /// Shadow pieces, in the host arena.
    pub store: DeviceThread,
    budget: Budget,
}

impl Devices {
    /// A compute device of `threads` threads and a store thread, both of a class that is here, that together hold at most
    /// `budget_bytes`.
    ///
    /// # Errors
    /// If the budget does not even hold their scratch memory, or the system gives no threads.
    pub fn start(name: &str, class: Class, threads: usize, budget_bytes: u64) -> Result<Self, DeviceError> {
        let budget = Budget::new(budget_bytes);
        let arena = |tier| Arena::new(tier, budget_bytes, &budget);
        let (on_device, on_host) = (arena(Tier::Device), arena(Tier::Host));
        let compute = Device::cpu_of(class, threads, &on_device).map_err(DeviceError::Scratch)?;
        Ok(Self {
            compute: DeviceThread::of(&format!("{name}-device"), compute, on_device)?,
            store: DeviceThread::of(&format!("{name}-store"), Device::for_updates(class), on_host)?,
            budget,
        })
    }

    /// Bytes that all arenas hold now, caches included.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.budget.held()
    }

    /// The oldest job that one of the threads is in.
    #[must_use]
    pub fn in_hand(&self) -> Option<InHand> {
        let threads = [("compute device", &self.compute), ("store", &self.store)];
        let busy = threads.into_iter().filter_map(|(what, thread)| Some((what, thread.in_hand()?)));
        let (what, time) = busy.max_by_key(|(_, time)| *time)?;
        Some(InHand { what: what.to_owned(), millis: time.as_millis() as u64 })
    }

    /// Every tier and tag that was used since the marks began.
    #[must_use]
    pub fn arena_lines(&self) -> Vec<shoal_wire::api::ArenaLine> {
        let mut lines = Vec::new();
        for arena in [self.compute.arena(), self.store.arena()] {
            for tag in Tag::ALL {
                let usage = arena.usage(tag);
                if usage.high > 0 {
                    lines.push(shoal_wire::api::ArenaLine {
                        tier: arena.tier().name().to_owned(),
                        tag: tag.name().to_owned(),
                        live_bytes: usage.live,
                        high_water_bytes: usage.high,
                    });
                }
            }
        }
        lines
    }
}

/// Ends queued work that is no longer wanted: jobs ask before they compute.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// From now on the work is unwanted.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether the work is unwanted.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use shoal_config::node::{least_memory, own_memory};

    use shoal_kernels::CpuDevice;

    use super::*;

    #[test]
    fn devices_compute_with_what_they_are_told_to() {
        let own = own_memory(1).0;
        for class in Class::here() {
            let devices = Devices::start("test", class, 1, own).expect("just enough");
            for thread in [&devices.compute, &devices.store] {
                assert_eq!((thread.class(), thread.arithmetic()), (class.name(), class.arithmetic()));
            }
        }
        assert_eq!(class(Auto::Auto).ok(), Some(Class::detect()));
        let foreign = if cfg!(target_arch = "aarch64") { node::Class::Avx2 } else { node::Class::Neon };
        let said = class(Auto::Set(foreign)).expect_err("of another processor").to_string();
        let best = Class::detect().name();
        assert!(said.starts_with(&format!("`class` is \"{}\", and this machine has ", foreign.name())), "{said}");
        assert!(said.contains(&format!("{best}; name one of those, or \"auto\"")), "{said}");
    }

    /// The planner counts with what the configuration says of devices; here it is what they take.
    #[test]
    fn devices_take_what_the_planner_leaves_them() {
        for threads in [1, 2, 3, 5] {
            let own = own_memory(threads);
            let devices = Devices::start("test", Class::detect(), threads as usize, own.0).expect("just enough");
            assert_eq!(devices.used_bytes(), own.0, "{threads} threads");
            assert_eq!(CpuDevice::own_bytes(threads as usize), own.0, "{threads} threads");
            assert!(Devices::start("test", Class::detect(), threads as usize, own.0 - 1).is_err(), "{threads} threads");
            assert!(least_memory(threads).0 >= own.0 + (4 << 20));
        }
    }
}
