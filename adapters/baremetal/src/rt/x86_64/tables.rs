//! Interrupt table, task state and page tables.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::ptr::addr_of;

use super::cpu;
use crate::platform::{MemoryRange, Ranges};

/// A static that only the start writes, before interrupts are on.
#[repr(C, align(4096))]
struct Boot<T>(UnsafeCell<T>);

// SAFETY: written by `load_tables` and `map_memory` only, which run once, before interrupts are on; after that the
// CPU reads them.
unsafe impl<T> Sync for Boot<T> {}

const CODE: u64 = 0x00af_9a00_0000_ffff;
const DATA: u64 = 0x00cf_9200_0000_ffff;
const CODE_SELECTOR: u16 = 8;
const TASK_SELECTOR: u16 = 24;
const GUARD: u64 = 4096;

static GDT: Boot<[u64; 5]> = Boot(UnsafeCell::new([0; 5]));
static TASK: Boot<[u32; 26]> = Boot(UnsafeCell::new([0; 26]));
static IDT: Boot<[[u64; 2]; 256]> = Boot(UnsafeCell::new([[0; 2]; 256]));
/// The stack of exceptions that may come because the other one is full.
static EMERGENCY: Boot<[u8; 16384]> = Boot(UnsafeCell::new([0; 16384]));

unsafe extern "C" {
    static vector_stubs: u8;
    static boot_pdpt: UnsafeCell<[u64; 512]>;
    static boot_pd: UnsafeCell<[u64; 2048]>;
    static boot_pt: UnsafeCell<[u64; 512]>;
    static boot_pml4: u8;
    static __stack_guard: u8;
}

#[repr(C, packed)]
struct Pointer {
    limit: u16,
    base: u64,
}

/// Loads segments, the task state with the emergency stack, and the interrupt table.
///
/// # Safety
/// Called once, at the start, with interrupts masked.
pub unsafe fn load_tables() {
    let stack = addr_of!(EMERGENCY).addr() as u64 + size_of_val(&EMERGENCY) as u64;
    // SAFETY: nobody else is there yet (the caller's promise).
    let (gdt, task, idt) = unsafe { (&mut *GDT.0.get(), &mut *TASK.0.get(), &mut *IDT.0.get()) };
    // IST 1 is at byte 36, the I/O map base at byte 102: behind the end, no map.
    (task[9], task[10], task[25]) = (stack as u32, (stack >> 32) as u32, 104 << 16);
    let at = addr_of!(TASK).addr() as u64;
    let task_low = 103 | (at & 0xff_ffff) << 16 | 0x89 << 40 | (at >> 24 & 0xff) << 56;
    *gdt = [0, CODE, DATA, task_low, at >> 32];
    // Each stub has at most 16 bytes.
    let stubs = addr_of!(vector_stubs).addr() as u64;
    for (vector, gate) in idt.iter_mut().enumerate() {
        let stub = stubs + 16 * vector as u64;
        let ist = u64::from(matches!(vector, 2 | 8 | 12 | 14 | 18));
        let flags = 0x8e00 | ist;
        *gate = [
            stub & 0xffff | u64::from(CODE_SELECTOR) << 16 | flags << 32 | (stub >> 16 & 0xffff) << 48,
            stub >> 32,
        ];
    }
    let gdtr = Pointer { limit: 39, base: addr_of!(GDT).addr() as u64 };
    let idtr = Pointer { limit: 4095, base: addr_of!(IDT).addr() as u64 };
    // SAFETY: the tables are complete and stay; code and data selectors mean what they meant before.
    unsafe {
        asm!("lgdt [{}]", "ltr {:x}", "lidt [{}]", in(reg) &gdtr, in(reg) TASK_SELECTOR, in(reg) &idtr,
            options(nostack, preserves_flags));
    }
}

const PRESENT: u64 = 1;
const WRITABLE: u64 = 1 << 1;
/// Write-through and cache disable: uncached, whatever the MTRRs say of it.
const UNCACHED: u64 = 1 << 3 | 1 << 4;
const LARGE: u64 = 1 << 7;
const LOW_PAGE: u64 = 2 << 20;
const HIGH_PAGE: u64 = 1 << 30;
const LOW_END: u64 = 4 << 30;

/// Maps everything at its own address: RAM cached, the rest uncached, the first page and the page below the stack not
/// at all. Above 4 GiB only where the CPU has pages of 1 GiB. Returns one past the highest address.
///
/// # Safety
/// Called once, at the start; `ram` is what firmware says of RAM.
pub unsafe fn map_memory(ram: &Ranges) -> u64 {
    // SAFETY: the tables of `boot.s`; nobody else changes them (the caller's promise).
    let (pdpt, pd, pt) = unsafe { (&mut *boot_pdpt.get(), &mut *boot_pd.get(), &mut *boot_pt.get()) };
    let caching = |start, size| {
        let page = MemoryRange { start, size };
        if ram.iter().any(|ram| ram.overlaps(&page)) { 0 } else { UNCACHED }
    };
    for (start, entry) in (0..LOW_END).step_by(LOW_PAGE as usize).zip(pd.iter_mut()) {
        *entry = start | PRESENT | WRITABLE | LARGE | caching(start, LOW_PAGE);
    }
    let guard = addr_of!(__stack_guard).addr() as u64;
    for (start, entry) in (0..LOW_PAGE).step_by(GUARD as usize).zip(pt.iter_mut()) {
        let is_hole = start == 0 || start == guard;
        *entry = if is_hole { 0 } else { start | PRESENT | WRITABLE };
    }
    pd[0] = addr_of!(*pt).addr() as u64 | PRESENT | WRITABLE;
    let has_huge = cpu::cpuid(0x8000_0001)[3] & 1 << 26 != 0;
    let bits = (cpu::cpuid(0x8000_0008)[0] & 0xff).clamp(32, 39);
    let end = if has_huge { 1u64 << bits } else { LOW_END };
    for (start, entry) in (LOW_END..end).step_by(HIGH_PAGE as usize).zip(pdpt.iter_mut().skip(4)) {
        *entry = start | PRESENT | WRITABLE | LARGE | caching(start, HIGH_PAGE);
    }
    // SAFETY: the same tables, read anew; what runs is mapped as before.
    unsafe { asm!("mov cr3, {}", in(reg) addr_of!(boot_pml4).addr(), options(nostack, preserves_flags)) };
    end.max(LOW_END)
}
