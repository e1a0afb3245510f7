//! The capability list in the first 256 bytes.

use super::config::{self, CONFIG_SPACE_CONVENTIONAL_SIZE, ConfigSpace};
use super::error::PciError;
use super::regs::{self, HeaderType, Status};

/// Most entries that fit between the header and byte 256. More is a circle.
const MAX_ENTRIES: u16 = (CONFIG_SPACE_CONVENTIONAL_SIZE - regs::FIRST_CAPABILITY) / 4;

/// Bits of a list pointer that count. The two low ones are reserved, and the PCI Local Bus
/// specification has software mask them off.
const POINTER_MASK: u8 = 0xfc;

/// Identifies a capability (Linux: `PCI_CAP_ID_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CapabilityId(pub u8);

impl CapabilityId {
    /// Power management.
    pub const POWER_MANAGEMENT: Self = Self(0x01);
    /// Vital product data.
    pub const VPD: Self = Self(0x03);
    /// Message-signalled interrupts.
    pub const MSI: Self = Self(0x05);
    /// Vendor-specific.
    pub const VENDOR: Self = Self(0x09);
    /// PCI Express.
    pub const PCI_EXPRESS: Self = Self(0x10);
    /// Extended message-signalled interrupts.
    pub const MSIX: Self = Self(0x11);
}

impl core::fmt::Display for CapabilityId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:#04x}", self.0)
    }
}

/// One entry of the capability list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capability {
    /// What it is.
    pub id: CapabilityId,
    /// Where it starts, 0x40 to 0xfc, a multiple of 4.
    pub offset: u16,
}

impl Capability {
    /// Checks that `size` bytes of this capability are inside the conventional space.
    pub(super) fn check_size(self, size: u16) -> Result<Self, PciError> {
        if self.offset + size > CONFIG_SPACE_CONVENTIONAL_SIZE {
            return Err(PciError::CapabilityTruncated { id: self.id, offset: self.offset, size });
        }
        Ok(self)
    }
}

/// Walks the capability list. Made by [`capabilities`].
///
/// Gives at most 48 entries and then, if the list still has no end, one error. After an error or
/// the end it gives nothing more.
#[derive(Debug)]
pub struct Capabilities<'a, C: ?Sized> {
    cfg: &'a C,
    at: At,
    steps: u16,
}

#[derive(Clone, Copy, Debug)]
enum At {
    Start,
    Entry(u16),
    Done,
}

/// Iterates over the capability list of a function with a normal or bridge header.
///
/// ```
/// use tombolo_hal::pci::{self, fake::FakeConfigSpace, CapabilityId, PciError};
///
/// let cfg = FakeConfigSpace::new(0x16c3, 0xedda)
///     .with_capability(CapabilityId::POWER_MANAGEMENT, 0x40, &[0, 0])
///     .with_capability(CapabilityId::MSI, 0x50, &[0; 8]);
/// for capability in pci::capabilities(&cfg) {
///     let capability = capability?;
///     assert!(capability.offset >= 0x40);
/// }
/// let msi = pci::find_capability(&cfg, CapabilityId::MSI)?;
/// assert_eq!(msi.map(|c| c.offset), Some(0x50));
/// # Ok::<(), PciError>(())
/// ```
pub fn capabilities<C: ConfigSpace + ?Sized>(cfg: &C) -> Capabilities<'_, C> {
    Capabilities { cfg, at: At::Start, steps: 0 }
}

/// Finds the first capability `id`, or `None` if the function has none.
///
/// # Errors
///
/// As the walk: [`PciError::DeviceGone`], [`PciError::HeaderLayout`],
/// [`PciError::CapabilityPointer`], [`PciError::CapabilityHeader`], [`PciError::CapabilityLoop`].
/// An entry that comes before the fault is found.
pub fn find_capability<C: ConfigSpace + ?Sized>(
    cfg: &C,
    id: CapabilityId,
) -> Result<Option<Capability>, PciError> {
    capabilities(cfg).find(|entry| !matches!(entry, Ok(c) if c.id != id)).transpose()
}

impl<C: ConfigSpace + ?Sized> Capabilities<'_, C> {
    /// The pointer to the first entry, 0 if there is no list.
    fn first(&self) -> Result<u16, PciError> {
        let status = self.cfg.read16(regs::STATUS);
        if status == u16::MAX {
            config::check_present(self.cfg)?;
        }
        if !Status::from_bits(status).capability_list() {
            return Ok(0);
        }
        let layout = HeaderType::from_bits(self.cfg.read8(regs::HEADER_TYPE)).layout();
        if layout > HeaderType::BRIDGE {
            return Err(config::gone_or(self.cfg, PciError::HeaderLayout { layout }));
        }
        Ok(pointer(self.cfg.read8(regs::CAPABILITY_LIST)))
    }

    fn step(&mut self) -> Result<Option<Capability>, PciError> {
        let offset = match self.at {
            At::Start => self.first()?,
            At::Entry(offset) => offset,
            At::Done => 0,
        };
        if offset == 0 {
            return Ok(None);
        }
        if offset < regs::FIRST_CAPABILITY {
            return Err(config::gone_or(self.cfg, PciError::CapabilityPointer { offset }));
        }
        if self.steps == MAX_ENTRIES {
            return Err(PciError::CapabilityLoop { steps: self.steps });
        }
        self.steps += 1;
        let header = self.cfg.read16(offset);
        if header == u16::MAX {
            return Err(config::gone_or(self.cfg, PciError::CapabilityHeader { offset }));
        }
        let [id, next] = header.to_le_bytes();
        self.at = At::Entry(pointer(next));
        Ok(Some(Capability { id: CapabilityId(id), offset }))
    }
}

impl<C: ConfigSpace + ?Sized> Iterator for Capabilities<'_, C> {
    type Item = Result<Capability, PciError>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        if !matches!(step, Ok(Some(_))) {
            self.at = At::Done;
        }
        step.transpose()
    }
}

impl<C: ConfigSpace + ?Sized> core::iter::FusedIterator for Capabilities<'_, C> {}

fn pointer(byte: u8) -> u16 {
    u16::from(byte & POINTER_MASK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pci::fake::FakeConfigSpace;

    fn device() -> FakeConfigSpace {
        FakeConfigSpace::new(0x16c3, 0xedda)
    }

    #[test]
    fn walks_in_list_order_and_ends() {
        let cfg = device().with_capability(CapabilityId::MSIX, 0xb0, &[0; 5]).with_capability(
            CapabilityId::PCI_EXPRESS,
            0x70,
            &[0; 20],
        );
        let mut walk = capabilities(&cfg).map(|c| c.map(|c| (c.id, c.offset)));
        assert_eq!(walk.next(), Some(Ok((CapabilityId::MSIX, 0xb0))));
        assert_eq!(walk.next(), Some(Ok((CapabilityId::PCI_EXPRESS, 0x70))));
        assert_eq!(walk.next(), None);
        assert_eq!(walk.next(), None);
        assert_eq!(find_capability(&cfg, CapabilityId::VPD), Ok(None));
    }

    #[test]
    fn no_list_without_the_status_bit() {
        let cfg = device().with_register(0x34, 0x40, 0).with_register(0x40, 0x05, 0);
        assert_eq!(capabilities(&cfg).count(), 0);
    }

    #[test]
    fn a_list_that_fills_the_space_is_no_loop() {
        let mut cfg = device();
        for slot in 0..48 {
            cfg = cfg.with_capability(CapabilityId::VENDOR, 0x40 + 4 * slot, &[]);
        }
        assert_eq!(capabilities(&cfg).filter(Result::is_ok).count(), 48);
        assert_eq!(find_capability(&cfg, CapabilityId::MSI), Ok(None));
    }

    #[test]
    fn circle_is_an_error_after_48_entries() {
        let cfg = device().with_capability(CapabilityId::VENDOR, 0x40, &[]).with_register(0x40, 0x4009, 0);
        assert_eq!(find_capability(&cfg, CapabilityId::MSI), Err(PciError::CapabilityLoop { steps: 48 }));
        assert_eq!(find_capability(&cfg, CapabilityId::VENDOR).unwrap().unwrap().offset, 0x40);
        assert_eq!(capabilities(&cfg).count(), 49, "48 entries, one error, then the end");
    }

    #[test]
    fn reserved_pointer_bits_do_not_count() {
        let cfg = device().with_capability(CapabilityId::MSI, 0x50, &[0; 8]).with_register(0x34, 0x53, 0);
        assert_eq!(find_capability(&cfg, CapabilityId::MSI).unwrap().unwrap().offset, 0x50);
    }

    #[test]
    fn pointer_into_the_header_is_an_error() {
        let cfg = device().with_capability(CapabilityId::MSI, 0x50, &[0; 8]).with_register(0x50, 0x1005, 0);
        assert_eq!(
            find_capability(&cfg, CapabilityId::MSIX),
            Err(PciError::CapabilityPointer { offset: 0x10 })
        );
    }

    #[test]
    fn all_ones_is_a_header_fault_or_a_device_gone() {
        let cfg = device().with_capability(CapabilityId::MSI, 0x50, &[0; 8]).with_register(0x50, u32::MAX, 0);
        let entry = capabilities(&cfg).next();
        assert_eq!(entry, Some(Err(PciError::CapabilityHeader { offset: 0x50 })));
        cfg.remove();
        assert_eq!(capabilities(&cfg).next(), Some(Err(PciError::DeviceGone)));
    }

    #[test]
    fn unknown_header_layout_is_refused() {
        let cfg =
            device().with_capability(CapabilityId::MSI, 0x50, &[0; 8]).with_register(0x0c, 0x0002_0000, 0);
        assert_eq!(find_capability(&cfg, CapabilityId::MSI), Err(PciError::HeaderLayout { layout: 2 }));
    }
}
