//! A buffer from the pool.

use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use tombolo_hal::dma::{CoherentRegion, DmaMemory};
use tombolo_hal::lock::RawLock;

use super::{CacheMaintenance, DmaPool};

/// Bytes that can go to a device (`Streaming`) and come back. Dropping it gives it back to the pool.
pub struct DmaBuffer<'p, L: RawLock, H: CacheMaintenance, const N: usize> {
    pool: &'p DmaPool<L, H, N>,
    start: NonNull<u8>,
    size: usize,
    /// What was taken from the pool: whole cache lines.
    room: usize,
}

// SAFETY: the bytes belong to this value alone, and the pool can be used from anywhere.
unsafe impl<L: RawLock, H: CacheMaintenance, const N: usize> Send for DmaBuffer<'_, L, H, N> {}
// SAFETY: as for `Send`; a shared buffer can only be read.
unsafe impl<L: RawLock, H: CacheMaintenance, const N: usize> Sync for DmaBuffer<'_, L, H, N> {}

impl<'p, L: RawLock, H: CacheMaintenance, const N: usize> DmaBuffer<'p, L, H, N> {
    pub(super) fn new(pool: &'p DmaPool<L, H, N>, region: CoherentRegion, room: usize) -> Self {
        Self { pool, start: region.cpu, size: region.size, room }
    }
}

impl<L: RawLock, H: CacheMaintenance, const N: usize> Drop for DmaBuffer<'_, L, H, N> {
    fn drop(&mut self) {
        self.pool.give_back(self.start, self.room);
    }
}

impl<L: RawLock, H: CacheMaintenance, const N: usize> Deref for DmaBuffer<'_, L, H, N> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `size` initialised bytes that belong to this value; while a device has them, so does
        // hal's `Streaming` have this value, and nobody can call this.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.size) }
    }
}

impl<L: RawLock, H: CacheMaintenance, const N: usize> DerefMut for DmaBuffer<'_, L, H, N> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.size) }
    }
}

impl<L: RawLock, H: CacheMaintenance, const N: usize> core::fmt::Debug for DmaBuffer<'_, L, H, N> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("DmaBuffer").field("size", &self.size).finish_non_exhaustive()
    }
}

// SAFETY: the bytes lie in the pool and stay where they are; this value owns them until it is dropped.
unsafe impl<L: RawLock + 'static, H: CacheMaintenance + 'static, const N: usize> DmaMemory
    for DmaBuffer<'static, L, H, N>
{
    fn memory(&mut self) -> (NonNull<u8>, usize) {
        (self.start, self.size)
    }
}
