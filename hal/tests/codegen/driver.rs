//! Register accesses as a driver writes them. `hand.rs` has the same functions by hand.
//!
//! Not a test target: `assembly.rs` compiles both files and compares the code.
#![no_std]
#![allow(missing_docs)]

use core::cell::Cell;
use core::ptr::NonNull;

use tombolo_hal::barrier::Barrier;
use tombolo_hal::mmio::{Caching, Mmio, RawMmio, Window};
use tombolo_hal::reg;
use tombolo_hal::register::{
    ReadOnly, ReadWrite, ReadWriteable, Readable, Split64, W1c, Writeable, register_bitfields,
    register_structs,
};

register_bitfields![u32,
    CTRL [ EN OFFSET(0) NUMBITS(1) [], MODE OFFSET(4) NUMBITS(2) [ Off = 0, Ll = 1 ] ],
    IRQ [ DONE OFFSET(0) NUMBITS(8) [] ]
];
register_structs! {
    pub Regs {
        (0x00 => ctrl: ReadWrite<u32, CTRL::Register>),
        (0x04 => status: ReadOnly<u32, CTRL::Register>),
        (0x08 => irq: W1c<u32, IRQ::Register>),
        (0x0c => llp: Split64),
        (0x14 => row: [ReadWrite<u32, CTRL::Register>; 6]),
        (0x2c => last: ReadWrite<u32, CTRL::Register>),
        (0x30 => @END),
    }
}

type W<L = ()> = Window<RawMmio, L>;

#[unsafe(no_mangle)]
pub fn modify(w: &W<Regs>) {
    reg!(*w, Regs, ctrl).modify(CTRL::EN::SET + CTRL::MODE::Ll);
}

#[unsafe(no_mangle)]
pub fn modify_relaxed(w: &W<Regs>) {
    reg!(*w, Regs, ctrl).relaxed().modify(CTRL::EN::SET + CTRL::MODE::Ll);
}

#[unsafe(no_mangle)]
pub fn modify_at_an_offset(w: &W<Regs>) {
    reg!(*w, Regs, last).modify(CTRL::EN::CLEAR + CTRL::MODE::Ll);
}

#[unsafe(no_mangle)]
pub fn modify_from_a_value(w: &W<Regs>, mode: u32) {
    reg!(*w, Regs, ctrl).modify(CTRL::MODE.val(mode));
}

#[unsafe(no_mangle)]
pub fn read_one_field(w: &W<Regs>) -> u32 {
    reg!(*w, Regs, status).read(CTRL::MODE)
}

#[unsafe(no_mangle)]
pub fn read_relaxed(w: &W<Regs>) -> u32 {
    reg!(*w, Regs, status).relaxed().get()
}

#[unsafe(no_mangle)]
pub fn write(w: &W<Regs>) {
    reg!(*w, Regs, ctrl).write(CTRL::MODE::Ll);
}

#[unsafe(no_mangle)]
pub fn write_relaxed(w: &W<Regs>, value: u32) {
    reg!(*w, Regs, last).relaxed().set(value);
}

#[unsafe(no_mangle)]
pub fn clear_w1c(w: &W<Regs>, bits: u32) {
    reg!(*w, Regs, irq).clear_bits(bits);
}

#[unsafe(no_mangle)]
pub fn two_halves(w: &W<Regs>, value: u64) {
    reg!(*w, Regs, llp).write_hi_lo(value);
}

#[unsafe(no_mangle)]
pub fn descriptor_then_doorbell(memory: &[Cell<u32>; 2], w: &W<Regs>) {
    memory[1].set(1);
    w.io().barrier(Barrier::DmaWmb);
    memory[0].set(2);
    reg!(*w, Regs, last).set(3);
}

/// One comparison: the end of the row.
#[unsafe(no_mangle)]
pub fn row(w: &W<Regs>, index: usize) -> u32 {
    match reg!(*w, Regs, row[index]) {
        Some(register) => register.get(),
        None => 0,
    }
}

/// Everything about the window is known: nothing is left to check.
#[unsafe(no_mangle)]
pub fn known_window(base: NonNull<u8>) {
    // SAFETY: only compiled, never called.
    let io = unsafe { RawMmio::new(base, 0x1000, Caching::Uncached) };
    let Ok(w) = Window::new(io).bank::<Regs>(0x200, 0x100, 3) else { return };
    reg!(w, Regs, last).modify(CTRL::MODE::Ll);
}

/// The checks of a bank, and one access.
#[unsafe(no_mangle)]
pub fn bank_one_access(w: W, index: usize) {
    let Ok(bank) = w.bank::<Regs>(0x200, 0x100, index) else { return };
    reg!(bank, Regs, ctrl).set(1);
}

/// The same checks, and four more accesses.
#[unsafe(no_mangle)]
pub fn bank_five_accesses(w: W, index: usize) {
    let Ok(bank) = w.bank::<Regs>(0x200, 0x100, index) else { return };
    reg!(bank, Regs, ctrl).set(1);
    reg!(bank, Regs, last).modify(CTRL::MODE::Ll);
    reg!(bank, Regs, llp).write_lo_hi(7);
    reg!(bank, Regs, irq).clear_bits(2);
}

/// A word of a window without a layout: is it inside the window, is it aligned, is it inside the
/// mapping.
#[unsafe(no_mangle)]
pub fn untyped_word(w: &W, offset: usize) -> u32 {
    w.read32_relaxed(offset)
}
