//! The backend for a real mapping: volatile accesses with the architecture's barriers.
#![allow(unsafe_code)]

use core::ptr::NonNull;

use super::{Caching, Mmio, MmioNarrow};
use crate::barrier::{mmio_after_read, mmio_before_write};

/// A mapping of device memory in this address space.
///
/// No reference to device memory is ever made; each access is one volatile word.
#[derive(Clone, Copy, Debug)]
pub struct RawMmio {
    base: NonNull<u8>,
    size: usize,
    caching: Caching,
}

// SAFETY: a device mapping has no thread affinity, and each access is one volatile word. Sequences
// that must not mix are serialised by their callers (`RawLock`).
unsafe impl Send for RawMmio {}
// SAFETY: as for `Send`.
unsafe impl Sync for RawMmio {}

impl RawMmio {
    /// The mapping of `size` bytes at `base`.
    ///
    /// # Safety
    /// - `base` is aligned to 8 and `size` bytes from it are mapped device memory (or memory that is
    ///   only ever accessed through volatile or atomic accesses) for as long as a copy of the value
    ///   exists. A mapping that can be taken away must be replaced by one that reads all ones.
    /// - `caching` tells how it is mapped.
    pub const unsafe fn new(base: NonNull<u8>, size: usize, caching: Caching) -> Self {
        Self { base, size, caching }
    }

    /// Whether `width` bytes at `offset` are inside and aligned.
    #[inline(always)]
    fn holds(&self, offset: usize, width: usize) -> bool {
        offset & (width - 1) == 0 && offset < self.size && self.size - offset >= width
    }

    /// # Safety
    /// `T` at `offset` is inside the mapping and aligned.
    #[inline(always)]
    unsafe fn load<T>(&self, offset: usize) -> T {
        // SAFETY: `new` promised a live mapping, the caller that the word is inside it.
        unsafe { self.base.as_ptr().add(offset).cast::<T>().read_volatile() }
    }

    /// # Safety
    /// `T` at `offset` is inside the mapping and aligned.
    #[inline(always)]
    unsafe fn store<T>(&self, offset: usize, value: T) {
        // SAFETY: as for `load`.
        unsafe { self.base.as_ptr().add(offset).cast::<T>().write_volatile(value) }
    }
}

impl Mmio for RawMmio {
    #[inline(always)]
    fn size(&self) -> usize {
        self.size
    }

    #[inline(always)]
    fn read32(&self, offset: usize) -> u32 {
        if !self.holds(offset, 4) {
            return u32::MAX;
        }
        // SAFETY: just checked.
        unsafe { self.read32_unchecked(offset) }
    }

    #[inline(always)]
    fn write32(&self, offset: usize, value: u32) {
        if self.holds(offset, 4) {
            // SAFETY: just checked.
            unsafe { self.write32_unchecked(offset, value) }
        }
    }

    #[inline(always)]
    fn read32_relaxed(&self, offset: usize) -> u32 {
        if !self.holds(offset, 4) {
            return u32::MAX;
        }
        // SAFETY: just checked.
        unsafe { self.read32_relaxed_unchecked(offset) }
    }

    #[inline(always)]
    fn write32_relaxed(&self, offset: usize, value: u32) {
        if self.holds(offset, 4) {
            // SAFETY: just checked.
            unsafe { self.write32_relaxed_unchecked(offset, value) }
        }
    }

    #[inline(always)]
    unsafe fn read32_unchecked(&self, offset: usize) -> u32 {
        // SAFETY: the caller's promise.
        let value = unsafe { self.read32_relaxed_unchecked(offset) };
        mmio_after_read();
        value
    }

    #[inline(always)]
    unsafe fn write32_unchecked(&self, offset: usize, value: u32) {
        mmio_before_write();
        // SAFETY: the caller's promise.
        unsafe { self.write32_relaxed_unchecked(offset, value) }
    }

    #[inline(always)]
    unsafe fn read32_relaxed_unchecked(&self, offset: usize) -> u32 {
        // SAFETY: the caller's promise.
        u32::from_le(unsafe { self.load(offset) })
    }

    #[inline(always)]
    unsafe fn write32_relaxed_unchecked(&self, offset: usize, value: u32) {
        // SAFETY: the caller's promise.
        unsafe { self.store(offset, value.to_le()) }
    }

    #[cfg(target_pointer_width = "64")]
    #[inline(always)]
    fn write64_relaxed(&self, offset: usize, value: u64) {
        if self.holds(offset, 8) {
            // SAFETY: just checked.
            unsafe { self.store(offset, value.to_le()) }
        } else {
            self.write64_lo_hi(offset, value);
        }
    }

    #[inline(always)]
    fn caching(&self) -> Caching {
        self.caching
    }
}

impl MmioNarrow for RawMmio {
    #[inline(always)]
    fn read8(&self, offset: usize) -> u8 {
        if !self.holds(offset, 1) {
            return u8::MAX;
        }
        // SAFETY: just checked.
        let value = unsafe { self.load(offset) };
        mmio_after_read();
        value
    }

    #[inline(always)]
    fn write8(&self, offset: usize, value: u8) {
        mmio_before_write();
        if self.holds(offset, 1) {
            // SAFETY: just checked.
            unsafe { self.store(offset, value) }
        }
    }

    #[inline(always)]
    fn read16(&self, offset: usize) -> u16 {
        if !self.holds(offset, 2) {
            return u16::MAX;
        }
        // SAFETY: just checked.
        let value = u16::from_le(unsafe { self.load(offset) });
        mmio_after_read();
        value
    }

    #[inline(always)]
    fn write16(&self, offset: usize, value: u16) {
        mmio_before_write();
        if self.holds(offset, 2) {
            // SAFETY: just checked.
            unsafe { self.store(offset, value.to_le()) }
        }
    }
}

static_assertions::assert_impl_all!(RawMmio: Copy, Send, Sync);

#[cfg(test)]
mod tests {
    use super::*;

    fn over(words: &mut [u64; 4]) -> RawMmio {
        // SAFETY: the array is aligned to 8, 32 bytes long, and outlives each test's use.
        unsafe { RawMmio::new(NonNull::from(words).cast(), 32, Caching::Uncached) }
    }

    #[test]
    fn words_are_little_endian_at_their_byte_offset() {
        let mut words = [0u64; 4];
        let io = over(&mut words);
        io.write32(4, 0x1122_3344);
        assert_eq!(io.read8(4), 0x44);
        assert_eq!(io.read16(6), 0x1122);
        io.write64_relaxed(8, 0x8877_6655_4433_2211);
        assert_eq!((io.read32(8), io.read32(12)), (0x4433_2211, 0x8877_6655));
        io.write8(16, 0xab);
        io.write16(18, 0xcdef);
        assert_eq!(io.read32_relaxed(16), 0xcdef_00ab);
    }

    #[test]
    fn outside_and_misaligned_accesses_read_ones_and_write_nothing() {
        let mut words = [0u64; 4];
        let io = over(&mut words);
        for offset in [1, 2, 30, 32, 36, usize::MAX - 3, usize::MAX] {
            io.write32(offset, 0x5555_5555);
            assert_eq!(io.read32(offset), u32::MAX, "{offset:#x}");
        }
        for offset in [2, 32, usize::MAX] {
            io.write64_relaxed(offset, 0x5555_5555_5555_5555);
        }
        assert_eq!((io.read8(32), io.read16(31)), (u8::MAX, u16::MAX));
        io.write8(32, 1);
        io.write16(31, 1);
        assert_eq!(words, [0; 4]);
    }

    #[test]
    fn a_64_bit_store_at_a_multiple_of_4_is_two_words() {
        let mut words = [0u64; 4];
        let io = over(&mut words);
        io.write64_relaxed(4, 0x8877_6655_4433_2211);
        assert_eq!((io.read32(4), io.read32(8)), (0x4433_2211, 0x8877_6655));
    }
}
