//! What one node may hold over all its arenas.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::Shared;

/// A hard bound on the bytes that all arenas enrolled with it hold together; clones are the same budget.
#[derive(Clone)]
pub struct Budget {
    inner: Arc<Inner>,
}

struct Inner {
    cap: u64,
    held: AtomicU64,
    arenas: Mutex<Vec<Weak<Shared>>>,
}

impl Budget {
    /// A budget of `cap` bytes.
    #[must_use]
    pub fn new(cap: u64) -> Self {
        Self { inner: Arc::new(Inner { cap, held: AtomicU64::new(0), arenas: Mutex::default() }) }
    }

    /// Bytes held by all arenas, caches included.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.inner.held.load(Ordering::Acquire)
    }

    /// The bound.
    #[must_use]
    pub fn cap(&self) -> u64 {
        self.inner.cap
    }

    pub(super) fn enrol(&self, arena: &Arc<Shared>) {
        let mut arenas = self.inner.arenas.lock().unwrap_or_else(PoisonError::into_inner);
        arenas.retain(|a| a.strong_count() > 0);
        arenas.push(Arc::downgrade(arena));
    }

    /// Counts `bytes`, evicting caches of every arena if that is what it takes; else says what is held and the cap.
    pub(super) fn charge(&self, bytes: u64) -> Result<(), (u64, u64)> {
        if self.try_charge(bytes) {
            return Ok(());
        }
        let arenas: Vec<Arc<Shared>> = {
            let list = self.inner.arenas.lock().unwrap_or_else(PoisonError::into_inner);
            list.iter().filter_map(Weak::upgrade).collect()
        };
        for arena in arenas {
            let missing = self.held().saturating_add(bytes).saturating_sub(self.inner.cap);
            arena.evict(missing);
            if self.try_charge(bytes) {
                return Ok(());
            }
        }
        Err((self.held(), self.inner.cap))
    }

    pub(super) fn release(&self, bytes: u64) {
        self.inner.held.fetch_sub(bytes, Ordering::AcqRel);
    }

    fn try_charge(&self, bytes: u64) -> bool {
        let fits = |held: u64| held.checked_add(bytes).filter(|&sum| sum <= self.inner.cap);
        self.inner.held.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits).is_ok()
    }
}

impl std::fmt::Debug for Budget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Budget({} of {})", self.held(), self.cap())
    }
}
