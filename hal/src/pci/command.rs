//! What a driver switches in the command register.
//!
//! Each function changes its own bit, and reads it back: the switch has been thrown when the
//! function returns.

use super::config::{ConfigSpace, modify16};
use super::error::PciError;
use super::regs::{self, Command};

/// Lets the function answer accesses to its memory BARs, or not.
///
/// # Errors
///
/// [`PciError::DeviceGone`]; [`PciError::RegisterRefused`] if the function does not take it, as a
/// virtual function, whose memory is switched in its physical function.
pub fn set_memory_enabled<C: ConfigSpace + ?Sized>(cfg: &C, on: bool) -> Result<(), PciError> {
    set(cfg, Command::new().with_memory(true), on)
}

/// Lets the function read and write memory and send MSI (Bus Master Enable), or not.
///
/// When this returns `Ok` after switching off, the function starts no new request; those under way
/// may still finish. That is the step of a teardown before DMA memory is unmapped.
///
/// ```
/// use tombolo_hal::pci::{command, fake::FakeConfigSpace, PciError};
///
/// let cfg = FakeConfigSpace::new(0x16c3, 0xedda);
/// command::set_memory_enabled(&cfg, true)?;
/// command::set_bus_master(&cfg, true)?;
/// // ... work ...
/// command::set_bus_master(&cfg, false)?;
/// assert!(!command::read(&cfg)?.bus_master());
/// # Ok::<(), PciError>(())
/// ```
///
/// # Errors
///
/// [`PciError::DeviceGone`]; [`PciError::RegisterRefused`] if the function does not take it: then
/// it may still do DMA.
pub fn set_bus_master<C: ConfigSpace + ?Sized>(cfg: &C, on: bool) -> Result<(), PciError> {
    set(cfg, Command::new().with_bus_master(true), on)
}

/// Forbids the function to assert INTx, or allows it.
///
/// # Errors
///
/// [`PciError::DeviceGone`]; [`PciError::RegisterRefused`] from a function without INTx, which may
/// keep the bit at zero (its interrupt pin register reads 0).
pub fn set_intx_disabled<C: ConfigSpace + ?Sized>(cfg: &C, disabled: bool) -> Result<(), PciError> {
    set(cfg, Command::new().with_intx_disable(true), disabled)
}

/// Reads the command register.
///
/// # Errors
///
/// [`PciError::DeviceGone`].
pub fn read<C: ConfigSpace + ?Sized>(cfg: &C) -> Result<Command, PciError> {
    let bits = cfg.read16(regs::COMMAND);
    if bits == u16::MAX {
        super::config::check_present(cfg)?;
    }
    Ok(Command::from_bits(bits))
}

fn set<C: ConfigSpace + ?Sized>(cfg: &C, bit: Command, on: bool) -> Result<(), PciError> {
    let mask = bit.into_bits();
    modify16(cfg, regs::COMMAND, mask, if on { mask } else { 0 })
}
