//! Typed registers over any [`Mmio`] backend.
//!
//! A layout is a `register_structs!` of tock-registers, which checks offsets and the absence of
//! gaps at compile time. It is never instantiated over device memory: [`reg!`](crate::reg) turns a
//! field into its offset and gives a [`Reg`], on which tock's `read`, `is_set`, `write`, `modify`
//! work. Besides tock's `ReadOnly`, `ReadWrite` and `WriteOnly`, a layout can hold
//!
//! - [`W1c`]: bits that a written one clears. It has no `modify`, which would clear what another
//!   CPU or the device has just set;
//! - [`Split64`]: 64 bits behind 32-bit access, in two named halves.
//!
//! Values that come from a caller or a device go into fields with [`TryVal::try_val`]; tock's own
//! `val` drops what does not fit.
#![allow(unsafe_code)]

use core::marker::PhantomData;

pub use tock_registers::fields::{Field, FieldValue};
pub use tock_registers::interfaces::{ReadWriteable, Readable, Writeable};
pub use tock_registers::registers::{ReadOnly, ReadWrite, WriteOnly};
pub use tock_registers::{LocalRegisterCopy, RegisterLongName, register_bitfields, register_structs};

use crate::mmio::Mmio;

/// Access to one register of a [`Window`](crate::mmio::Window) with a layout.
///
/// `reg!(window, Layout, field)` gives a [`Reg`](crate::register::Reg). The window must be of
/// exactly this layout, so a wrong bank does not compile. Rows of registers are arrays in the
/// layout and take an index: `reg!(window, Layout, field[i])` is `None` past the end.
#[macro_export]
macro_rules! reg {
    ($window:expr, $layout:ty, $field:ident [ $index:expr ]) => {
        $crate::mmio::Window::<_, $layout>::register(
            &$window,
            ::core::mem::offset_of!($layout, $field),
            |l| &l.$field,
        )
        .at($index)
    };
    ($window:expr, $layout:ty, $field:ident) => {
        $crate::mmio::Window::<_, $layout>::register(
            &$window,
            ::core::mem::offset_of!($layout, $field),
            |l| &l.$field,
        )
    };
}

/// One register: where it is, and by its type `K` what may be done with it.
pub struct Reg<'a, M, K> {
    io: &'a M,
    offset: usize,
    kind: PhantomData<fn() -> K>,
}

impl<'a, M: Mmio, K> Reg<'a, M, K> {
    /// # Safety
    /// `K` at `offset` lies inside `io`, and `offset` is a multiple of 4.
    #[inline(always)]
    pub(crate) unsafe fn new(io: &'a M, offset: usize) -> Self {
        Self { io, offset, kind: PhantomData }
    }

    /// The same register without the ordering against memory accesses.
    #[inline(always)]
    pub fn relaxed(self) -> Relaxed<'a, M, K> {
        Relaxed(self)
    }

    #[inline(always)]
    fn load(&self, delta: usize) -> u32 {
        // SAFETY: `new` promised that `K` lies inside; `delta` is 0, or 4 for the 8 bytes of a
        // `Split64`.
        unsafe { self.io.read32_unchecked(self.offset + delta) }
    }

    #[inline(always)]
    fn store(&self, delta: usize, value: u32) {
        // SAFETY: as for `load`.
        unsafe { self.io.write32_unchecked(self.offset + delta, value) }
    }

    #[inline(always)]
    fn load_relaxed(&self, delta: usize) -> u32 {
        // SAFETY: as for `load`.
        unsafe { self.io.read32_relaxed_unchecked(self.offset + delta) }
    }

    #[inline(always)]
    fn store_relaxed(&self, delta: usize, value: u32) {
        // SAFETY: as for `load`.
        unsafe { self.io.write32_relaxed_unchecked(self.offset + delta, value) }
    }
}

impl<'a, M: Mmio, K, const N: usize> Reg<'a, M, [K; N]> {
    /// Register `index` of the row, or `None` past its end.
    #[inline(always)]
    pub fn at(self, index: usize) -> Option<Reg<'a, M, K>> {
        if index >= N {
            return None;
        }
        // SAFETY: the whole row lies inside, and `index` is in it; words are multiples of 4.
        Some(unsafe { Reg::new(self.io, self.offset + index * size_of::<K>()) })
    }
}

/// A register whose accesses are not ordered against memory; from [`Reg::relaxed`].
pub struct Relaxed<'a, M, K>(Reg<'a, M, K>);

macro_rules! access {
    (read $kind:ident) => {
        impl<M: Mmio, R: RegisterLongName> Readable for Reg<'_, M, $kind<u32, R>> {
            type T = u32;
            type R = R;
            #[inline(always)]
            fn get(&self) -> u32 {
                self.load(0)
            }
        }
        impl<M: Mmio, R: RegisterLongName> Readable for Relaxed<'_, M, $kind<u32, R>> {
            type T = u32;
            type R = R;
            #[inline(always)]
            fn get(&self) -> u32 {
                self.0.load_relaxed(0)
            }
        }
    };
    (write $kind:ident) => {
        impl<M: Mmio, R: RegisterLongName> Writeable for Reg<'_, M, $kind<u32, R>> {
            type T = u32;
            type R = R;
            #[inline(always)]
            fn set(&self, value: u32) {
                self.store(0, value);
            }
        }
        impl<M: Mmio, R: RegisterLongName> Writeable for Relaxed<'_, M, $kind<u32, R>> {
            type T = u32;
            type R = R;
            #[inline(always)]
            fn set(&self, value: u32) {
                self.0.store_relaxed(0, value);
            }
        }
    };
}

access!(read ReadOnly);
access!(read ReadWrite);
access!(write ReadWrite);
access!(write WriteOnly);
access!(read W1c);

/// A 32-bit word whose set bits are cleared by writing ones to them.
///
/// It is [`Readable`] and has [`clear`](Reg::clear) and [`clear_bits`](Reg::clear_bits), but no
/// `modify` and no `write`.
#[repr(transparent)]
pub struct W1c<T: tock_registers::UIntLike = u32, R: RegisterLongName = ()> {
    _word: T,
    name: PhantomData<R>,
}

impl<M: Mmio, R: RegisterLongName> Reg<'_, M, W1c<u32, R>> {
    /// Clears the bits that are ones in the values of `fields`, and no others.
    #[inline(always)]
    pub fn clear(&self, fields: FieldValue<u32, R>) {
        self.store(0, fields.value);
    }

    /// Clears the bits that are ones in `bits`, and no others.
    #[inline(always)]
    pub fn clear_bits(&self, bits: u32) {
        self.store(0, bits);
    }
}

/// 64 bits in two 32-bit registers, the low half first in memory, aligned to 4.
///
/// Devices differ in which half they want first, so the order is in the name of each call.
#[repr(C)]
pub struct Split64 {
    _low: u32,
    _high: u32,
}

impl<M: Mmio> Reg<'_, M, Split64> {
    /// Writes the low half, then the high half.
    #[inline(always)]
    pub fn write_lo_hi(&self, value: u64) {
        self.store(0, value as u32);
        // The first half has ordered earlier memory writes; MMIO itself keeps its order.
        self.store_relaxed(4, (value >> 32) as u32);
    }

    /// Writes the high half, then the low half.
    #[inline(always)]
    pub fn write_hi_lo(&self, value: u64) {
        self.store(4, (value >> 32) as u32);
        self.store_relaxed(0, value as u32);
    }

    /// Reads the low half.
    #[inline(always)]
    pub fn read_lo(&self) -> u32 {
        self.load(0)
    }

    /// Reads the high half.
    #[inline(always)]
    pub fn read_hi(&self) -> u32 {
        self.load(4)
    }

    /// Reads the low half, then the high half. Not atomic: a device may change them in between.
    #[inline(always)]
    pub fn read_lo_hi(&self) -> u64 {
        let low = self.load_relaxed(0);
        u64::from(self.load(4)) << 32 | u64::from(low)
    }
}

/// A value does not fit into a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{value:#x} is larger than {max:#x}, the largest value of this field")]
pub struct FieldOverflow {
    /// The value that was to be stored.
    pub value: u32,
    /// The largest that fits.
    pub max: u32,
}

/// Field values from outside, checked.
pub trait TryVal<R: RegisterLongName> {
    /// The field with `value`.
    ///
    /// # Errors
    /// [`FieldOverflow`] if it does not fit; tock's `val` would drop the upper bits.
    fn try_val(self, value: u32) -> Result<FieldValue<u32, R>, FieldOverflow>;
}

impl<R: RegisterLongName> TryVal<R> for Field<u32, R> {
    #[inline]
    fn try_val(self, value: u32) -> Result<FieldValue<u32, R>, FieldOverflow> {
        if value & !self.mask == 0 {
            Ok(self.val(value))
        } else {
            Err(FieldOverflow { value, max: self.mask })
        }
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::fake::{Access, FakeMmio};
    use crate::mmio::Window;

    register_bitfields![u32,
        CTRL [ EN OFFSET(0) NUMBITS(1) [], MODE OFFSET(4) NUMBITS(2) [ Off = 0, Ll = 1 ] ],
        IRQ [ DONE OFFSET(0) NUMBITS(8) [], ABORT OFFSET(16) NUMBITS(8) [] ]
    ];
    register_structs! {
        Regs {
            (0x00 => ctrl: ReadWrite<u32, CTRL::Register>),
            (0x04 => irq: W1c<u32, IRQ::Register>),
            (0x08 => doorbell: WriteOnly<u32>),
            (0x0c => llp: Split64),
            (0x14 => data: [ReadWrite<u32>; 3]),
            (0x20 => @END),
        }
    }

    fn device() -> FakeMmio {
        FakeMmio::new(0x40)
    }

    #[test]
    fn modify_changes_only_its_fields() {
        let io = device();
        io.poke32(0x10, 0xffff_ffee);
        let regs: Window<_, Regs> = Window::new(&io).layout(0x10).unwrap();
        reg!(regs, Regs, ctrl).modify(CTRL::EN::SET + CTRL::MODE::Off);
        assert_eq!(io.peek32(0x10), 0xffff_ffcf);
        assert_eq!(reg!(regs, Regs, ctrl).read(CTRL::MODE), 0);
    }

    #[test]
    fn clearing_one_bit_writes_only_that_bit() {
        let io = device();
        io.poke32(0x4, 0x00ff_00ff);
        let regs: Window<_, Regs> = Window::new(&io).layout(0).unwrap();
        reg!(regs, Regs, irq).clear(IRQ::DONE.val(4));
        assert_eq!(io.take_trace(), [Access::Write(0x4, 4)]);
        reg!(regs, Regs, irq).clear_bits(0x30000);
        assert_eq!(io.take_trace(), [Access::Write(0x4, 0x30000)]);
        assert_eq!(reg!(regs, Regs, irq).read(IRQ::ABORT), 3);
    }

    #[test]
    fn halves_go_out_in_the_named_order_and_never_as_one_64_bit_access() {
        let io = device();
        let regs: Window<_, Regs> = Window::new(&io).layout(0).unwrap();
        reg!(regs, Regs, llp).write_lo_hi(0x1_0000_0002);
        reg!(regs, Regs, llp).write_hi_lo(0x3_0000_0004);
        assert_eq!(
            io.take_trace(),
            [
                Access::Write(0xc, 2),
                Access::WriteRelaxed(0x10, 1),
                Access::Write(0x10, 3),
                Access::WriteRelaxed(0xc, 4)
            ]
        );
        assert_eq!(reg!(regs, Regs, llp).read_lo_hi(), 0x3_0000_0004);
    }

    #[test]
    fn a_row_ends_where_it_ends() {
        let io = device();
        let regs: Window<_, Regs> = Window::new(&io).layout(0).unwrap();
        reg!(regs, Regs, data[2]).unwrap().set(5);
        assert!(reg!(regs, Regs, data[3]).is_none());
        assert_eq!(io.peek32(0x1c), 5);
    }

    #[test]
    fn a_value_that_does_not_fit_is_an_error_and_not_masked() {
        assert_eq!(CTRL::MODE.try_val(4).err(), Some(FieldOverflow { value: 4, max: 3 }));
        assert_eq!(CTRL::MODE.try_val(3).unwrap().value, 0x30);
    }

    #[test]
    fn the_layout_must_fit_its_window() {
        let io = device();
        assert!(Window::new(&io).layout::<Regs>(0x20).is_ok());
        assert!(Window::new(&io).layout::<Regs>(0x24).is_err());
    }
}
