//! The contents of the capabilities that the builder knows.

use super::builder::{Bar, Capability, Msi, Msix};
use super::error::ConfigError;
use super::regs::*;

/// One dword of a capability: value after reset and what a host's write does to it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Dword {
    pub value: u32,
    pub writable: u32,
    pub clear_on_one: u32,
    /// Writable bits that a function-level reset leaves alone.
    pub sticky: u32,
}

impl Dword {
    const fn new(value: u32, writable: u32) -> Self {
        Self { value, writable, clear_on_one: 0, sticky: 0 }
    }
}

/// A capability before it has a place. The header (ID, version, next pointer) is added then.
#[derive(Clone, Debug)]
pub(super) struct RawCapability {
    pub id: u16,
    pub version: u8,
    pub offset: Option<u16>,
    /// Whether writes to it are reported to the model.
    pub is_vendor: bool,
    /// The first dword has room for the header.
    pub dwords: Vec<Dword>,
}

impl RawCapability {
    fn known(id: u8, dwords: Vec<Dword>) -> Self {
        Self { id: u16::from(id), version: 0, offset: None, is_vendor: false, dwords }
    }
}

pub(super) fn power_management() -> RawCapability {
    let control = Dword::new(PM_CTRL_NO_SOFT_RESET, PM_CTRL_STATE_MASK);
    RawCapability::known(CAP_ID_PM, vec![Dword::new(u32::from(PM_PMC_VALUE) << 16, 0), control])
}

pub(super) fn msi(msi: &Msi) -> RawCapability {
    let mask_capable = if msi.per_vector_mask { MSI_MASKBIT } else { 0 };
    let flags = (msi.vectors.trailing_zeros() as u16) << 1 | MSI_64BIT | mask_capable;
    let mut dwords = vec![
        Dword::new(u32::from(flags) << 16, MSI_ENABLE | MSI_QSIZE),
        Dword::new(0, 0xffff_fffc),
        Dword::new(0, 0xffff_ffff),
        Dword::new(0, 0xffff),
    ];
    if msi.per_vector_mask {
        let vectors = u32::MAX >> (32 - u32::from(msi.vectors));
        dwords.extend([Dword::new(0, vectors), Dword::new(0, 0)]);
    }
    RawCapability::known(CAP_ID_MSI, dwords)
}

pub(super) fn msix(msix: &Msix) -> RawCapability {
    let flags = u32::from(msix.vectors - 1) << 16;
    let dwords = vec![
        Dword::new(flags, MSIX_ENABLE | MSIX_MASKALL),
        Dword::new(msix.table_offset | u32::from(msix.table_bar), 0),
        Dword::new(msix.pba_offset | u32::from(msix.pba_bar), 0),
    ];
    RawCapability::known(CAP_ID_MSIX, dwords)
}

pub(super) fn pcie(flr: bool) -> RawCapability {
    let mut dwords = vec![Dword::default(); EXP_SIZE / 4];
    let flr_capable = if flr { EXP_DEVCAP_FLR } else { 0 };
    dwords[0].value = u32::from(EXP_FLAGS_VALUE) << 16;
    dwords[1].value = EXP_DEVCAP_VALUE | flr_capable;
    dwords[2] = Dword {
        value: EXP_DEVCTL_VALUE,
        writable: EXP_DEVCTL_WRITABLE,
        clear_on_one: EXP_DEVSTA_W1C,
        sticky: EXP_DEVCTL_PAYLOAD,
    };
    dwords[3].value = EXP_LNKCAP_VALUE;
    // Link control belongs to the link, which a function-level reset leaves alone.
    dwords[4] = Dword {
        value: EXP_LNKSTA_VALUE,
        writable: EXP_LNKCTL_WRITABLE,
        clear_on_one: 0,
        sticky: EXP_LNKCTL_WRITABLE,
    };
    dwords[9].value = EXP_DEVCAP2_VALUE;
    dwords[10].writable = EXP_DEVCTL2_WRITABLE;
    dwords[11].value = EXP_LNKCAP2_VALUE;
    dwords[12] =
        Dword { sticky: EXP_LNKCTL2_WRITABLE, ..Dword::new(EXP_LNKCTL2_VALUE, EXP_LNKCTL2_WRITABLE) };
    RawCapability::known(CAP_ID_EXP, dwords)
}

pub(super) fn raw_standard(cap: &Capability) -> Result<RawCapability, ConfigError> {
    let known = [CAP_ID_PM, CAP_ID_MSI, CAP_ID_EXP, CAP_ID_MSIX].map(u16::from);
    if cap.id > 0xff || known.contains(&cap.id) {
        return Err(ConfigError::CapabilityId(cap.id));
    }
    raw(cap, Dword::new(u32::from(cap.flags) << 16, 0))
}

pub(super) fn raw_extended(cap: &Capability) -> Result<RawCapability, ConfigError> {
    raw(cap, Dword::default())
}

fn raw(cap: &Capability, first: Dword) -> Result<RawCapability, ConfigError> {
    let (masks, payload) = (cap.writable.len(), cap.payload.len());
    if masks > payload {
        return Err(ConfigError::MaskCount { masks, payload });
    }
    let masks = cap.writable.iter().copied().chain(std::iter::repeat(0));
    let body = cap.payload.iter().zip(masks).map(|(value, mask)| Dword::new(*value, mask));
    let dwords = std::iter::once(first).chain(body).collect();
    let (id, version, offset) = (cap.id, cap.version & 0xf, cap.offset);
    Ok(RawCapability { id, version, offset, is_vendor: true, dwords })
}

pub(super) fn check_msix(msix: &Msix, bars: &[Option<Bar>; 6]) -> Result<(), ConfigError> {
    if msix.vectors == 0 || msix.vectors > MSIX_MAX_VECTORS {
        return Err(ConfigError::MsixVectors(msix.vectors));
    }
    let table = (msix.table_bar, msix.table_offset, msix.table_len());
    let pba = (msix.pba_bar, msix.pba_offset, msix.pba_len());
    for (bar, offset, len) in [table, pba] {
        let size = bars.get(usize::from(bar)).copied().flatten().map_or(0, |bar| bar.size);
        if offset % 8 != 0 || u64::from(offset) + u64::from(len) > size {
            return Err(ConfigError::MsixPlacement { bar, offset, len });
        }
    }
    let end = |part: (u8, u32, u32)| u64::from(part.1) + u64::from(part.2);
    let overlap = u64::from(table.1) < end(pba) && u64::from(pba.1) < end(table);
    if table.0 == pba.0 && overlap {
        return Err(ConfigError::MsixPlacement { bar: pba.0, offset: pba.1, len: pba.2 });
    }
    Ok(())
}
