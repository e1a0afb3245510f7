//! Instructions that Rust has no word for.

use core::arch::asm;
use core::ptr::NonNull;

use crate::dma::CacheMaintenance;
use crate::platform::devicetree::Conduit;

/// Reads a system register.
macro_rules! read_register {
    ($name:literal) => {{
        let value: u64;
        // SAFETY: reads a register that exists at EL1.
        unsafe { ::core::arch::asm!(concat!("mrs {}, ", $name), out(reg) value, options(nostack, preserves_flags)) };
        value
    }};
}
pub(super) use read_register;

/// Writes a system register, and waits until that has an effect.
macro_rules! write_register {
    ($name:literal, $value:expr) => {{
        let value: u64 = $value;
        // SAFETY: the GIC's CPU interface belongs to this runtime.
        unsafe {
            ::core::arch::asm!(concat!("msr ", $name, ", {}"), "isb", in(reg) value, options(nostack, preserves_flags));
        }
    }};
}
pub(super) use write_register;

/// The affinity of this CPU: Aff3, Aff2, Aff1, Aff0 from the top.
pub fn affinity() -> u32 {
    let mpidr = read_register!("mpidr_el1");
    ((mpidr >> 32 & 0xff) << 24 | mpidr & 0xff_ffff) as u32
}

/// The generic timer's counter, after everything before it.
pub fn counter() -> u64 {
    // SAFETY: waits for earlier instructions.
    unsafe { asm!("isb", options(nomem, nostack, preserves_flags)) };
    read_register!("cntvct_el0")
}

/// Lets interrupts in.
pub fn enable_interrupts() {
    // SAFETY: the vectors are set before this is called. A barrier for the compiler: handlers see what was
    // written before.
    unsafe { asm!("msr daifclr, #2", options(nostack)) };
}

/// Stops until the end of the machine.
pub fn halt() -> ! {
    loop {
        // SAFETY: with interrupts masked it stops for good.
        unsafe { asm!("msr daifset, #0xf", "wfi", options(nomem, nostack)) };
    }
}

/// Tells a debugger or QEMU to end with `status`. Returns, or is an undefined instruction, if there is none.
pub fn semihosting_exit(status: u8) {
    const EXIT_EXTENDED: u64 = 0x20;
    const APPLICATION_EXIT: u64 = 0x2_0026;
    let block = [APPLICATION_EXIT, status.into()];
    // SAFETY: the block lives long enough; nothing is written.
    unsafe { asm!("hlt #0xf000", inout("x0") EXIT_EXTENDED => _, in("x1") &block, options(nostack)) };
}

/// Asks the firmware to switch the machine off.
pub fn system_off(conduit: Conduit) {
    const SYSTEM_OFF: u64 = 0x8400_0008;
    // SAFETY: the firmware keeps to its calling convention: X0 to X17 may change.
    unsafe {
        match conduit {
            Conduit::Hvc => asm!("hvc #0", inout("x0") SYSTEM_OFF => _, clobber_abi("C"), options(nostack)),
            Conduit::Smc => asm!("smc #0", inout("x0") SYSTEM_OFF => _, clobber_abi("C"), options(nostack)),
        }
    }
}

/// The lock of one CPU: interrupts are masked inside.
#[derive(Clone, Copy, Debug, Default)]
pub struct IrqLock;

impl tombolo_hal::lock::RawLock for IrqLock {
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        let masks = read_register!("daif");
        // SAFETY: masks interrupts. No `nomem`: nothing moves out of the section.
        unsafe { asm!("msr daifset, #2", options(nostack, preserves_flags)) };
        let result = section();
        // SAFETY: as they were.
        unsafe { asm!("msr daif, {}", in(reg) masks, options(nostack, preserves_flags)) };
        result
    }
}

/// Whether devices see the CPU's data caches.
#[derive(Clone, Copy, Debug)]
pub enum Caches {
    /// They do.
    Coherent,
    /// They do not: caches are maintained by address.
    Maintained,
}

impl Caches {
    fn each_line(&self, start: NonNull<u8>, size: usize, work: impl Fn(usize)) {
        let line = self.line_size();
        let first = start.addr().get() & !(line - 1);
        (first..start.addr().get() + size).step_by(line).for_each(work);
        // SAFETY: waits until the maintenance is done.
        unsafe { asm!("dsb sy", options(nostack, preserves_flags)) };
    }
}

// SAFETY: cleans and invalidates by address to the point of coherency, where devices and CPU meet.
unsafe impl CacheMaintenance for Caches {
    fn line_size(&self) -> usize {
        if let Caches::Coherent = self {
            return 1;
        }
        4 << (read_register!("ctr_el0") >> 16 & 0xf)
    }

    unsafe fn clean(&self, start: NonNull<u8>, size: usize) {
        // SAFETY: cleaning changes nothing that the CPU sees.
        self.each_line(start, size, |at| unsafe {
            asm!("dc cvac, {}", in(reg) at, options(nostack, preserves_flags))
        });
    }

    unsafe fn invalidate(&self, start: NonNull<u8>, size: usize) {
        // SAFETY: the caller says that these lines hold nothing of the CPU's; cleaning as well would do no harm
        // then, and spares a neighbour's data if it was wrong.
        self.each_line(start, size, |at| unsafe {
            asm!("dc civac, {}", in(reg) at, options(nostack, preserves_flags))
        });
    }
}
