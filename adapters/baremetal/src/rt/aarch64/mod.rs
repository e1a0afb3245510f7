//! aarch64: QEMU's virt machine and alike, described by a device tree.

mod cpu;
mod gic;

pub use cpu::{Caches, IrqLock};

use core::arch::global_asm;
use core::cell::UnsafeCell;
use core::fmt;
use core::ptr::{NonNull, addr_of, with_exposed_provenance, with_exposed_provenance_mut};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use cpu::read_register;

use super::machine::{Machine, option, set_dma_aside};
use super::once::Once;
use super::{exception, run};
use crate::clock::Counter;
use crate::dma::CacheMaintenance;
use crate::irq::NoController;
use crate::platform::devicetree::{ArmPlatform, Conduit};
use crate::platform::{MemoryRange, PciHost, PlatformError, Ranges};
use crate::println;

global_asm!(include_str!("boot.s"));

unsafe extern "C" {
    static boot_level1: UnsafeCell<[u64; 1024]>;
    static boot_ram: UnsafeCell<[u64; 512]>;
    static __image_start: u8;
    static __image_end: u8;
}

/// QEMU puts the tree here for a program that is no Linux kernel; the program is 4 MiB behind.
const RAM_START: u64 = 0x4000_0000;
const TREE_ROOM: u64 = 2 << 20;
/// One past the last address that `boot.s` maps.
const MAPPED: u64 = 1 << 40;
/// What an entry of the upper and of the lower table maps.
const BLOCK: u64 = 1 << 30;
const SMALL_BLOCK: u64 = 2 << 20;
/// QEMU's first PL011, until the tree says otherwise.
static UART: AtomicUsize = AtomicUsize::new(0x0900_0000);
static FIRMWARE_BY_SMC: AtomicBool = AtomicBool::new(false);
static LEAVING: AtomicBool = AtomicBool::new(false);

/// The generic timer.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    hz: u64,
}

impl Counter for Clock {
    fn ticks(&self) -> u64 {
        cpu::counter()
    }
    fn hz(&self) -> u64 {
        self.hz
    }
}

/// Sends a byte.
pub fn put(byte: u8) {
    const DATA: usize = 0;
    const FLAGS: usize = 0x18;
    const FULL: u32 = 1 << 5;
    const LOOKS: u32 = 100_000;
    let uart = UART.load(Relaxed);
    // SAFETY: the PL011 is mapped as device memory and is this runtime's.
    let flags = || unsafe { with_exposed_provenance::<u32>(uart + FLAGS).read_volatile() };
    (0..LOOKS).find(|_| flags() & FULL == 0);
    // SAFETY: as above.
    unsafe { with_exposed_provenance_mut::<u32>(uart + DATA).write_volatile(byte.into()) };
}

/// 8 bits, FIFO, on; the rate stays what firmware made it.
fn start_serial() {
    let uart = UART.load(Relaxed);
    for (register, value) in [(0x30, 0), (0x2c, 0x70u32), (0x38, 0), (0x30, 0x101)] {
        // SAFETY: as for `put`.
        unsafe { with_exposed_provenance_mut::<u32>(uart + register).write_volatile(value) };
    }
}

/// Called by `boot.s`.
#[unsafe(no_mangle)]
extern "C" fn tombolo_start(tree: u64) -> ! {
    start_serial();
    run(start(tree))
}

fn start(tree: u64) -> Result<Machine, PlatformError> {
    let mut platform = ArmPlatform::read(find_tree(tree)?)?;
    let PciHost { ecam, apertures, .. } = &mut platform.pci;
    apertures.high = apertures.high.filter(|high| high.cpu.saturating_add(high.size) <= MAPPED);
    if ecam.end() > MAPPED {
        return Err(PlatformError::Firmware("configuration space lies above 1 TiB, which is not mapped"));
    }
    FIRMWARE_BY_SMC.store(platform.psci == Conduit::Smc, Relaxed);
    if let Some(uart) = platform.uart {
        UART.store(uart.start as usize, Relaxed);
        start_serial();
    }
    // SAFETY: once, at the start, with what the tree says of RAM.
    unsafe { map_ram(&platform.ram) };
    let image = addr_of!(__image_start).addr() as u64;
    let image = MemoryRange { start: image, size: addr_of!(__image_end).addr() as u64 - image };
    let taken = [image, MemoryRange { start: RAM_START, size: TREE_ROOM }];
    let is_coherent = platform.is_coherent && option(platform.command_line, "dma") != Some("noncoherent");
    let (caches, first) = match is_coherent {
        true => (Caches::Coherent, platform.ram.clone()),
        // Memory that can be mapped uncached in small pieces.
        false => (Caches::Maintained, platform.ram.iter().filter_map(in_first_block).collect()),
    };
    let map = |range| {
        if !is_coherent {
            map_uncached(range)
        }
    };
    // SAFETY: the tree says that it is RAM; what is in use is taken out.
    let dma = unsafe { set_dma_aside(&first, &taken, caches, map)? };
    let clock = Clock { hz: read_register!("cntfrq_el0") };
    if clock.hz == 0 {
        return Err(PlatformError::Firmware("the generic timer has no rate (CNTFRQ is 0)"));
    }
    static MESSAGES: Once<gic::Messages> = Once::new();
    let no_gic = crate::irq::IrqError::Controller("there is no GICv3 (QEMU: -M virt,gic-version=3)");
    let messages = platform.gic.ok_or(no_gic).and_then(|gic| gic::start(&gic, dma, clock));
    let messages: &(dyn crate::irq::MessageController + Sync) = match messages {
        Ok(its) => MESSAGES.set(its),
        Err(error) => {
            println!("tombolo: no interrupts, everything is polled: {error}");
            &NoController
        }
    };
    cpu::enable_interrupts();
    Ok(Machine { pci: platform.pci, dma, messages, clock, command_line: platform.command_line })
}

fn find_tree(hint: u64) -> Result<&'static [u8], PlatformError> {
    const MAGIC: [u8; 4] = [0xd0, 0x0d, 0xfe, 0xed];
    let is_place = |at: &u64| at.is_multiple_of(8) && (RAM_START..0x8000_0000 - TREE_ROOM).contains(at);
    for at in [hint, RAM_START].into_iter().filter(is_place) {
        // SAFETY: this range is mapped as RAM from the start, and nobody writes the tree.
        let head = unsafe { core::slice::from_raw_parts(with_exposed_provenance::<u8>(at as usize), 8) };
        if let [a, b, c, d, size @ ..] = head
            && [*a, *b, *c, *d] == MAGIC
            && let Ok(size) = <[u8; 4]>::try_from(size)
        {
            let size = u64::from(u32::from_be_bytes(size)).min(TREE_ROOM) as usize;
            // SAFETY: as above.
            return Ok(unsafe { core::slice::from_raw_parts(with_exposed_provenance(at as usize), size) });
        }
    }
    Err(PlatformError::Firmware("there is no device tree in X0 or at the start of RAM"))
}

/// Makes blocks of 1 GiB in which RAM begins normal memory, and unmaps what is no RAM in the first of them, which is
/// mapped from the start.
///
/// # Safety
/// Called once, at the start; `ram` is what firmware says of RAM, and nobody has used it yet but the image.
unsafe fn map_ram(ram: &Ranges) {
    const NORMAL: u64 = 0x705;
    let is_ram = |start, size| ram.iter().any(|ram| ram.overlaps(&MemoryRange { start, size }));
    // SAFETY: the tables of `boot.s`; the CPU's walks read whole words.
    let (large, small) = unsafe { (&mut *boot_level1.get(), &mut *boot_ram.get()) };
    for (start, entry) in (RAM_START..).step_by(SMALL_BLOCK as usize).zip(small.iter_mut()) {
        if !is_ram(start, SMALL_BLOCK) {
            // SAFETY: no RAM, so nothing is there.
            unsafe { change(entry, 0) };
        }
    }
    let first = (RAM_START + BLOCK) / BLOCK;
    let later = (RAM_START + BLOCK..).step_by(BLOCK as usize);
    for (start, entry) in later.zip(large.iter_mut().skip(first as usize)) {
        if is_ram(start, BLOCK) {
            // SAFETY: RAM that nobody uses yet.
            unsafe { change(entry, start | NORMAL) };
        }
    }
}

/// The part of a range that lies in the first block of RAM.
fn in_first_block(range: &MemoryRange) -> Option<MemoryRange> {
    let (start, end) = (range.start.max(RAM_START), range.end().min(RAM_START + BLOCK));
    (start < end).then(|| MemoryRange { start, size: end - start })
}

/// Maps RAM in the first block uncached, whole small blocks.
fn map_uncached(range: MemoryRange) {
    const UNCACHED: u64 = 0x709;
    if let Some(start) = NonNull::new(with_exposed_provenance_mut(range.start as usize)) {
        // SAFETY: RAM that nobody uses yet: nothing in the caches is needed.
        unsafe { Caches::Maintained.invalidate(start, range.size as usize) };
    }
    // SAFETY: as in `map_ram`.
    let small = unsafe { &mut *boot_ram.get() };
    for (start, entry) in (RAM_START..).step_by(SMALL_BLOCK as usize).zip(small.iter_mut()) {
        if range.overlaps(&MemoryRange { start, size: SMALL_BLOCK }) {
            // SAFETY: RAM that nobody uses yet.
            unsafe { change(entry, start | UNCACHED) };
        }
    }
}

/// Changes an entry of a table: break before make, as a block changes its type only when nobody can have the old one.
///
/// # Safety
/// Nothing that the entry maps is in use.
unsafe fn change(entry: &mut u64, value: u64) {
    for value in [0, value] {
        // SAFETY: an entry of the table, which stays; nothing in this block is in use (the caller's promise).
        unsafe {
            (entry as *mut u64).write_volatile(value);
            core::arch::asm!(
                "dsb ishst",
                "tlbi vmalle1",
                "dsb ish",
                "isb",
                options(nostack, preserves_flags)
            );
        }
    }
}

/// By semihosting, which has a status; else the machine is switched off, and the last line on the serial port tells.
pub fn exit(status: u8) -> ! {
    // Without semihosting the call is an undefined instruction, which comes back here.
    if !LEAVING.swap(true, Relaxed) {
        cpu::semihosting_exit(status);
    }
    let by_smc = FIRMWARE_BY_SMC.load(Relaxed);
    cpu::system_off(if by_smc { Conduit::Smc } else { Conduit::Hvc });
    cpu::halt()
}

/// What `boot.s` stores; floating point behind it.
#[repr(C)]
struct Frame {
    /// X0 to X30.
    registers: [u64; 31],
    elr: u64,
    spsr: u64,
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (esr, far) = (read_register!("esr_el1"), read_register!("far_el1"));
        writeln!(f, "  esr {esr:#x} (class {:#x}) far {far:#x}", esr >> 26 & 0x3f)?;
        writeln!(f, "  elr {:#x} spsr {:#x} sp {:#x}", self.elr, self.spsr, addr_of!(*self).addr() + 816)?;
        for (number, value) in self.registers.iter().enumerate() {
            writeln!(f, "  x{number:<2} {value:#018x}")?;
        }
        Ok(())
    }
}

/// Called by the vectors of `boot.s`, with interrupts masked.
#[unsafe(no_mangle)]
extern "C" fn tombolo_interrupt(kind: u64, frame: &Frame) {
    const IRQ: u64 = 5;
    const NAMES: [&str; 4] = ["synchronous exception", "interrupt", "fast interrupt", "system error"];
    match kind {
        IRQ => gic::handle(),
        _ => exception(NAMES.get(kind as usize & 3).unwrap_or(&"exception"), frame),
    }
}
