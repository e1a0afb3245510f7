//! Checked parts of an MMIO range.
#![allow(unsafe_code)]

use core::marker::PhantomData;

use super::Mmio;
use crate::barrier::Barrier;
use crate::register::Reg;

/// A window does not lie inside what it was cut from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WindowError {
    /// The part does not fit.
    #[error("{size:#x} bytes at offset {offset:#x} do not fit into a window of {available:#x} bytes")]
    OutOfRange {
        /// Where the part was to begin.
        offset: usize,
        /// How large it was to be, in bytes.
        size: usize,
        /// How large the window is, in bytes.
        available: usize,
    },
    /// The part does not begin at a multiple of its alignment.
    #[error("offset {offset:#x} is not a multiple of {align}")]
    Misaligned {
        /// Where the part was to begin.
        offset: usize,
        /// What it must be a multiple of.
        align: usize,
    },
}

/// A part of an [`Mmio`] range, checked once: all of it is inside, and begins at a multiple of 4.
///
/// `L` is the layout of its registers (`register_structs!`), whose size was checked too, so
/// [`reg!`](crate::reg) needs no check at run time. `Window<M>` without a layout is plain memory.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use tombolo_hal::fake::FakeMmio;
/// use tombolo_hal::mmio::{Mmio, Window, WindowError};
///
/// let bar = FakeMmio::new(0x1000);
/// let channel = Window::new(&bar).sub(0x200, 0x100)?;
/// channel.write32(0x10, 7);
/// assert_eq!(bar.peek32(0x210), 7);
/// assert!(Window::new(&bar).sub(0xf80, 0x100).is_err());
/// # }
/// # Ok::<(), tombolo_hal::mmio::WindowError>(())
/// ```
pub struct Window<M, L = ()> {
    io: M,
    base: usize,
    size: usize,
    layout: PhantomData<fn() -> L>,
}

impl<M: Clone, L> Clone for Window<M, L> {
    fn clone(&self) -> Self {
        Self { io: self.io.clone(), base: self.base, size: self.size, layout: PhantomData }
    }
}

impl<M: Copy, L> Copy for Window<M, L> {}

impl<M, L> core::fmt::Debug for Window<M, L> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Window").field("base", &self.base).field("size", &self.size).finish_non_exhaustive()
    }
}

impl<M: Mmio> Window<M> {
    /// All of `io`.
    pub fn new(io: M) -> Self {
        let size = io.size();
        Self { io, base: 0, size, layout: PhantomData }
    }
}

impl<M: Mmio, L> Window<M, L> {
    /// `size` bytes at `offset`, without a layout.
    ///
    /// # Errors
    /// [`WindowError`] if they are not all inside or do not begin at a multiple of 4.
    pub fn sub(self, offset: usize, size: usize) -> Result<Window<M>, WindowError> {
        self.cut(offset, size, 4)
    }

    /// All from `offset` on, without a layout.
    ///
    /// # Errors
    /// [`WindowError`] if `offset` lies behind the end or is not a multiple of 4.
    pub fn skip(self, offset: usize) -> Result<Window<M>, WindowError> {
        let size = self.size.saturating_sub(offset);
        self.sub(offset, size)
    }

    /// The registers of layout `T` at `offset`.
    ///
    /// # Errors
    /// [`WindowError`] if they are not all inside or not aligned.
    pub fn layout<T>(self, offset: usize) -> Result<Window<M, T>, WindowError> {
        self.cut(offset, size_of::<T>(), align_of::<T>().max(4))
    }

    /// Bank `index` of registers of layout `T` that repeat every `stride` bytes from `base` on.
    ///
    /// # Errors
    /// [`WindowError`] if that bank is not all inside or not aligned.
    pub fn bank<T>(self, base: usize, stride: usize, index: usize) -> Result<Window<M, T>, WindowError> {
        // A product that overflows lies outside any window.
        let offset = stride.checked_mul(index).and_then(|o| o.checked_add(base)).unwrap_or(usize::MAX & !7);
        self.layout(offset)
    }

    fn cut<T>(self, offset: usize, size: usize, align: usize) -> Result<Window<M, T>, WindowError> {
        if offset & (align - 1) != 0 || self.base & (align - 1) != 0 {
            return Err(WindowError::Misaligned { offset, align });
        }
        if offset > self.size || size > self.size - offset {
            return Err(WindowError::OutOfRange { offset, size, available: self.size });
        }
        Ok(Window { base: self.base + offset, io: self.io, size, layout: PhantomData })
    }

    /// Access to one register; use [`reg!`](crate::reg), which computes the offset.
    ///
    /// # Panics
    /// If the register does not lie inside the layout: never with `reg!`, where the comparison is of
    /// constants and leaves no code.
    #[inline(always)]
    pub fn register<K>(&self, offset: usize, _field: fn(&L) -> &K) -> Reg<'_, M, K> {
        // Not a sum, which could wrap: anybody can call this with any offset.
        assert!(offset & 3 == 0 && offset <= size_of::<L>() && size_of::<K>() <= size_of::<L>() - offset);
        // SAFETY: a window with a layout is only made by `cut`, which checked that all of the layout
        // lies inside `io` (whose size never changes) at a multiple of 4; `Window::new` gives the
        // empty layout, which no register is inside of.
        unsafe { Reg::new(&self.io, self.base + offset) }
    }

    /// The range that the window was cut from.
    pub fn io(&self) -> &M {
        &self.io
    }

    /// Where the window begins in the range it was cut from, in bytes.
    pub fn base(&self) -> usize {
        self.base
    }

    /// Orders earlier stores to this window before later ones, with the cheapest barrier that does it
    /// for the way it is mapped.
    #[inline(always)]
    pub fn order_writes(&self) {
        if let Some(barrier) = self.io.caching().write_barrier() {
            self.io.barrier(barrier);
        }
    }

    #[inline(always)]
    fn inside(&self, offset: usize, width: usize) -> bool {
        offset < self.size && self.size - offset >= width
    }
}

/// Offsets are relative to the window, and outside of it there is nothing.
impl<M: Mmio, L> Mmio for Window<M, L> {
    #[inline(always)]
    fn size(&self) -> usize {
        self.size
    }

    #[inline(always)]
    fn read32(&self, offset: usize) -> u32 {
        if self.inside(offset, 4) { self.io.read32(self.base + offset) } else { u32::MAX }
    }

    #[inline(always)]
    fn write32(&self, offset: usize, value: u32) {
        if self.inside(offset, 4) {
            self.io.write32(self.base + offset, value);
        }
    }

    #[inline(always)]
    fn read32_relaxed(&self, offset: usize) -> u32 {
        if self.inside(offset, 4) { self.io.read32_relaxed(self.base + offset) } else { u32::MAX }
    }

    #[inline(always)]
    fn write32_relaxed(&self, offset: usize, value: u32) {
        if self.inside(offset, 4) {
            self.io.write32_relaxed(self.base + offset, value);
        }
    }

    #[inline(always)]
    unsafe fn read32_unchecked(&self, offset: usize) -> u32 {
        // SAFETY: the caller's offset lies inside this window, which lies inside `io`.
        unsafe { self.io.read32_unchecked(self.base + offset) }
    }

    #[inline(always)]
    unsafe fn write32_unchecked(&self, offset: usize, value: u32) {
        // SAFETY: the caller's offset lies inside this window, which lies inside `io`.
        unsafe { self.io.write32_unchecked(self.base + offset, value) }
    }

    #[inline(always)]
    unsafe fn read32_relaxed_unchecked(&self, offset: usize) -> u32 {
        // SAFETY: the caller's offset lies inside this window, which lies inside `io`.
        unsafe { self.io.read32_relaxed_unchecked(self.base + offset) }
    }

    #[inline(always)]
    unsafe fn write32_relaxed_unchecked(&self, offset: usize, value: u32) {
        // SAFETY: the caller's offset lies inside this window, which lies inside `io`.
        unsafe { self.io.write32_relaxed_unchecked(self.base + offset, value) }
    }

    #[inline(always)]
    fn write64_relaxed(&self, offset: usize, value: u64) {
        if self.inside(offset, 8) {
            self.io.write64_relaxed(self.base + offset, value);
        }
    }

    #[inline(always)]
    fn barrier(&self, barrier: Barrier) {
        self.io.barrier(barrier);
    }

    #[inline(always)]
    fn caching(&self) -> super::Caching {
        self.io.caching()
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::fake::FakeMmio;

    #[test]
    fn a_part_must_lie_inside_and_aligned() {
        let io = FakeMmio::new(0x100);
        let w = Window::new(&io);
        assert!(w.sub(0xfc, 4).is_ok());
        assert!(w.sub(0x100, 0).is_ok());
        assert_eq!((w.skip(0x40).unwrap().size(), w.skip(0x100).unwrap().size()), (0xc0, 0));
        assert!(w.skip(0x104).is_err());
        assert_eq!(
            w.sub(0xfc, 8).unwrap_err(),
            WindowError::OutOfRange { offset: 0xfc, size: 8, available: 0x100 }
        );
        assert_eq!(w.sub(2, 4).unwrap_err(), WindowError::Misaligned { offset: 2, align: 4 });
        assert!(w.sub(usize::MAX & !3, 8).is_err());
        assert!(w.bank::<[u32; 4]>(0, usize::MAX / 2, 3).is_err());
        assert!(w.bank::<[u32; 4]>(0x10, 0x20, 7).is_ok());
        assert!(w.bank::<[u32; 4]>(0x10, 0x20, 8).is_err());
    }

    #[test]
    fn a_register_outside_the_layout_panics_whatever_the_arithmetic() {
        let io = FakeMmio::new(0x100);
        let w: Window<_, [u32; 4]> = Window::new(&io).layout(0x10).unwrap();
        for offset in [usize::MAX - 3, usize::MAX & !3, 16, 20, 2] {
            let outside = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                w.register::<u32>(offset, |layout| &layout[0]);
            }));
            assert!(outside.is_err(), "{offset:#x}");
        }
    }

    #[test]
    fn a_window_of_a_window_hides_what_is_outside() {
        let io = FakeMmio::new(0x100);
        let w = Window::new(&io).sub(0x40, 0x20).unwrap().sub(0x10, 8).unwrap();
        w.write32(4, 9);
        w.write32(8, 9);
        w.write64_relaxed(4, 1);
        assert_eq!((io.peek32(0x54), io.peek32(0x58)), (9, 0));
        assert_eq!((w.read32(4), w.read32(8), w.read32(usize::MAX)), (9, u32::MAX, u32::MAX));
    }
}
