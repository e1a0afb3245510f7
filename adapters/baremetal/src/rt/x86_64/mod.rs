//! x86_64: started by the PVH protocol on a PC with ACPI and PCI Express.

mod cpu;
mod devices;
mod tables;

pub use cpu::IrqLock;
pub use devices::put;

use core::arch::global_asm;
use core::fmt;
use core::ptr::{addr_of, with_exposed_provenance};
use core::sync::atomic::{AtomicU16, Ordering::Relaxed};

use arrayvec::ArrayString;
use tombolo_hal::mmio::RawMmio;

use super::machine::{INTERRUPTS, Machine, device_memory, set_dma_aside};
use super::once::Once;
use super::{exception, run};
use crate::clock::Counter;
use crate::irq::apic::{ApicRegisters, LocalApic, SPURIOUS_VECTOR, XApic};
use crate::pci::{Aperture, Apertures, BUS_SIZE};
use crate::platform::acpi::{Acpi, Mcfg};
use crate::platform::pvh::{MAX_COMMAND_LINE, StartInfo};
use crate::platform::{MemoryRange, PciHost, PhysicalMemory, PlatformError, Ranges};

global_asm!(include_str!("boot.s"), options(att_syntax));

unsafe extern "C" {
    static __image_start: u8;
    static __image_end: u8;
}

/// A PC's devices see the CPU's caches.
pub type Caches = crate::dma::Coherent;

/// The time stamp counter.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    hz: u64,
}

impl Counter for Clock {
    fn ticks(&self) -> u64 {
        cpu::time_stamp()
    }
    fn hz(&self) -> u64 {
        self.hz
    }
}

/// The local APIC in either mode.
enum Access {
    Memory(XApic<RawMmio>),
    Registers,
}

const APIC_BASE_MSR: u32 = 0x1b;
const X2APIC_MSR: u32 = 0x800;

impl ApicRegisters for Access {
    fn read(&self, offset: u16) -> u32 {
        match self {
            Access::Memory(apic) => apic.read(offset),
            // SAFETY: x2APIC mode was switched on, so the CPU has these registers.
            Access::Registers => unsafe { cpu::read_msr(X2APIC_MSR + u32::from(offset >> 4)) as u32 },
        }
    }
    fn write(&self, offset: u16, value: u32) {
        match self {
            Access::Memory(apic) => apic.write(offset, value),
            // SAFETY: as for reading; a vector that this CPU does not have is not there to be masked.
            Access::Registers => unsafe {
                cpu::write_msr(X2APIC_MSR + u32::from(offset >> 4), value.into());
            },
        }
    }
    fn id(&self) -> u32 {
        match self {
            Access::Memory(apic) => apic.id(),
            Access::Registers => self.read(0x20),
        }
    }
}

type Apic = LocalApic<Access, IrqLock>;
static APIC: Once<Apic> = Once::new();
/// Port that switches the machine off, 0 for none.
static POWER_PORT: AtomicU16 = AtomicU16::new(0);

/// RAM and tables below 4 GiB, which are mapped from the start. The start information may lie in the first page, which
/// is unmapped later.
struct LowMemory {
    first: u64,
}

impl PhysicalMemory for LowMemory {
    fn bytes(&self, address: u64, size: usize) -> Option<&[u8]> {
        let end = address.checked_add(size as u64)?;
        if address < self.first || end > 4 << 30 {
            return None;
        }
        // SAFETY: mapped; firmware's tables are not written while they are read, as nothing else runs.
        Some(unsafe { core::slice::from_raw_parts(with_exposed_provenance(address as usize), size) })
    }
}

/// Called by `boot.s`.
#[unsafe(no_mangle)]
extern "C" fn tombolo_start(info: u64) -> ! {
    devices::start_serial();
    // SAFETY: the start of the program, with interrupts masked.
    unsafe { tables::load_tables() };
    run(start(info))
}

fn start(info: u64) -> Result<Machine, PlatformError> {
    static COMMAND_LINE: Once<ArrayString<{ MAX_COMMAND_LINE }>> = Once::new();
    let early = LowMemory { first: 1 };
    let info = StartInfo::read(&early, info)?;
    let command_line = info.command_line(&early);
    let command_line = COMMAND_LINE.set(ArrayString::from(command_line).unwrap_or_default());
    let memory = LowMemory { first: 4096 };
    let acpi = Acpi::new(&memory, info.rsdp)?;
    POWER_PORT.store(acpi.power_control_port().unwrap_or(0), Relaxed);
    let mcfg = acpi.mcfg()?;
    // SAFETY: once, at the start, with what firmware says of RAM.
    let end = unsafe { tables::map_memory(&info.ram) };
    let pci = pci_host(&info, mcfg, end);
    let image = image();
    // Below 1 MiB is firmware's.
    let taken = [image, MemoryRange { start: 0, size: 1 << 20 }];
    let low: Ranges = info.ram.iter().filter(|ram| ram.end() <= 4 << 30).copied().collect();
    // SAFETY: firmware says that it is RAM; the image and firmware's part are taken out.
    let dma = unsafe { set_dma_aside(&low, &taken, crate::dma::Coherent, |_| ())? };
    let hz = devices::time_stamp_rate();
    let hz =
        hz.ok_or(PlatformError::Firmware("the time stamp counter has no known rate: no CPUID, no PIT"))?;
    devices::mask_legacy_controllers();
    let apic = APIC.set(LocalApic::new(apic_access()?, IrqLock));
    apic.start();
    cpu::enable_interrupts();
    Ok(Machine { pci, dma, messages: apic, clock: Clock { hz }, command_line })
}

fn image() -> MemoryRange {
    let start = addr_of!(__image_start).addr() as u64;
    MemoryRange { start, size: addr_of!(__image_end).addr() as u64 - start }
}

/// Switches x2APIC mode on where there is one, as memory writes cost more than register writes.
fn apic_access() -> Result<Access, PlatformError> {
    const ENABLED: u64 = 1 << 11;
    const X2APIC: u64 = 1 << 10;
    const HAS_X2APIC: u32 = 1 << 21;
    // SAFETY: every CPU with 64 bits has this register.
    let base = unsafe { cpu::read_msr(APIC_BASE_MSR) };
    if cpu::cpuid(1)[2] & HAS_X2APIC != 0 {
        // SAFETY: the CPU says that it has this mode; it is entered from the xAPIC's.
        unsafe {
            cpu::write_msr(APIC_BASE_MSR, base | ENABLED);
            cpu::write_msr(APIC_BASE_MSR, base | ENABLED | X2APIC);
        }
        return Ok(Access::Registers);
    }
    // SAFETY: as above; the address stays.
    unsafe { cpu::write_msr(APIC_BASE_MSR, base | ENABLED) };
    let range = MemoryRange { start: base & 0xf_ffff_f000, size: 4096 };
    // SAFETY: the local APIC is there, and mapped uncached: it is no RAM.
    let io = unsafe { device_memory(range) };
    Ok(Access::Memory(XApic(io.ok_or(PlatformError::Firmware("the local APIC is at address 0"))?)))
}

/// PCI memory: on a PC everything that is neither RAM, nor configuration space, nor the range of the interrupt
/// controllers goes to the host bridge.
fn pci_host(info: &StartInfo, mcfg: Mcfg, mapped: u64) -> PciHost {
    const CONTROLLERS: u64 = 0xfec0_0000;
    const GIB: u64 = 1 << 30;
    let buses = u64::from(mcfg.last_bus - mcfg.first_bus) + 1;
    let start = mcfg.base.saturating_add(u64::from(mcfg.first_bus) * BUS_SIZE as u64);
    let ecam = MemoryRange { start, size: buses * BUS_SIZE as u64 };
    let all = || info.ram.iter().chain(&info.reserved);
    let used = |end: u64| all().map(MemoryRange::end).filter(|used| *used <= end).max().unwrap_or(0);
    let below = if ecam.start < CONTROLLERS { ecam.start } else { CONTROLLERS };
    let gap = |from: u64, to: u64| {
        let from = from.checked_next_multiple_of(BUS_SIZE as u64).unwrap_or(u64::MAX);
        Aperture { bus: from, cpu: from, size: to.saturating_sub(from) }
    };
    let before = gap(used(below), below);
    let after = gap(ecam.end(), CONTROLLERS);
    let low = if after.size > before.size { after } else { before };
    let ram_end = info.ram.iter().map(MemoryRange::end).max().unwrap_or(0).max(4 << 30);
    let high = gap(ram_end.checked_next_multiple_of(GIB).unwrap_or(u64::MAX), mapped);
    let range = MemoryRange { start: high.bus, size: high.size.min(64 * GIB) };
    let is_free = range.size != 0 && !all().any(|used| used.overlaps(&range));
    let high = is_free.then_some(Aperture { size: range.size, ..high });
    PciHost { ecam, first_bus: mcfg.first_bus, last_bus: mcfg.last_bus, apertures: Apertures { low, high } }
}

/// Power off says success. A failure goes to QEMU's `isa-debug-exit`, whose exit status is `2 * status + 1`; without
/// that device the machine is switched off as well, and the last line on the serial port tells.
pub fn exit(status: u8) -> ! {
    const DEBUG_EXIT: u16 = 0xf4;
    /// Sleep type 0 is off (S5) on QEMU's PCs; the enable bit.
    const OFF: u16 = 1 << 13;
    const OFF_LOOKS: u32 = 200_000_000;
    if status != 0 {
        // SAFETY: without the device nobody is there.
        unsafe { cpu::out32(DEBUG_EXIT, status.into()) };
    }
    let port = POWER_PORT.load(Relaxed);
    if port != 0 {
        // SAFETY: firmware says that this is the power control register.
        unsafe { cpu::out16(port, OFF) };
        // It takes effect a moment later.
        (0..OFF_LOOKS).for_each(|_| core::hint::spin_loop());
    }
    // SAFETY: as above.
    unsafe { cpu::out32(DEBUG_EXIT, status.into()) };
    cpu::halt()
}

/// What `boot.s` pushes.
#[repr(C)]
struct Frame {
    /// R15 first.
    registers: [u64; 15],
    vector: u64,
    error: u64,
    rip: u64,
    cs: u64,
    rflags: u64,
    rsp: u64,
    ss: u64,
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 15] = [
            "r15", "r14", "r13", "r12", "r11", "r10", "r9", "r8", "rbp", "rdi", "rsi", "rdx", "rcx", "rbx",
            "rax",
        ];
        let cr2: u64;
        // SAFETY: reads a register.
        unsafe { core::arch::asm!("mov {}, cr2", out(reg) cr2, options(nomem, nostack, preserves_flags)) };
        writeln!(f, "  vector {} error {:#x} cr2 {cr2:#x}", self.vector, self.error)?;
        writeln!(f, "  rip {:#x} rsp {:#x} rflags {:#x}", self.rip, self.rsp, self.rflags)?;
        for (name, value) in NAMES.iter().zip(self.registers).rev() {
            writeln!(f, "  {name:>3} {value:#018x}")?;
        }
        Ok(())
    }
}

/// Called by the stubs of `boot.s`, with interrupts masked.
#[unsafe(no_mangle)]
extern "C" fn tombolo_interrupt(frame: &Frame) {
    const NAMES: [&str; 20] = [
        "divide error",
        "debug",
        "non-maskable interrupt",
        "breakpoint",
        "overflow",
        "bound range",
        "invalid opcode",
        "device not available (floating point)",
        "double fault",
        "coprocessor overrun",
        "invalid task state",
        "segment not present",
        "stack fault",
        "general protection",
        "page fault",
        "reserved",
        "x87 error",
        "alignment check",
        "machine check",
        "SIMD error",
    ];
    if frame.vector < 32 {
        exception(NAMES.get(frame.vector as usize).unwrap_or(&"reserved"), frame);
    }
    let vector = frame.vector as u8;
    if vector == SPURIOUS_VECTOR {
        return;
    }
    // Vectors that are nobody's are counted as such.
    INTERRUPTS.dispatch(Apic::number_of(vector).unwrap_or(u32::MAX));
    if let Some(apic) = APIC.get() {
        apic.end_of_interrupt();
    }
}
