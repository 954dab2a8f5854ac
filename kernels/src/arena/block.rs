//! Raw memory from the system.

use std::alloc::Layout;
use std::io;
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

const ALIGN: usize = 64;
const PAGE: u64 = 4096;
/// From here on a block is a mapping of its own, so that freeing it returns it to the system at once.
const MAPPED: u64 = 64 << 10;
/// From here on the kernel is asked for huge pages, which are of this size on most machines.
const HUGE: u64 = 2 << 20;

pub(super) fn footprint(elements: usize) -> u64 {
    let bytes = (elements as u64).saturating_mul(4).max(1);
    let unit = if bytes >= MAPPED { PAGE } else { ALIGN as u64 };
    bytes.checked_next_multiple_of(unit).unwrap_or(u64::MAX)
}

/// `bytes` of 64-byte aligned memory.
pub(super) struct Block {
    at: NonNull<f32>,
    bytes: u64,
    content: Content,
}

/// What is known of a block's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// All zero, as the system gave it. Its pages may not be there yet: whoever writes first pays for them.
    Zero,
    /// Somebody may have written.
    Any,
}

// SAFETY: a block is plain memory that nothing else refers to.
unsafe impl Send for Block {}
// SAFETY: shared access is only through `&self`, which reads.
unsafe impl Sync for Block {}

impl Block {
    /// Takes a footprint from the system, zeroed.
    pub(super) fn new(bytes: u64) -> io::Result<Self> {
        let length = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let at = if bytes >= MAPPED {
            // SAFETY: a fresh private anonymous mapping aliases nothing.
            let at = unsafe {
                mmap_anonymous(std::ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
            }?;
            #[cfg(target_os = "linux")]
            if bytes >= HUGE {
                // Only advice: without it the memory is the same, with more page faults.
                // SAFETY: the range is the mapping just made.
                let _ = unsafe { madvise(at, length, Advice::LinuxHugepage) };
            }
            at.cast::<f32>()
        } else {
            // SAFETY: the layout is not empty, since footprints are at least 64.
            unsafe { std::alloc::alloc_zeroed(Self::layout(length)) }.cast::<f32>()
        };
        NonNull::new(at)
            .map(|at| Self { at, bytes, content: Content::Zero })
            .ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn elements(&self, count: usize) -> &[f32] {
        debug_assert!(count as u64 * 4 <= self.bytes);
        // SAFETY: the block has room for them, is initialised (zeroed when made), and any bits are an f32.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), count) }
    }

    pub(super) fn content(&self) -> Content {
        self.content
    }

    pub(super) fn elements_mut(&mut self, count: usize) -> &mut [f32] {
        self.content = Content::Any;
        debug_assert!(count as u64 * 4 <= self.bytes);
        // SAFETY: as in `elements`, and `&mut self` makes it the only access.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), count) }
    }

    fn layout(length: usize) -> Layout {
        Layout::from_size_align(length, ALIGN).expect("AR-4 (a footprint has a layout)")
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let length = self.bytes as usize;
        if self.bytes >= MAPPED {
            // SAFETY: exactly the mapping made in `new`; nothing refers to it any more.
            let unmapped = unsafe { munmap(self.at.as_ptr().cast(), length) };
            debug_assert!(unmapped.is_ok(), "munmap of an own mapping: {unmapped:?}");
        } else {
            // SAFETY: allocated in `new` with this layout.
            unsafe { std::alloc::dealloc(self.at.as_ptr().cast(), Self::layout(length)) };
        }
    }
}
