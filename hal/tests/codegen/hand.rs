//! What one would write by hand for each function of `driver.rs`.
#![no_std]
#![allow(missing_docs)]
#![allow(dead_code)]

use core::cell::Cell;
use core::marker::PhantomData;
use core::ptr::NonNull;

/// The fields of `RawMmio`, of the same types in the same order, so that they lie at the same places.
#[derive(Clone, Copy)]
struct Mapping {
    base: NonNull<u8>,
    size: usize,
    caching: Caching,
}

#[derive(Clone, Copy)]
enum Caching {
    Uncached,
    WriteCombined,
    Coherent,
}

/// The fields of `Window`.
#[derive(Clone, Copy)]
pub struct W {
    io: Mapping,
    base: usize,
    size: usize,
    layout: PhantomData<fn()>,
}

/// One register: its offset is known before anything is ordered.
struct Place<'a>(&'a W, usize);

impl W {
    #[inline(always)]
    fn at(&self, offset: usize) -> Place<'_> {
        Place(self, self.base + offset)
    }
}

impl Place<'_> {
    #[inline(always)]
    fn load(&self) -> u32 {
        let value = self.load_bare();
        barrier();
        value
    }

    #[inline(always)]
    fn store(&self, value: u32) {
        barrier();
        self.store_bare(value);
    }

    #[inline(always)]
    fn load_bare(&self) -> u32 {
        // SAFETY: only compiled, never called.
        unsafe { self.0.io.base.as_ptr().add(self.1).cast::<u32>().read_volatile() }
    }

    #[inline(always)]
    fn store_bare(&self, value: u32) {
        // SAFETY: only compiled, never called.
        unsafe { self.0.io.base.as_ptr().add(self.1).cast::<u32>().write_volatile(value) }
    }
}

/// The barrier of x86_64 before a device store, after a device load and between stores to coherent
/// memory: none for the CPU, one for the compiler.
#[inline(always)]
fn barrier() {
    // SAFETY: empty.
    unsafe { core::arch::asm!("", options(nostack, preserves_flags)) }
}

#[unsafe(no_mangle)]
pub fn modify(w: &W) {
    let ctrl = w.at(0);
    ctrl.store(ctrl.load() & !0x31 | 0x11);
}

#[unsafe(no_mangle)]
pub fn modify_relaxed(w: &W) {
    let ctrl = w.at(0);
    ctrl.store_bare(ctrl.load_bare() & !0x31 | 0x11);
}

#[unsafe(no_mangle)]
pub fn modify_at_an_offset(w: &W) {
    let last = w.at(0x2c);
    last.store(last.load() & !0x31 | 0x10);
}

#[unsafe(no_mangle)]
pub fn modify_from_a_value(w: &W, mode: u32) {
    let mode = (mode & 3) << 4;
    let ctrl = w.at(0);
    ctrl.store(ctrl.load() & !0x30 | mode);
}

#[unsafe(no_mangle)]
pub fn read_one_field(w: &W) -> u32 {
    w.at(4).load() >> 4 & 3
}

#[unsafe(no_mangle)]
pub fn read_relaxed(w: &W) -> u32 {
    w.at(4).load_bare()
}

#[unsafe(no_mangle)]
pub fn write(w: &W) {
    w.at(0).store(0x10);
}

#[unsafe(no_mangle)]
pub fn write_relaxed(w: &W, value: u32) {
    w.at(0x2c).store_bare(value);
}

#[unsafe(no_mangle)]
pub fn clear_w1c(w: &W, bits: u32) {
    w.at(8).store(bits);
}

#[unsafe(no_mangle)]
pub fn two_halves(w: &W, value: u64) {
    let (low, high) = (w.at(0xc), w.at(0x10));
    // The first store orders what was written before for both.
    high.store((value >> 32) as u32);
    low.store_bare(value as u32);
}

#[unsafe(no_mangle)]
pub fn descriptor_then_doorbell(memory: &[Cell<u32>; 2], w: &W) {
    memory[1].set(1);
    barrier();
    memory[0].set(2);
    w.at(0x2c).store(3);
}

#[unsafe(no_mangle)]
pub fn row(w: &W, index: usize) -> u32 {
    if index >= 6 {
        return 0;
    }
    w.at(0x14 + index * 4).load()
}

#[unsafe(no_mangle)]
pub fn known_window(base: NonNull<u8>) {
    let at = base.as_ptr().wrapping_add(0x200 + 3 * 0x100 + 0x2c).cast::<u32>();
    // SAFETY: only compiled, never called.
    let value = unsafe { at.read_volatile() };
    barrier();
    let value = value & !0x30 | 0x10;
    barrier();
    // SAFETY: only compiled, never called.
    unsafe { at.write_volatile(value) }
}
