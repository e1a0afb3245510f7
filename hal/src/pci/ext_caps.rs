//! Extended capabilities, from byte 256 on, and vendor-specific ones among them.

use super::config::{self, CONFIG_SPACE_SIZE, ConfigSpace};
use super::error::PciError;
use super::identity::{high_half, low_half};
use super::regs;

/// Most entries that fit behind byte 256. More is a circle.
const MAX_ENTRIES: u16 = (CONFIG_SPACE_SIZE - regs::FIRST_EXT_CAPABILITY) / 4;

/// Identifies an extended capability (Linux: `PCI_EXT_CAP_ID_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExtCapabilityId(pub u16);

impl ExtCapabilityId {
    /// Advanced Error Reporting.
    pub const AER: Self = Self(0x01);
    /// Device serial number.
    pub const SERIAL_NUMBER: Self = Self(0x03);
    /// Vendor-specific (VSEC).
    pub const VENDOR: Self = Self(0x0b);
    /// Address Translation Services.
    pub const ATS: Self = Self(0x0f);
    /// Single-root I/O virtualisation.
    pub const SRIOV: Self = Self(0x10);
    /// Resizable BAR.
    pub const RESIZABLE_BAR: Self = Self(0x15);
    /// Designated vendor-specific (DVSEC).
    pub const DESIGNATED_VENDOR: Self = Self(0x23);
}

impl core::fmt::Display for ExtCapabilityId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}

/// One entry of the list of extended capabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExtCapability {
    /// What it is.
    pub id: ExtCapabilityId,
    /// Version of its layout, 0 to 15.
    pub version: u8,
    /// Where it starts, 0x100 to 0xffc, a multiple of 4.
    pub offset: u16,
}

/// Walks the extended capabilities. Made by [`ext_capabilities`].
///
/// Gives at most 960 entries and then, if the list still has no end, one error. After an error or
/// the end it gives nothing more.
#[derive(Debug)]
pub struct ExtCapabilities<'a, C: ?Sized> {
    cfg: &'a C,
    /// The next entry, 0 at the end.
    offset: u16,
    steps: u16,
}

/// Iterates over the extended capabilities of a function.
///
/// There are none if the first header reads zero, or all ones on a function that answers: then the
/// function is a conventional one, or the platform does not reach that far.
pub fn ext_capabilities<C: ConfigSpace + ?Sized>(cfg: &C) -> ExtCapabilities<'_, C> {
    ExtCapabilities { cfg, offset: regs::FIRST_EXT_CAPABILITY, steps: 0 }
}

/// Finds the first extended capability `id`, or `None` if the function has none.
///
/// # Errors
///
/// As the walk: [`PciError::DeviceGone`], [`PciError::CapabilityPointer`],
/// [`PciError::CapabilityHeader`], [`PciError::CapabilityLoop`]. An entry that comes before the
/// fault is found.
pub fn find_ext_capability<C: ConfigSpace + ?Sized>(
    cfg: &C,
    id: ExtCapabilityId,
) -> Result<Option<ExtCapability>, PciError> {
    ext_capabilities(cfg).find(|entry| !matches!(entry, Ok(c) if c.id != id)).transpose()
}

impl<C: ConfigSpace + ?Sized> ExtCapabilities<'_, C> {
    fn step(&mut self) -> Result<Option<ExtCapability>, PciError> {
        let offset = self.offset;
        if offset == 0 {
            return Ok(None);
        }
        if offset < regs::FIRST_EXT_CAPABILITY {
            return Err(PciError::CapabilityPointer { offset });
        }
        if self.steps == MAX_ENTRIES {
            return Err(PciError::CapabilityLoop { steps: self.steps });
        }
        let header = self.cfg.read32(offset);
        if header == u32::MAX {
            return self.all_ones(offset);
        }
        if header == 0 {
            return Ok(None);
        }
        self.steps += 1;
        self.offset = (header >> 20) as u16 & 0xffc;
        Ok(Some(ExtCapability {
            id: ExtCapabilityId(low_half(header)),
            version: (high_half(header) & 0xf) as u8,
            offset,
        }))
    }

    /// The first header may read all ones on a function without extended space.
    fn all_ones(&self, offset: u16) -> Result<Option<ExtCapability>, PciError> {
        config::check_present(self.cfg)?;
        if self.steps == 0 {
            return Ok(None);
        }
        Err(PciError::CapabilityHeader { offset })
    }
}

impl<C: ConfigSpace + ?Sized> Iterator for ExtCapabilities<'_, C> {
    type Item = Result<ExtCapability, PciError>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        if !matches!(step, Ok(Some(_))) {
            self.offset = 0;
        }
        step.transpose()
    }
}

impl<C: ConfigSpace + ?Sized> core::iter::FusedIterator for ExtCapabilities<'_, C> {}

/// A vendor-specific extended capability (VSEC). Found by [`find_vsec`].
///
/// Layout (Linux: `PCI_VNDR_HEADER`): the common header at 0, the vendor's header at 4 (ID in bits
/// 15:0, revision in 19:16, length in 31:20), the vendor's registers from 8 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Vsec {
    /// Where the capability starts.
    pub offset: u16,
    /// The vendor's number for this structure.
    pub id: u16,
    /// Revision of the structure, 0 to 15.
    pub revision: u8,
    /// Length in bytes, both headers included.
    pub length: u16,
}

/// Finds the vendor-specific capability `vsec_id` of a function made by `vendor`.
///
/// The numbers are each vendor's own, so a function of another vendor has none, whatever it says.
/// Capabilities with other numbers are passed over unchecked.
///
/// ```
/// use tombolo_hal::pci::{self, fake::FakeConfigSpace, ExtCapabilityId, PciError};
///
/// // The DMA description of a Synopsys PCIe core: ID 6, revision 0, 0x18 bytes.
/// let cfg = FakeConfigSpace::new(0x16c3, 0xedda).with_ext_capability(
///     ExtCapabilityId::VENDOR, 1, 0x148, &[0x0180_0006, 0x0000_0001, 0x0002_0004, 0, 0],
/// );
/// let vsec = pci::find_vsec(&cfg, 0x16c3, 6)?.expect("no VSEC");
/// assert_eq!((vsec.revision, vsec.length), (0, 0x18));
/// let channels = vsec.read32(&cfg, 0x0c)?;
/// assert_eq!((channels & 0x3ff, channels >> 16 & 0x3ff), (4, 2));
/// assert!(vsec.read32(&cfg, 0x18).is_err());
/// # Ok::<(), PciError>(())
/// ```
///
/// # Errors
///
/// Those of [`find_ext_capability`], [`PciError::Absent`], and [`PciError::VsecLength`] if the
/// length of the one found is shorter than its headers or reaches over the end of the space.
pub fn find_vsec<C: ConfigSpace + ?Sized>(
    cfg: &C,
    vendor: u16,
    vsec_id: u16,
) -> Result<Option<Vsec>, PciError> {
    let id = cfg.read32(regs::VENDOR_ID);
    super::identity::classify(id)?;
    if low_half(id) != vendor {
        return Ok(None);
    }
    for capability in ext_capabilities(cfg) {
        let capability = capability?;
        if capability.id != ExtCapabilityId::VENDOR {
            continue;
        }
        let vsec = Vsec::at(cfg, capability.offset)?;
        if vsec.id == vsec_id {
            return vsec.checked().map(Some);
        }
    }
    Ok(None)
}

impl Vsec {
    /// Bytes of both headers.
    pub const HEADERS: u16 = 8;

    fn at<C: ConfigSpace + ?Sized>(cfg: &C, offset: u16) -> Result<Self, PciError> {
        if offset + Self::HEADERS > CONFIG_SPACE_SIZE {
            return Err(PciError::VsecLength { offset, length: CONFIG_SPACE_SIZE - offset });
        }
        let header = cfg.read32(offset + 4);
        if header == u32::MAX {
            config::check_present(cfg)?;
        }
        let high = high_half(header);
        let revision = (high & 0xf) as u8;
        Ok(Self { offset, id: low_half(header), revision, length: high >> 4 })
    }

    fn checked(self) -> Result<Self, PciError> {
        let Self { offset, length, .. } = self;
        if length < Self::HEADERS || length > CONFIG_SPACE_SIZE - offset {
            return Err(PciError::VsecLength { offset, length });
        }
        Ok(self)
    }

    /// Reads the 32-bit register at `offset`, counted from the start of the capability as data
    /// sheets and Linux count: the first one is at 8.
    ///
    /// # Errors
    ///
    /// [`PciError::VsecRead`] if `offset` is no multiple of 4 or not inside the vendor's registers;
    /// [`PciError::DeviceGone`].
    pub fn read32<C: ConfigSpace + ?Sized>(&self, cfg: &C, offset: u16) -> Result<u32, PciError> {
        let inside = (Self::HEADERS..self.length).contains(&offset) && self.length - offset >= 4;
        if !inside || offset % 4 != 0 {
            return Err(PciError::VsecRead { offset, length: self.length });
        }
        let value = cfg.read32(self.offset.saturating_add(offset));
        if value == u32::MAX {
            config::check_present(cfg)?;
        }
        Ok(value)
    }
}
