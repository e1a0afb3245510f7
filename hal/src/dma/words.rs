//! How single words of shared memory are read and written.

use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering::Relaxed};

/// One aligned little-endian word at a time, through a raw pointer.
///
/// No reference to the memory is made, and no struct is read as a whole.
pub trait WordAccess: 'static {
    /// # Safety
    /// `at` is valid for a read of one byte.
    unsafe fn read8(at: *const u8) -> u8;
    /// # Safety
    /// `at` is valid for a write of one byte.
    unsafe fn write8(at: *mut u8, value: u8);
    /// # Safety
    /// `at` is aligned and valid for a read of 2 bytes.
    unsafe fn read16(at: *const u16) -> u16;
    /// # Safety
    /// `at` is aligned and valid for a write of 2 bytes.
    unsafe fn write16(at: *mut u16, value: u16);
    /// # Safety
    /// `at` is aligned and valid for a read of 4 bytes.
    unsafe fn read32(at: *const u32) -> u32;
    /// # Safety
    /// `at` is aligned and valid for a write of 4 bytes.
    unsafe fn write32(at: *mut u32, value: u32);
    /// Reads 8 bytes; where the CPU has no 64-bit access, low half first.
    ///
    /// # Safety
    /// `at` is aligned and valid for a read of 8 bytes.
    unsafe fn read64(at: *const u64) -> u64;
    /// Writes 8 bytes; where the CPU has no 64-bit access, low half first.
    ///
    /// # Safety
    /// `at` is aligned and valid for a write of 8 bytes.
    unsafe fn write64(at: *mut u64, value: u64);
}

/// Volatile accesses, for a device that is hardware.
#[derive(Clone, Copy, Debug)]
pub struct Volatile;

macro_rules! volatile {
    ($read:ident, $write:ident, $int:ty) => {
        #[inline(always)]
        unsafe fn $read(at: *const $int) -> $int {
            // SAFETY: the caller's promise.
            <$int>::from_le(unsafe { at.read_volatile() })
        }
        #[inline(always)]
        unsafe fn $write(at: *mut $int, value: $int) {
            // SAFETY: the caller's promise.
            unsafe { at.write_volatile(value.to_le()) }
        }
    };
}

impl WordAccess for Volatile {
    volatile!(read8, write8, u8);
    volatile!(read16, write16, u16);
    volatile!(read32, write32, u32);
    volatile!(read64, write64, u64);
}

/// Relaxed atomics, for a device that is another thread of this process (a simulator).
///
/// 64-bit words are two 32-bit atomics, so both sides always agree on the width.
#[derive(Clone, Copy, Debug)]
pub struct RelaxedAtomic;

macro_rules! atomic {
    ($read:ident, $write:ident, $int:ty, $atomic:ty) => {
        #[inline(always)]
        unsafe fn $read(at: *const $int) -> $int {
            // SAFETY: the caller's promise; whoever shares the memory uses atomics of this width.
            <$int>::from_le(unsafe { <$atomic>::from_ptr(at.cast_mut()) }.load(Relaxed))
        }
        #[inline(always)]
        unsafe fn $write(at: *mut $int, value: $int) {
            // SAFETY: as for reading.
            unsafe { <$atomic>::from_ptr(at) }.store(value.to_le(), Relaxed)
        }
    };
}

impl WordAccess for RelaxedAtomic {
    atomic!(read8, write8, u8, AtomicU8);
    atomic!(read16, write16, u16, AtomicU16);
    atomic!(read32, write32, u32, AtomicU32);

    #[inline(always)]
    unsafe fn read64(at: *const u64) -> u64 {
        let at = at.cast::<u32>();
        // SAFETY: both halves lie inside the caller's 8 bytes.
        unsafe { u64::from(Self::read32(at)) | u64::from(Self::read32(at.add(1))) << 32 }
    }

    #[inline(always)]
    unsafe fn write64(at: *mut u64, value: u64) {
        let at = at.cast::<u32>();
        // SAFETY: both halves lie inside the caller's 8 bytes.
        unsafe {
            Self::write32(at, value as u32);
            Self::write32(at.add(1), (value >> 32) as u32);
        }
    }
}
