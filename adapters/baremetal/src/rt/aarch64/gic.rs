//! The GIC's CPU interface, and the ITS on this machine.

use tombolo_hal::mmio::RawMmio;

use super::cpu::{self, IrqLock, read_register, write_register};
use crate::clock::CounterDelay;
use crate::irq::IrqError;
use crate::irq::gic::{Distributor, FIRST_LPI, Its, Redistributor};
use crate::platform::MemoryRange;
use crate::platform::devicetree::Gic;
use crate::rt::machine::{INTERRUPTS, Pool, device_memory};

use super::Clock;

/// The ITS of this machine.
pub type Messages = Its<RawMmio, &'static Pool, IrqLock>;

/// Interrupt ids from here on are no interrupts.
const SPECIAL: u64 = 1020;

/// Brings up what takes messages.
///
/// # Errors
/// [`IrqError`].
pub fn start(gic: &Gic, pool: &'static Pool, clock: Clock) -> Result<Messages, IrqError> {
    let its = gic.its.ok_or(IrqError::Controller("there is no ITS (QEMU: -M virt,gic-version=3,its=on)"))?;
    let delay = &mut CounterDelay(clock);
    let distributor = Distributor::start(map(gic.distributor)?, delay)?;
    let regions = map(gic.redistributors)?;
    let redistributor = Redistributor::find(regions, gic.redistributors.start, cpu::affinity(), delay)?;
    start_cpu_interface()?;
    Its::start((map(its)?, its.start), &distributor, &redistributor, pool, IrqLock, delay)
}

fn map(range: MemoryRange) -> Result<RawMmio, IrqError> {
    // SAFETY: the device tree says that the GIC is there; it is mapped as device memory.
    unsafe { device_memory(range) }.ok_or(IrqError::Controller("it is at an address that cannot be"))
}

/// Registers by their encodings, as assemblers of old versions do not know the names: ICC_SRE, PMR, BPR1, CTLR and
/// IGRPEN1 of EL1.
fn start_cpu_interface() -> Result<(), IrqError> {
    write_register!("S3_0_C12_C12_5", read_register!("S3_0_C12_C12_5") | 1);
    if read_register!("S3_0_C12_C12_5") & 1 == 0 {
        return Err(IrqError::Controller("its CPU interface has no system registers"));
    }
    write_register!("S3_0_C4_C6_0", 0xf0);
    write_register!("S3_0_C12_C12_3", 0);
    write_register!("S3_0_C12_C12_4", 0);
    write_register!("S3_0_C12_C12_7", 1);
    Ok(())
}

/// Takes and handles one interrupt: ICC_IAR1, ICC_EOIR1.
pub fn handle() {
    let id = read_register!("S3_0_C12_C12_0") & 0xff_ffff;
    if (SPECIAL..SPECIAL + 4).contains(&id) {
        return;
    }
    // The handler must not look at the device before the interrupt is taken.
    // SAFETY: waits.
    unsafe { core::arch::asm!("dsb sy", options(nostack, preserves_flags)) };
    // Whatever is no LPI is nobody's, and counted as such.
    INTERRUPTS.dispatch((id as u32).checked_sub(FIRST_LPI).unwrap_or(u32::MAX));
    write_register!("S3_0_C12_C12_1", id);
}
