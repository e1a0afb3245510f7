//! MMIO: the one trait that a backend gives, and windows with a typed layout.
//!
//! [`Mmio`] is byte offsets and 32-bit little-endian words; [`MmioNarrow`] adds 8 and 16 bits for
//! devices that need them. [`Window`] is a checked part of it, with the [layout](crate::register)
//! of its registers as a type. [`RawMmio`] is the backend for a real mapping.

mod raw;
mod window;

pub use raw::RawMmio;
pub use window::{Window, WindowError};

use crate::barrier::Barrier;

/// How a window is mapped, which decides what barriers a driver needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Caching {
    /// Device memory: accesses arrive in order.
    Uncached,
    /// Writes may be combined and reordered until a [`Barrier::Wmb`].
    WriteCombined,
    /// Ordinary coherent memory: a [`Barrier::DmaWmb`] orders writes.
    Coherent,
}

impl Caching {
    /// The barrier that orders earlier stores to such a window before later ones, if one is needed.
    pub const fn write_barrier(self) -> Option<Barrier> {
        match self {
            Caching::Uncached => None,
            Caching::WriteCombined => Some(Barrier::Wmb),
            Caching::Coherent => Some(Barrier::DmaWmb),
        }
    }
}

/// A range of device memory: byte offsets from its start, little-endian words.
///
/// Infallible, because hardware is: a device that is gone reads all ones and ignores writes, and so
/// does an access outside the range or a misaligned one. A backend must *create* that where its
/// platform does something else (VFIO raises SIGBUS, some Arm root ports abort).
///
/// `read32` orders later memory reads after the load, `write32` orders earlier memory writes before
/// the store; the `_relaxed` forms do neither.
///
/// # Writing a backend
///
/// Three methods are required:
///
/// ```
/// use std::sync::Mutex;
/// use tombolo_hal::mmio::Mmio;
///
/// struct Bank(Mutex<[u32; 4]>);
///
/// impl Mmio for Bank {
///     fn size(&self) -> usize {
///         16
///     }
///     fn read32(&self, offset: usize) -> u32 {
///         if offset % 4 != 0 { return u32::MAX; }
///         self.0.lock().unwrap().get(offset / 4).copied().unwrap_or(u32::MAX)
///     }
///     fn write32(&self, offset: usize, value: u32) {
///         if offset % 4 != 0 { return; }
///         if let Some(word) = self.0.lock().unwrap().get_mut(offset / 4) { *word = value }
///     }
/// }
///
/// let bank = Bank(Mutex::new([0; 4]));
/// bank.write64_lo_hi(8, 0x1_0000_0002);
/// assert_eq!((bank.read32(8), bank.read32(12), bank.read32(16)), (2, 1, u32::MAX));
/// ```
pub trait Mmio: Send + Sync {
    /// Size of the range in bytes. Never changes.
    fn size(&self) -> usize;

    /// Reads the word at `offset`, a multiple of 4.
    fn read32(&self, offset: usize) -> u32;

    /// Writes the word at `offset`, a multiple of 4.
    fn write32(&self, offset: usize, value: u32);

    /// [`read32`](Self::read32) without its ordering.
    #[inline(always)]
    fn read32_relaxed(&self, offset: usize) -> u32 {
        self.read32(offset)
    }

    /// [`write32`](Self::write32) without its ordering.
    #[inline(always)]
    fn write32_relaxed(&self, offset: usize, value: u32) {
        self.write32(offset, value);
    }

    /// [`read32`](Self::read32) without the check of `offset`.
    ///
    /// # Safety
    /// `offset` is a multiple of 4 and `offset + 4 <= self.size()`, where `size` may also have been
    /// asked of a value that this one was cloned from: clones are the same range.
    #[allow(unsafe_code)]
    #[inline(always)]
    unsafe fn read32_unchecked(&self, offset: usize) -> u32 {
        self.read32(offset)
    }

    /// [`write32`](Self::write32) without the check of `offset`.
    ///
    /// # Safety
    /// `offset` is a multiple of 4 and `offset + 4 <= self.size()`, where `size` may also have been
    /// asked of a value that this one was cloned from: clones are the same range.
    #[allow(unsafe_code)]
    #[inline(always)]
    unsafe fn write32_unchecked(&self, offset: usize, value: u32) {
        self.write32(offset, value);
    }

    /// [`read32_relaxed`](Self::read32_relaxed) without the check of `offset`.
    ///
    /// # Safety
    /// `offset` is a multiple of 4 and `offset + 4 <= self.size()`, where `size` may also have been
    /// asked of a value that this one was cloned from: clones are the same range.
    #[allow(unsafe_code)]
    #[inline(always)]
    unsafe fn read32_relaxed_unchecked(&self, offset: usize) -> u32 {
        self.read32_relaxed(offset)
    }

    /// [`write32_relaxed`](Self::write32_relaxed) without the check of `offset`.
    ///
    /// # Safety
    /// `offset` is a multiple of 4 and `offset + 4 <= self.size()`, where `size` may also have been
    /// asked of a value that this one was cloned from: clones are the same range.
    #[allow(unsafe_code)]
    #[inline(always)]
    unsafe fn write32_relaxed_unchecked(&self, offset: usize, value: u32) {
        self.write32_relaxed(offset, value);
    }

    /// Writes 64 bits at `offset`, a multiple of 4: as one access where the backend has one and the
    /// place is aligned for it, else as two words, low half first. Only for memory behind a window,
    /// never for registers; unordered.
    #[inline(always)]
    fn write64_relaxed(&self, offset: usize, value: u64) {
        self.write64_lo_hi(offset, value);
    }

    /// Writes 64 bits as two words, the low half at `offset` first.
    #[inline(always)]
    fn write64_lo_hi(&self, offset: usize, value: u64) {
        self.write32_relaxed(offset, value as u32);
        self.write32_relaxed(offset.wrapping_add(4), (value >> 32) as u32);
    }

    /// Executes a barrier. A simulator also records it.
    #[inline(always)]
    fn barrier(&self, barrier: Barrier) {
        barrier.execute();
    }

    /// How the range is mapped.
    #[inline(always)]
    fn caching(&self) -> Caching {
        Caching::Uncached
    }
}

/// 8- and 16-bit accesses, for devices that need them.
pub trait MmioNarrow: Mmio {
    /// Reads one byte.
    fn read8(&self, offset: usize) -> u8;
    /// Writes one byte.
    fn write8(&self, offset: usize, value: u8);
    /// Reads 16 bits at `offset`, a multiple of 2.
    fn read16(&self, offset: usize) -> u16;
    /// Writes 16 bits at `offset`, a multiple of 2.
    fn write16(&self, offset: usize, value: u16);
}

macro_rules! forward {
    ($($ptr:ty),*) => {$(
        #[allow(unsafe_code)]
        impl<M: Mmio + ?Sized> Mmio for $ptr {
            #[inline(always)]
            fn size(&self) -> usize { (**self).size() }
            #[inline(always)]
            fn read32(&self, offset: usize) -> u32 { (**self).read32(offset) }
            #[inline(always)]
            fn write32(&self, offset: usize, value: u32) { (**self).write32(offset, value) }
            #[inline(always)]
            fn read32_relaxed(&self, offset: usize) -> u32 { (**self).read32_relaxed(offset) }
            #[inline(always)]
            fn write32_relaxed(&self, offset: usize, value: u32) { (**self).write32_relaxed(offset, value) }
            #[inline(always)]
            unsafe fn read32_unchecked(&self, offset: usize) -> u32 {
                // SAFETY: the caller's promise about `self.size()` is one about the target's.
                unsafe { (**self).read32_unchecked(offset) }
            }
            #[inline(always)]
            unsafe fn write32_unchecked(&self, offset: usize, value: u32) {
                // SAFETY: the caller's promise about `self.size()` is one about the target's.
                unsafe { (**self).write32_unchecked(offset, value) }
            }
            #[inline(always)]
            unsafe fn read32_relaxed_unchecked(&self, offset: usize) -> u32 {
                // SAFETY: the caller's promise about `self.size()` is one about the target's.
                unsafe { (**self).read32_relaxed_unchecked(offset) }
            }
            #[inline(always)]
            unsafe fn write32_relaxed_unchecked(&self, offset: usize, value: u32) {
                // SAFETY: the caller's promise about `self.size()` is one about the target's.
                unsafe { (**self).write32_relaxed_unchecked(offset, value) }
            }
            #[inline(always)]
            fn write64_relaxed(&self, offset: usize, value: u64) { (**self).write64_relaxed(offset, value) }
            #[inline(always)]
            fn write64_lo_hi(&self, offset: usize, value: u64) { (**self).write64_lo_hi(offset, value) }
            #[inline(always)]
            fn barrier(&self, barrier: Barrier) { (**self).barrier(barrier) }
            #[inline(always)]
            fn caching(&self) -> Caching { (**self).caching() }
        }

        impl<M: MmioNarrow + ?Sized> MmioNarrow for $ptr {
            fn read8(&self, offset: usize) -> u8 { (**self).read8(offset) }
            fn write8(&self, offset: usize, value: u8) { (**self).write8(offset, value) }
            fn read16(&self, offset: usize) -> u16 { (**self).read16(offset) }
            fn write16(&self, offset: usize, value: u16) { (**self).write16(offset, value) }
        }
    )*};
}

forward!(&M);
#[cfg(feature = "alloc")]
forward!(alloc::boxed::Box<M>, alloc::sync::Arc<M>);

#[cfg(feature = "mock")]
mockall::mock! {
    /// A mock of [`Mmio`] for short ordered protocols: reset, doorbell, barrier order.
    ///
    /// Only what a driver calls has to be expected: the `_relaxed` forms land in `read32` and
    /// `write32`, `size` is the 1 MiB that [`MockMmio::sized`] sets unless expected otherwise.
    pub Mmio {}

    impl Mmio for Mmio {
        fn size(&self) -> usize;
        fn read32(&self, offset: usize) -> u32;
        fn write32(&self, offset: usize, value: u32);
        fn barrier(&self, barrier: Barrier);
    }
}

#[cfg(feature = "mock")]
impl MockMmio {
    /// A mock of 1 MiB that expects no access yet.
    pub fn sized() -> Self {
        let mut mock = Self::new();
        mock.expect_size().return_const(1usize << 20);
        mock
    }
}
