//! Message-signalled interrupts: what a function offers, and the switches in its capabilities.

use super::bar::{BAR_COUNT, BarInfo};
use super::caps::{CapabilityId, find_capability};
use super::config::{self, ConfigSpace, modify16};
use super::error::PciError;
use super::regs_express::{MsiControl, MsixControl, MsixLocation};
use crate::irq::MsiMessage;

/// Most vectors that MSI has; the encodings above are reserved.
const MSI_LIMIT: u16 = 32;
/// Bytes of an entry of the MSI-X table (Linux: `PCI_MSIX_ENTRY_SIZE`).
pub const MSIX_ENTRY_SIZE: u32 = 16;

/// The MSI-X capability of a function.
///
/// The table and the pending bits are in BARs. To start: mask the function, enable, write the
/// table, unmask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MsixInfo {
    /// Where the capability starts.
    pub offset: u16,
    /// Entries of the table, 1 to 2048.
    pub vectors: u16,
    /// BAR of the table, 0 to 5.
    pub table_bar: u8,
    /// Offset of the table in its BAR, in bytes, a multiple of 8.
    pub table_offset: u32,
    /// BAR of the pending bits, 0 to 5.
    pub pba_bar: u8,
    /// Offset of the pending bits in their BAR, in bytes, a multiple of 8.
    pub pba_offset: u32,
}

impl MsixInfo {
    const SIZE: u16 = 12;

    /// Reads the capability; `None` if the function has no MSI-X.
    ///
    /// ```
    /// use tombolo_hal::pci::{self, fake::FakeConfigSpace, CapabilityId, MsixInfo, PciError};
    ///
    /// // 32 vectors; table in BAR 2 at 0x1000, pending bits in BAR 2 at 0x3000.
    /// let cfg = FakeConfigSpace::new(0x16c3, 0xedda).with_capability(
    ///     CapabilityId::MSIX, 0xb0, &[31, 0, 0x02, 0x10, 0, 0, 0x02, 0x30, 0, 0],
    /// );
    /// let msix = MsixInfo::read(&cfg)?.expect("MSI-X");
    /// assert_eq!((msix.vectors, msix.table_bar, msix.table_offset), (32, 2, 0x1000));
    /// assert_eq!((msix.pba_bar, msix.pba_offset), (2, 0x3000));
    /// # Ok::<(), PciError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`find_capability`], [`PciError::CapabilityTruncated`], and [`PciError::MsixBar`]
    /// for a reserved BAR number.
    pub fn read<C: ConfigSpace + ?Sized>(cfg: &C) -> Result<Option<Self>, PciError> {
        let Some(capability) = find_capability(cfg, CapabilityId::MSIX)? else {
            return Ok(None);
        };
        let offset = capability.check_size(Self::SIZE)?.offset;
        let control = MsixControl::from_bits(cfg.read16(offset + MsixControl::OFFSET));
        let table = MsixLocation::from_bits(cfg.read32(offset + MsixLocation::TABLE));
        let pba = MsixLocation::from_bits(cfg.read32(offset + MsixLocation::PBA));
        config::check_present(cfg)?;
        for bar in [table.bar(), pba.bar()] {
            if usize::from(bar) >= BAR_COUNT {
                return Err(PciError::MsixBar { bar });
            }
        }
        Ok(Some(Self {
            offset,
            vectors: control.table_size() + 1,
            table_bar: table.bar(),
            table_offset: table.offset_8() << 3,
            pba_bar: pba.bar(),
            pba_offset: pba.offset_8() << 3,
        }))
    }

    /// Bytes of the table.
    pub fn table_size(&self) -> u32 {
        u32::from(self.vectors) * MSIX_ENTRY_SIZE
    }

    /// Bytes of the pending bits: one bit for each vector, in words of 64.
    pub fn pba_size(&self) -> u32 {
        u32::from(self.vectors).div_ceil(64) * 8
    }

    /// Checks that both structures are inside memory BARs, as [`size_bars`](super::size_bars) found
    /// them.
    ///
    /// # Errors
    ///
    /// [`PciError::MsixRange`].
    pub fn check_bars(&self, bars: &[Option<BarInfo>; BAR_COUNT]) -> Result<(), PciError> {
        check_range(bars, self.table_bar, self.table_offset, self.table_size())?;
        check_range(bars, self.pba_bar, self.pba_offset, self.pba_size())
    }

    /// Switches MSI-X on or off. While it is on, MSI and INTx are not used.
    ///
    /// # Errors
    ///
    /// [`PciError::DeviceGone`], [`PciError::RegisterRefused`].
    pub fn set_enabled<C: ConfigSpace + ?Sized>(&self, cfg: &C, on: bool) -> Result<(), PciError> {
        self.set(cfg, MsixControl::new().with_enable(true), on)
    }

    /// Masks all vectors, whatever their own mask bits say, or gives those the say.
    ///
    /// # Errors
    ///
    /// [`PciError::DeviceGone`], [`PciError::RegisterRefused`].
    pub fn set_masked<C: ConfigSpace + ?Sized>(&self, cfg: &C, on: bool) -> Result<(), PciError> {
        self.set(cfg, MsixControl::new().with_function_mask(true), on)
    }

    fn set<C: ConfigSpace + ?Sized>(&self, cfg: &C, bit: MsixControl, on: bool) -> Result<(), PciError> {
        let mask = bit.into_bits();
        modify16(cfg, self.offset + MsixControl::OFFSET, mask, if on { mask } else { 0 })
    }
}

fn check_range(
    bars: &[Option<BarInfo>; BAR_COUNT],
    bar: u8,
    offset: u32,
    length: u32,
) -> Result<(), PciError> {
    let info = bars.get(usize::from(bar)).copied().flatten();
    let size = info.filter(BarInfo::is_memory).map_or(0, |info| info.size);
    if u64::from(offset) + u64::from(length) > size {
        return Err(PciError::MsixRange { bar, offset, length, size });
    }
    Ok(())
}

/// The MSI capability of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MsiInfo {
    /// Where the capability starts.
    pub offset: u16,
    /// Vectors that the function can send: 1, 2, 4, 8, 16 or 32.
    pub vectors: u16,
    /// Whether it can write above 4 GiB.
    pub address_64: bool,
    /// Whether its vectors can be masked one by one.
    pub per_vector_mask: bool,
}

impl MsiInfo {
    /// Reads the capability; `None` if the function has no MSI.
    ///
    /// # Errors
    ///
    /// Those of [`find_capability`], [`PciError::CapabilityTruncated`], and
    /// [`PciError::MsiVectors`] for a reserved count.
    pub fn read<C: ConfigSpace + ?Sized>(cfg: &C) -> Result<Option<Self>, PciError> {
        let Some(capability) = find_capability(cfg, CapabilityId::MSI)? else {
            return Ok(None);
        };
        let offset = capability.check_size(MsiControl::OFFSET + 2)?.offset;
        let control = MsiControl::from_bits(cfg.read16(offset + MsiControl::OFFSET));
        config::check_present(cfg)?;
        let vectors = 1 << control.multiple_capable();
        if vectors > MSI_LIMIT {
            return Err(PciError::MsiVectors { vectors, limit: MSI_LIMIT });
        }
        let info = Self {
            offset,
            vectors,
            address_64: control.address_64(),
            per_vector_mask: control.per_vector_mask(),
        };
        capability.check_size(info.size())?;
        Ok(Some(info))
    }

    /// Bytes of this shape of the capability.
    fn size(&self) -> u16 {
        let data_end = if self.address_64 { 14 } else { 10 };
        // Mask and pending words follow the data, aligned to 4.
        if self.per_vector_mask { data_end + 10 } else { data_end }
    }

    /// Programs the message for `vectors` vectors, with MSI off. Switch it on with
    /// [`set_enabled`](Self::set_enabled).
    ///
    /// The function sends vector `n` as `message.data + n`, so the low bits of the data, as many as
    /// `vectors` needs, have to be zero.
    ///
    /// # Errors
    ///
    /// Nothing is written on [`PciError::MsiVectors`] (no power of two, or more than the function
    /// has) and [`PciError::MsiMessage`] (address or data does not fit). [`PciError::DeviceGone`],
    /// [`PciError::RegisterRefused`].
    pub fn program<C: ConfigSpace + ?Sized>(
        &self,
        cfg: &C,
        message: MsiMessage,
        vectors: u16,
    ) -> Result<(), PciError> {
        if !vectors.is_power_of_two() || vectors > self.vectors {
            return Err(PciError::MsiVectors { vectors, limit: self.vectors });
        }
        let data = self.check_message(message, vectors)?;
        self.set_enabled(cfg, false)?;
        cfg.write32(self.offset + 4, (message.address & 0xffff_ffff) as u32);
        if self.address_64 {
            cfg.write32(self.offset + 8, (message.address >> 32) as u32);
            cfg.write16(self.offset + 12, data);
        } else {
            cfg.write16(self.offset + 8, data);
        }
        let field = MsiControl::new().with_multiple_enable(0b111).into_bits();
        // At most 5: `vectors` is a power of two, 32 at most.
        let count = MsiControl::new().with_multiple_enable(vectors.trailing_zeros() as u8);
        modify16(cfg, self.offset + MsiControl::OFFSET, field, count.into_bits())
    }

    fn check_message(&self, message: MsiMessage, vectors: u16) -> Result<u16, PciError> {
        let MsiMessage { address, data } = message;
        let reachable = self.address_64 || address <= u64::from(u32::MAX);
        match u16::try_from(data) {
            Ok(data) if reachable && address % 4 == 0 && data & (vectors - 1) == 0 => Ok(data),
            _ => Err(PciError::MsiMessage { address, data }),
        }
    }

    /// Switches MSI on or off. While it is on, INTx is not used.
    ///
    /// # Errors
    ///
    /// [`PciError::DeviceGone`], [`PciError::RegisterRefused`].
    pub fn set_enabled<C: ConfigSpace + ?Sized>(&self, cfg: &C, on: bool) -> Result<(), PciError> {
        let mask = MsiControl::new().with_enable(true).into_bits();
        modify16(cfg, self.offset + MsiControl::OFFSET, mask, if on { mask } else { 0 })
    }
}
