//! Tagged, capped memory.
//!
//! * AR-1 (hard cap): what an arena holds, cached memory included, never exceeds its cap, nor what all arenas of a node hold
//!   their budget.
//! * AR-2 (one account): the live bytes of all tags sum to the footprints of the buffers alive.
//! * AR-3 (steady state): a request of a size that was freed before takes no memory from the system.
//! * AR-4 (a footprint has a layout): below 64 KiB, that is; above it are pages.
//! * AR-5 (a buffer has its block until dropped): nothing takes it out before.
//!
//! A buffer's footprint is its bytes rounded up to 64, or to whole pages from 64 KiB on; all figures are footprints.

mod block;
mod budget;
mod buffer;
mod error;
mod names;
mod view;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use budget::Budget;
pub use buffer::Buffer;
pub use error::ArenaError;
pub use names::{Tag, Tier};
pub use view::{View, ViewMut};

use block::{Block, Content};

/// Bytes of one tag, or of an arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Alive now.
    pub live: u64,
    /// The most that were alive at once, since the marks began.
    pub high: u64,
}

impl Usage {
    fn add(&mut self, bytes: u64) {
        self.live += bytes;
        self.high = self.high.max(self.live);
    }

    fn remove(&mut self, bytes: u64) {
        self.live = self.live.checked_sub(bytes).expect("AR-2 (one account): freed more than was alive");
    }
}

/// A handle on one arena; clones are the same arena.
#[derive(Clone)]
pub struct Arena {
    shared: Arc<Shared>,
}

struct Shared {
    tier: Tier,
    cap: u64,
    budget: Budget,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    tags: [Usage; Tag::ALL.len()],
    total: Usage,
    cached: u64,
    /// Free blocks by footprint.
    free: BTreeMap<u64, Vec<Block>>,
}

impl Arena {
    /// An arena of `tier` that holds at most `cap` bytes and charges `budget` for them.
    #[must_use]
    pub fn new(tier: Tier, cap: u64, budget: &Budget) -> Self {
        let shared = Arc::new(Shared { tier, cap, budget: budget.clone(), state: Mutex::default() });
        budget.enrol(&shared);
        Self { shared }
    }

    /// Takes room for `elements` f32. Contents are unspecified (in debug builds they are NaN).
    ///
    /// # Errors
    /// [`ArenaError`] if the arena's cap, the node's budget or the system does not allow it.
    pub fn alloc(&self, tag: Tag, elements: usize) -> Result<Buffer, ArenaError> {
        let bytes = Self::footprint(elements);
        let mut block = self.shared.take(tag, bytes)?;
        if cfg!(debug_assertions) {
            block.elements_mut(elements).fill(f32::NAN);
        }
        Ok(Buffer::new(block, elements, tag, self.clone()))
    }

    /// Takes room for `elements` zeros.
    ///
    /// # Errors
    /// As [`Self::alloc`].
    pub fn alloc_zeroed(&self, tag: Tag, elements: usize) -> Result<Buffer, ArenaError> {
        let mut block = self.shared.take(tag, Self::footprint(elements))?;
        match block.content() {
            Content::Zero => {}
            Content::Any => block.elements_mut(elements).fill(0.0),
        }
        Ok(Buffer::new(block, elements, tag, self.clone()))
    }

    /// Bytes that a buffer of `elements` f32 counts for.
    #[must_use]
    pub fn footprint(elements: usize) -> u64 {
        block::footprint(elements)
    }

    /// Live and high-water bytes of one tag.
    #[must_use]
    pub fn usage(&self, tag: Tag) -> Usage {
        self.shared.lock().tags[tag as usize]
    }

    /// Live and high-water bytes of all tags together.
    #[must_use]
    pub fn total(&self) -> Usage {
        self.shared.lock().total
    }

    /// Bytes free but kept for reuse; they count against the cap until evicted.
    #[must_use]
    pub fn cached(&self) -> u64 {
        self.shared.lock().cached
    }

    /// Gives all cached memory back to the system and returns how many bytes that was.
    pub fn trim(&self) -> u64 {
        self.shared.evict(u64::MAX)
    }

    /// Begins the high-water marks anew, at what is alive now.
    pub fn restart_marks(&self) {
        let mut state = self.shared.lock();
        let State { tags, total, .. } = &mut *state;
        tags.iter_mut().chain([total]).for_each(|usage| usage.high = usage.live);
    }

    /// The arena's tier.
    #[must_use]
    pub fn tier(&self) -> Tier {
        self.shared.tier
    }

    /// The arena's cap in bytes.
    #[must_use]
    pub fn cap(&self) -> u64 {
        self.shared.cap
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.total();
        write!(f, "Arena({}, {} live, {} high, cap {})", self.shared.tier, total.live, total.high, self.shared.cap)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No user code runs under the lock, and each update leaves the account whole before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, tag: Tag, bytes: u64) -> Result<Block, ArenaError> {
        let mut state = self.lock();
        if let Some(block) = state.reuse(bytes) {
            state.count(tag, bytes);
            return Ok(block);
        }
        let tier = self.tier;
        if state.total.live.checked_add(bytes).is_none_or(|sum| sum > self.cap) {
            return Err(ArenaError::OverCap { tier, tag, bytes, live: state.total.live, cap: self.cap });
        }
        let over = (state.total.live + state.cached).saturating_add(bytes).saturating_sub(self.cap);
        state.evict(over, &self.budget);
        drop(state);
        // The budget may evict from any arena, this one too, so it is asked without the lock.
        self.budget.charge(bytes).map_err(|(live, cap)| ArenaError::OverBudget { tier, tag, bytes, live, cap })?;
        let mut state = self.lock();
        if state.total.live + bytes > self.cap {
            // Another thread took the room meanwhile.
            self.budget.release(bytes);
            return Err(ArenaError::OverCap { tier, tag, bytes, live: state.total.live, cap: self.cap });
        }
        let over = (state.total.live + state.cached).saturating_add(bytes).saturating_sub(self.cap);
        state.evict(over, &self.budget);
        match Block::new(bytes) {
            Ok(block) => {
                state.count(tag, bytes);
                Ok(block)
            }
            Err(source) => {
                self.budget.release(bytes);
                Err(ArenaError::Refused { tier, tag, bytes, source })
            }
        }
    }

    fn give_back(&self, block: Block, tag: Tag) {
        let bytes = block.bytes();
        let mut state = self.lock();
        state.tags[tag as usize].remove(bytes);
        state.total.remove(bytes);
        state.cached += bytes;
        state.free.entry(bytes).or_default().push(block);
    }

    fn retag(&self, bytes: u64, from: Tag, to: Tag) {
        let mut state = self.lock();
        state.tags[from as usize].remove(bytes);
        state.tags[to as usize].add(bytes);
    }

    /// Frees cached blocks of at least `wanted` bytes together, or all there are.
    fn evict(&self, wanted: u64) -> u64 {
        self.lock().evict(wanted, &self.budget)
    }
}

impl State {
    fn reuse(&mut self, bytes: u64) -> Option<Block> {
        let block = self.free.get_mut(&bytes)?.pop()?;
        self.cached -= bytes;
        Some(block)
    }

    fn count(&mut self, tag: Tag, bytes: u64) {
        self.tags[tag as usize].add(bytes);
        self.total.add(bytes);
    }

    fn evict(&mut self, wanted: u64, budget: &Budget) -> u64 {
        let mut freed = 0;
        while freed < wanted {
            // Largest first: fewest blocks to find again.
            let Some(mut entry) = self.free.last_entry() else { break };
            match entry.get_mut().pop() {
                Some(block) => freed += block.bytes(),
                None => drop(entry.remove()),
            }
        }
        self.cached -= freed;
        budget.release(freed);
        freed
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.evict(u64::MAX);
    }
}
