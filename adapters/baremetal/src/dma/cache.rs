//! Cache maintenance, for systems on which devices do not see what is in the CPU's caches.

use core::ptr::NonNull;

/// How the CPU's caches are made to agree with memory.
///
/// On a coherent system ([`Coherent`]: PCs, QEMU's machines, most Arm servers) there is nothing to do.
/// On another one, give the pool a region that is mapped uncached, or streaming buffers in cached memory
/// of which every cache line belongs to one buffer.
///
/// # Safety
/// After [`clean`](Self::clean) the device sees what the CPU wrote to the range before; after
/// [`invalidate`](Self::invalidate) the CPU sees what the device wrote to it before. Neither touches
/// bytes outside the lines of the range.
pub unsafe trait CacheMaintenance: Send + Sync {
    /// Bytes of a cache line, a power of two; 1 if nothing needs to be done.
    fn line_size(&self) -> usize;

    /// Writes the lines of `size` bytes at `start` back to memory.
    ///
    /// # Safety
    /// They are valid memory.
    unsafe fn clean(&self, start: NonNull<u8>, size: usize);

    /// Drops the lines of `size` bytes at `start`.
    ///
    /// # Safety
    /// They are valid memory, and what the CPU wrote to these lines is not needed any more.
    unsafe fn invalidate(&self, start: NonNull<u8>, size: usize);
}

/// Devices see the CPU's caches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Coherent;

// SAFETY: that devices see the caches is what this type says.
unsafe impl CacheMaintenance for Coherent {
    fn line_size(&self) -> usize {
        1
    }
    unsafe fn clean(&self, _: NonNull<u8>, _: usize) {}
    unsafe fn invalidate(&self, _: NonNull<u8>, _: usize) {}
}
