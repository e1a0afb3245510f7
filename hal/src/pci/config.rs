//! The trait through which everything else in [`crate::pci`] reaches a function.

use super::error::PciError;
use super::identity;

/// Bytes of configuration space of a PCI Express function (Linux: `PCI_CFG_SPACE_EXP_SIZE`).
pub const CONFIG_SPACE_SIZE: u16 = 4096;

/// Bytes of the part that conventional PCI knows (Linux: `PCI_CFG_SPACE_SIZE`). The capability
/// list lives here; extended capabilities follow it.
pub const CONFIG_SPACE_CONVENTIONAL_SIZE: u16 = 256;

/// The 4 KiB configuration space of one PCI function.
///
/// This is what a backend gives: an ECAM window on bare metal, a VFIO region, the kernel's
/// accessors, the simulator, [`FakeConfigSpace`](super::fake::FakeConfigSpace), a mock.
///
/// # Contract for backends
///
/// - Values are in the byte order of the CPU; configuration space is little-endian.
/// - Accesses are naturally aligned and inside [`CONFIG_SPACE_SIZE`]. A backend answers any other
///   read with all ones and drops any other write; it does not panic.
/// - The trait is infallible. A function that is absent or gone reads all ones and drops writes,
///   and so does the space above [`CONFIG_SPACE_CONVENTIONAL_SIZE`] when the platform cannot
///   reach it.
/// - An access has the width that was asked for. That is why no width is derived from another
///   one here: status bits are cleared by writing one to them, and a 16-bit write made from a
///   32-bit read and write would clear the status half beside the command half.
/// - A write is complete when the call returns (configuration writes are not posted).
///
/// # Example
///
/// ```
/// use tombolo_hal::pci::ConfigSpace;
///
/// /// A function that is not there.
/// struct Empty;
///
/// impl ConfigSpace for Empty {
///     fn read8(&self, _offset: u16) -> u8 { u8::MAX }
///     fn read16(&self, _offset: u16) -> u16 { u16::MAX }
///     fn read32(&self, _offset: u16) -> u32 { u32::MAX }
///     fn write8(&self, _offset: u16, _value: u8) {}
///     fn write16(&self, _offset: u16, _value: u16) {}
///     fn write32(&self, _offset: u16, _value: u32) {}
/// }
///
/// assert_eq!(Empty.read16(0), 0xffff);
/// ```
#[cfg_attr(feature = "mock", mockall::automock)]
pub trait ConfigSpace: Send + Sync {
    /// Reads the byte at `offset`.
    fn read8(&self, offset: u16) -> u8;

    /// Reads the 16-bit word at `offset`, a multiple of 2.
    fn read16(&self, offset: u16) -> u16;

    /// Reads the 32-bit word at `offset`, a multiple of 4.
    fn read32(&self, offset: u16) -> u32;

    /// Writes the byte at `offset`.
    fn write8(&self, offset: u16, value: u8);

    /// Writes the 16-bit word at `offset`, a multiple of 2.
    fn write16(&self, offset: u16, value: u16);

    /// Writes the 32-bit word at `offset`, a multiple of 4.
    fn write32(&self, offset: u16, value: u32);
}

impl<T: ConfigSpace + ?Sized> ConfigSpace for &T {
    fn read8(&self, offset: u16) -> u8 {
        (**self).read8(offset)
    }

    fn read16(&self, offset: u16) -> u16 {
        (**self).read16(offset)
    }

    fn read32(&self, offset: u16) -> u32 {
        (**self).read32(offset)
    }

    fn write8(&self, offset: u16, value: u8) {
        (**self).write8(offset, value);
    }

    fn write16(&self, offset: u16, value: u16) {
        (**self).write16(offset, value);
    }

    fn write32(&self, offset: u16, value: u32) {
        (**self).write32(offset, value);
    }
}

/// Checks that the function answers.
///
/// Called where a register reads all ones, to tell a legal value from a device that was pulled.
///
/// # Errors
///
/// [`PciError::DeviceGone`] if the identity word is not that of a function.
pub fn check_present<C: ConfigSpace + ?Sized>(cfg: &C) -> Result<(), PciError> {
    identity::classify(cfg.read32(super::regs::VENDOR_ID)).map_err(|_| PciError::DeviceGone)
}

/// What is wrong when a register holds nonsense: the device is gone, or else `error`.
pub(super) fn gone_or<C: ConfigSpace + ?Sized>(cfg: &C, error: PciError) -> PciError {
    check_present(cfg).err().unwrap_or(error)
}

/// Sets the bits in `mask` of a 16-bit control register to `value`, and reads them back.
///
/// The read-back tells a device that is gone, and that the function took what was asked for. Not
/// for registers with write-one-to-clear bits.
pub(super) fn modify16<C: ConfigSpace + ?Sized>(
    cfg: &C,
    offset: u16,
    mask: u16,
    value: u16,
) -> Result<(), PciError> {
    let before = cfg.read16(offset);
    if before == u16::MAX {
        check_present(cfg)?;
    }
    let wanted = (before & !mask) | (value & mask);
    cfg.write16(offset, wanted);
    let found = cfg.read16(offset);
    if found == u16::MAX {
        check_present(cfg)?;
    }
    if (found ^ wanted) & mask != 0 {
        return Err(PciError::RegisterRefused { offset, wanted, found });
    }
    Ok(())
}
