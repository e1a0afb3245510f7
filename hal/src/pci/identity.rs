//! Who a function says it is.

use super::config::ConfigSpace;
use super::error::PciError;
use super::regs::{self, ClassRevision, HeaderType};

/// Vendor that a function shows while it asks for more time after a reset (Request Retry Status
/// made visible to software).
const VENDOR_RETRY: u16 = 0x0001;

/// The identifying words of a function's header.
///
/// ```
/// use tombolo_hal::pci::fake::FakeConfigSpace;
/// use tombolo_hal::pci::{Identity, PciError};
///
/// let cfg = FakeConfigSpace::new(0x16c3, 0xedda);
/// let id = Identity::read(&cfg)?;
/// assert_eq!((id.vendor, id.device), (0x16c3, 0xedda));
///
/// cfg.remove();
/// assert_eq!(id.verify(&cfg), Err(PciError::DeviceGone));
/// # Ok::<(), PciError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Identity {
    /// Vendor ID, as given out by the PCI-SIG.
    pub vendor: u16,
    /// Device ID, as given out by the vendor.
    pub device: u16,
    /// Vendor of the card or system. 0 unless the header is a normal one: bridges keep it in a
    /// capability.
    pub subsystem_vendor: u16,
    /// Card or system, as given out by its vendor. 0 unless the header is a normal one.
    pub subsystem_device: u16,
    /// Class code, 24 bits: base class, sub-class, programming interface (Linux: `pci_dev::class`).
    pub class: u32,
    /// Revision of the device.
    pub revision: u8,
    /// Layout of the header, and whether the device has further functions.
    pub header_type: HeaderType,
}

impl Identity {
    /// Reads the identity of the function behind `cfg`.
    ///
    /// # Errors
    ///
    /// [`PciError::Absent`] if nothing answers, [`PciError::NotReady`] if the function asks for
    /// more time, [`PciError::DeviceGone`] if it vanished between the reads.
    pub fn read<C: ConfigSpace + ?Sized>(cfg: &C) -> Result<Self, PciError> {
        let id = cfg.read32(regs::VENDOR_ID);
        classify(id)?;
        let class = ClassRevision::from_bits(cfg.read32(regs::CLASS_REVISION));
        let header_type = HeaderType::from_bits(cfg.read8(regs::HEADER_TYPE));
        let subsystem = match header_type.layout() {
            HeaderType::NORMAL => cfg.read32(regs::SUBSYSTEM_VENDOR_ID),
            _ => 0,
        };
        // One word taken while the device left would make a chimera.
        super::config::check_present(cfg)?;
        Ok(Self {
            vendor: low_half(id),
            device: high_half(id),
            subsystem_vendor: low_half(subsystem),
            subsystem_device: high_half(subsystem),
            class: class.class(),
            revision: class.revision(),
            header_type,
        })
    }

    /// Checks that the same function still answers.
    ///
    /// # Errors
    ///
    /// [`PciError::DeviceGone`], or [`PciError::IdentityChanged`] if another device sits in the
    /// slot now.
    pub fn verify<C: ConfigSpace + ?Sized>(&self, cfg: &C) -> Result<(), PciError> {
        let expected = (u32::from(self.device) << 16) | u32::from(self.vendor);
        let found = cfg.read32(regs::VENDOR_ID);
        classify(found).map_err(|_| PciError::DeviceGone)?;
        if found != expected {
            return Err(PciError::IdentityChanged { expected, found });
        }
        Ok(())
    }
}

/// Says whether an identity word is that of a function.
///
/// Root complexes answer for an empty slot with all ones; some boards give zero, or only one half
/// of either (seen by Linux's `pci_bus_generic_read_dev_vendor_id`).
pub(super) fn classify(id: u32) -> Result<(), PciError> {
    match id {
        u32::MAX | 0 | 0x0000_ffff | 0xffff_0000 => Err(PciError::Absent { id }),
        _ if low_half(id) == u16::MAX => Err(PciError::Absent { id }),
        _ if low_half(id) == VENDOR_RETRY => Err(PciError::NotReady),
        _ => Ok(()),
    }
}

/// How many base address registers the header has.
pub(super) fn bar_count<C: ConfigSpace + ?Sized>(cfg: &C) -> Result<u8, PciError> {
    let layout = HeaderType::from_bits(cfg.read8(regs::HEADER_TYPE)).layout();
    match layout {
        HeaderType::NORMAL => Ok(6),
        HeaderType::BRIDGE => Ok(2),
        _ => Err(super::config::gone_or(cfg, PciError::HeaderLayout { layout })),
    }
}

pub(super) const fn low_half(word: u32) -> u16 {
    (word & 0xffff) as u16
}

pub(super) const fn high_half(word: u32) -> u16 {
    (word >> 16) as u16
}
