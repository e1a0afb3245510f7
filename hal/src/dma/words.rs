//! How single words of shared memory are read and written.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// One aligned little-endian word at a time, through a raw pointer.
///
/// No reference to the memory is made, and no struct is read as a whole. Wherever a method asks for a
/// valid place, the aligned 8 bytes around it are valid: backends hand out memory in such pieces.
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

/// A part of a 32-bit word: atomics of two widths on the same bytes would be a race.
macro_rules! part {
    ($read:ident, $write:ident, $int:ty) => {
        #[inline]
        unsafe fn $read(at: *const $int) -> $int {
            let shift = 8 * (at.addr() & 3);
            // SAFETY: the trait's promise: the word around `at` is valid.
            let word = unsafe { around(at.cast()) }.load(Relaxed);
            (u32::from_le(word) >> shift) as $int
        }
        #[inline]
        unsafe fn $write(at: *mut $int, value: $int) {
            let shift = 8 * (at.addr() & 3);
            let merge = |word: u32| {
                let kept = u32::from_le(word) & !(u32::from(<$int>::MAX) << shift);
                (kept | u32::from(value) << shift).to_le()
            };
            // SAFETY: the trait's promise: the word around `at` is valid.
            let word = unsafe { around(at.cast()) };
            let mut seen = word.load(Relaxed);
            while let Err(other) = word.compare_exchange_weak(seen, merge(seen), Relaxed, Relaxed) {
                seen = other;
            }
        }
    };
}

/// The aligned 32-bit word that holds the byte at `at`.
///
/// # Safety
/// That word is valid for reads and writes, and whoever shares it uses atomics of this width.
unsafe fn around<'a>(at: *const u8) -> &'a AtomicU32 {
    let word = at.wrapping_sub(at.addr() & 3).cast::<u32>().cast_mut();
    // SAFETY: the caller's promise; just aligned.
    unsafe { AtomicU32::from_ptr(word) }
}

impl WordAccess for RelaxedAtomic {
    part!(read8, write8, u8);
    part!(read16, write16, u16);

    #[inline(always)]
    unsafe fn read32(at: *const u32) -> u32 {
        // SAFETY: the caller's promise; whoever shares the memory uses atomics of this width.
        u32::from_le(unsafe { AtomicU32::from_ptr(at.cast_mut()) }.load(Relaxed))
    }

    #[inline(always)]
    unsafe fn write32(at: *mut u32, value: u32) {
        // SAFETY: as for reading.
        unsafe { AtomicU32::from_ptr(at) }.store(value.to_le(), Relaxed)
    }

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
