//! A tiny runtime: entry point, exceptions, serial port, clock, interrupts, exit status.
//!
//! | | x86_64 | aarch64 |
//! |---|---|---|
//! | machine | QEMU q35 and alike: PVH entry, ACPI | QEMU virt and alike: device tree, GICv3 with ITS |
//! | memory | identity mapped; RAM cached, all else not | the same |
//! | serial port | 16550 at port 0x3f8 | PL011 |
//! | messages | local APIC, x2APIC where there is one | ITS |
//! | clock | TSC, by CPUID or calibrated with the PIT | generic timer |
//! | exit | power off; with a failure `isa-debug-exit` | semihosting, else power off |
//!
//! On aarch64 the device tree says whether devices see the caches (`dma-coherent`); where they do not, or with
//! `dma=noncoherent` on the command line, DMA memory is mapped uncached and caches are maintained.
//!
//! One CPU. Floating point is off on x86_64 and saved around interrupts on aarch64.
//!
//! A program is a function with [`entry!`](crate::entry); what it returns is its exit status, 0 for success. A last
//! line `tombolo: exit status N` on the serial port says it as well. A panic ends with status 101, an exception that
//! nobody expects with 102, a machine that is not understood with 103.

#[cfg(target_arch = "aarch64")]
#[path = "aarch64/mod.rs"]
mod arch;
#[cfg(target_arch = "x86_64")]
#[path = "x86_64/mod.rs"]
mod arch;
mod console;
mod device;
mod machine;
mod once;

pub use arch::{Caches, Clock, IrqLock};
pub use console::Console;
pub use device::{Device, DeviceError, FUNCTIONS};
pub use machine::{Interrupts, Machine, Memory, Pool};

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Exit status after a panic.
pub const STATUS_PANIC: u8 = 101;
/// Exit status after an exception.
pub const STATUS_EXCEPTION: u8 = 102;
/// Exit status on a machine that is not understood.
pub const STATUS_MACHINE: u8 = 103;

/// Makes a function the program: `fn(&'static Machine) -> u8`.
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        // SAFETY: the runtime declares this symbol with this type and calls it once.
        #[unsafe(no_mangle)]
        fn tombolo_main(machine: &'static $crate::rt::Machine) -> u8 {
            let main: fn(&'static $crate::rt::Machine) -> u8 = $main;
            main(machine)
        }
    };
}

/// Writes a line to the serial port.
#[macro_export]
macro_rules! println {
    ($($arg:tt)*) => {{
        use ::core::fmt::Write as _;
        // The serial port takes everything.
        let _ = ::core::writeln!($crate::rt::Console, $($arg)*);
    }};
}

unsafe extern "Rust" {
    /// The program, as [`entry!`](crate::entry) defines it.
    safe fn tombolo_main(machine: &'static Machine) -> u8;
}

/// Set by the first who ends the program: what fails while that is said is not said.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Ends the program with this status.
pub fn exit(status: u8) -> ! {
    let first = !ENDING.swap(true, Relaxed);
    if first {
        println!("tombolo: exit status {status}");
    }
    arch::exit(status)
}

/// What comes after the architecture's own start: `machine` is the architecture's part of it.
fn run(machine: Result<Machine, crate::platform::PlatformError>) -> ! {
    static MACHINE: once::Once<Machine> = once::Once::new();
    match machine {
        Ok(machine) => exit(tombolo_main(MACHINE.set(machine))),
        Err(error) => {
            println!("tombolo: {error}");
            exit(STATUS_MACHINE)
        }
    }
}

/// An exception that nobody expects: `registers` is what there is to say.
fn exception(name: &str, registers: &dyn core::fmt::Display) -> ! {
    if !ENDING.load(Relaxed) {
        println!("tombolo: unexpected exception: {name}\n{registers}");
    }
    exit(STATUS_EXCEPTION)
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    if !ENDING.load(Relaxed) {
        println!("tombolo: {info}");
    }
    exit(STATUS_PANIC)
}
