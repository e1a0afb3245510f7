//! Instructions that Rust has no word for.

use core::arch::asm;

/// # Safety
/// Reading the port has no effect that anybody else relies on not happening.
pub unsafe fn in8(port: u16) -> u8 {
    let value;
    // SAFETY: the caller's promise.
    unsafe { asm!("in al, dx", in("dx") port, out("al") value, options(nomem, nostack, preserves_flags)) };
    value
}

/// # Safety
/// The device behind the port may be told this.
pub unsafe fn out8(port: u16, value: u8) {
    // SAFETY: the caller's promise. Not `nomem`: what was written to memory before comes first.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nostack, preserves_flags)) };
}

/// # Safety
/// As for [`out8`].
pub unsafe fn out16(port: u16, value: u16) {
    // SAFETY: as for `out8`.
    unsafe { asm!("out dx, ax", in("dx") port, in("ax") value, options(nostack, preserves_flags)) };
}

/// # Safety
/// As for [`out8`].
pub unsafe fn out32(port: u16, value: u32) {
    // SAFETY: as for `out8`.
    unsafe { asm!("out dx, eax", in("dx") port, in("eax") value, options(nostack, preserves_flags)) };
}

/// # Safety
/// The CPU has this register.
pub unsafe fn read_msr(register: u32) -> u64 {
    let (high, low): (u32, u32);
    // SAFETY: the caller's promise.
    unsafe {
        asm!("rdmsr", in("ecx") register, out("edx") high, out("eax") low, options(nostack, preserves_flags))
    };
    u64::from(high) << 32 | u64::from(low)
}

/// # Safety
/// The CPU has this register and it may hold this.
pub unsafe fn write_msr(register: u32, value: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("wrmsr", in("ecx") register, in("edx") (value >> 32) as u32, in("eax") value as u32,
            options(nostack, preserves_flags));
    }
}

/// The time stamp counter, after everything before it.
pub fn time_stamp() -> u64 {
    let (high, low): (u32, u32);
    // SAFETY: reads a counter.
    unsafe {
        asm!("lfence", "rdtsc", out("edx") high, out("eax") low, options(nomem, nostack, preserves_flags))
    };
    u64::from(high) << 32 | u64::from(low)
}

/// EAX, EBX, ECX and EDX of a CPUID leaf; zero for one that there is not.
pub fn cpuid(leaf: u32) -> [u32; 4] {
    use core::arch::x86_64::__cpuid;
    let last = __cpuid(leaf & 0x8000_0000).eax;
    if last < leaf || last & 0x8000_0000 != leaf & 0x8000_0000 {
        return [0; 4];
    }
    let result = __cpuid(leaf);
    [result.eax, result.ebx, result.ecx, result.edx]
}

/// Stops until the end of the machine.
pub fn halt() -> ! {
    loop {
        // SAFETY: with interrupts masked it stops for good.
        unsafe { asm!("cli", "hlt", options(nomem, nostack)) };
    }
}

/// Lets interrupts in.
pub fn enable_interrupts() {
    // SAFETY: the interrupt table is loaded before this is called. A barrier for the compiler: handlers see
    // what was written before.
    unsafe { asm!("sti", options(nostack)) };
}

/// The lock of one CPU: interrupts are masked inside.
#[derive(Clone, Copy, Debug, Default)]
pub struct IrqLock;

impl tombolo_hal::lock::RawLock for IrqLock {
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        let flags: u64;
        // SAFETY: saves the flags and masks interrupts. No `nomem`: nothing moves out of the section.
        unsafe { asm!("pushfq", "pop {}", "cli", out(reg) flags) };
        let result = section();
        const INTERRUPTS: u64 = 1 << 9;
        if flags & INTERRUPTS != 0 {
            // SAFETY: as they were.
            unsafe { asm!("sti", options(nostack)) };
        }
        result
    }
}
