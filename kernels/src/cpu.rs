//! The processor's implementation: one file an operation, its plain f64 reference beside it in the tests.
//!
//! * KN-1 (shapes): buffers have the lengths their operation's shape says.
//! * KN-2 (threads do not enter bits): work is divided into parts whose results do not depend on the division.
//! * KN-3 (no allocation): scratch is taken once, when the device is made.
//! * KN-4 (add is of the complete product): what is added to a sum is a product whose slices were all added before.
//! * KN-5 (tokens are in the vocabulary): every token names a row of its table.
//! * KN-6 (finite): what finite gradients make of finite weights with Adafactor is finite; why is said there.
//! * KN-7 (panels have their length): a packed operand takes its depth times its columns, filled to whole panels.
//! * KN-8 (no more than updates where there is no scratch): a device for updates gets nothing else to do.
//! * KN-9 (a class that is here): a device uses no vector instructions that the machine does not have.

mod adafactor;
mod adam;
mod attention;
mod class;
mod cross_entropy;
mod dropout;
mod elementwise;
mod embedding;
mod gelu;
mod half;
mod lanes;
mod layer_norm;
mod linear;
mod math;
mod matmul;
mod norm;
mod normal;
mod pool;
mod rms_norm;
mod rmsprop;
mod rope;
mod rows;
mod sgd;
mod swiglu;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use class::Class;
pub use matmul::SLICE;
pub use normal::normals;

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use pool::Pool;

use crate::arena::{Arena, ArenaError, Buffer, Tag};

/// f32 of scratch that each thread has.
const THREAD_SCRATCH: usize = 512 << 10;
/// f32 of scratch that one operation has for partial results of its parts.
const SHARED_SCRATCH: usize = 256 << 10;

/// Some cores of this machine.
pub struct CpuDevice {
    class: Class,
    pool: Pool,
    /// The class of the products: another than `class` in tests that want one answer of all, for two arithmetics have two.
    products: Class,
    scratch: Vec<Mutex<Buffer>>,
    packing: Vec<Mutex<Buffer>>,
    shared: Option<Mutex<Buffer>>,
    panels: Option<Mutex<Buffer>>,
}

impl CpuDevice {
    /// A device of `threads` threads (one means the caller's own) of the best instruction-set class there is.
    ///
    /// # Errors
    /// If `arena` has no room for its scratch, [`Self::own_bytes`].
    pub fn new(threads: usize, arena: &Arena) -> Result<Self, ArenaError> {
        Self::of_class(threads, arena, Class::detect())
    }

    /// As [`Self::new`], of a class that is [here](Class::here).
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of_class(threads: usize, arena: &Arena, class: Class) -> Result<Self, ArenaError> {
        Self::with_classes(threads, arena, class, class)
    }

    /// A device of one thread and of a class that is [here](Class::here), which applies updates, copies, adds and rounds, and takes
    /// no scratch: products, norms of rows, attention and embeddings are not for it.
    #[must_use]
    pub fn for_updates(class: Class) -> Self {
        assert!(class <= Class::detect(), "KN-9 (a class that is here)");
        Self {
            class,
            products: class,
            scratch: Vec::new(),
            packing: Vec::new(),
            shared: None,
            panels: None,
            pool: Pool::new(1),
        }
    }

    /// With a class for matrix products and one for everything else.
    fn with_classes(threads: usize, arena: &Arena, class: Class, products: Class) -> Result<Self, ArenaError> {
        assert!(class.max(products) <= Class::detect(), "KN-9 (a class that is here)");
        let threads = threads.max(1);
        let each = |len| (0..threads).map(move |_| arena.alloc(Tag::Temporary, len).map(Mutex::new));
        Ok(Self {
            class,
            products,
            scratch: each(THREAD_SCRATCH).collect::<Result<_, _>>()?,
            packing: each(matmul::ROOM).collect::<Result<_, _>>()?,
            shared: Some(Mutex::new(arena.alloc(Tag::Temporary, SHARED_SCRATCH)?)),
            panels: (threads > 1).then(|| arena.alloc(Tag::Temporary, matmul::SHARED)).transpose()?.map(Mutex::new),
            pool: Pool::new(threads),
        })
    }

    /// Bytes that [`Self::new`] takes of its arena.
    #[must_use]
    pub fn own_bytes(threads: usize) -> u64 {
        let threads = threads.max(1);
        let shared = if threads > 1 { matmul::SHARED } else { 0 };
        (size_of::<f32>() * (threads * (THREAD_SCRATCH + matmul::ROOM) + SHARED_SCRATCH + shared)) as u64
    }

    /// Its instruction-set class.
    #[must_use]
    pub fn class(&self) -> Class {
        self.class
    }

    /// Threads it computes on.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// Runs `body` on a thread of the device. A device has one caller at a time, its queue's thread: an operation holds scratch
    /// while it waits for the pool, whose threads could be given the operation of another caller meanwhile.
    pub fn enter<T: Send>(&self, body: impl FnOnce() -> T + Send) -> T {
        self.pool.enter(body)
    }

    /// This thread's scratch.
    fn thread_scratch(&self) -> MutexGuard<'_, Buffer> {
        // A panic leaves scratch with unspecified contents, which is what it has anyway.
        self.scratch[self.pool.thread()].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where this thread packs the operands of a product.
    fn pack_room(&self) -> MutexGuard<'_, Buffer> {
        self.packing[self.pool.thread()].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where threads together pack an operand of a product, if there are several and it is not in use.
    fn shared_panels(&self) -> Option<MutexGuard<'_, Buffer>> {
        match self.panels.as_ref()?.try_lock() {
            Ok(panels) => Some(panels),
            Err(TryLockError::Poisoned(panels)) => Some(panels.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Scratch for the partial results of one operation.
    fn shared_scratch(&self) -> MutexGuard<'_, Buffer> {
        let shared = self.shared.as_ref().expect("KN-8 (no more than updates where there is no scratch)");
        shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for CpuDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuDevice({}, {} threads)", self.class.name(), self.threads())
    }
}
