//! Registers of a PCI-to-PCI bridge: bus numbers and windows.
//!
//! Offsets and fields as in Linux's `include/uapi/linux/pci_regs.h` (`PCI_PRIMARY_BUS` and on), which
//! follows the PCI-to-PCI Bridge Architecture Specification 1.2.

use tombolo_hal::pci::{CapabilityId, ConfigSpace, PciError, command, find_capability, regs};

use super::Range;

const BUS_NUMBERS: u16 = 0x18;
const IO_BASE_LIMIT: u16 = 0x1c;
const MEMORY_BASE_LIMIT: u16 = 0x20;
const PREF_BASE_LIMIT: u16 = 0x24;
const PREF_BASE_UPPER: u16 = 0x28;
const PREF_LIMIT_UPPER: u16 = 0x2c;
const IO_UPPER: u16 = 0x30;

/// Granularity of memory windows.
pub(super) const WINDOW_ALIGN: u64 = 1 << 20;

/// Base above limit: nothing is forwarded.
const MEMORY_CLOSED: u32 = 0x0000_fff0;
/// The same for the I/O window.
const IO_CLOSED: u16 = 0x00f0;
/// Address bits of base and limit.
const MEMORY_BITS: u32 = 0xfff0_fff0;
/// Both halves say "64-bit" (`PCI_PREF_RANGE_TYPE_64`).
const PREF_64: u32 = 0x0001_0001;
const PREF_TYPE: u32 = 0x000f_000f;

/// Sets bus numbers; says whether the bridge took them.
pub(super) fn set_buses<C: ConfigSpace>(cfg: &C, primary: u8, secondary: u8, subordinate: u8) -> bool {
    let latency = cfg.read32(BUS_NUMBERS) & 0xff00_0000;
    let wanted = u32::from_le_bytes([primary, secondary, subordinate, 0]);
    cfg.write32(BUS_NUMBERS, wanted | latency);
    cfg.read32(BUS_NUMBERS) & 0x00ff_ffff == wanted
}

/// Whether only device 0 can be on the bus below: a point-to-point link, as Linux's
/// `only_one_child`.
pub(super) fn has_one_device_below<C: ConfigSpace>(cfg: &C) -> Result<bool, PciError> {
    const ROOT_PORT: u8 = 4;
    const DOWNSTREAM_PORT: u8 = 6;
    const FLAGS: u16 = 2;
    let Some(express) = find_capability(cfg, CapabilityId::PCI_EXPRESS)? else { return Ok(false) };
    // The capability list leaves room for its own header only, so look whether the word is inside.
    let flags = cfg.read16(express.offset.saturating_add(FLAGS));
    Ok(matches!((flags >> 4 & 0xf) as u8, ROOT_PORT | DOWNSTREAM_PORT))
}

/// Closes all windows, with decoding off, and says whether the bridge has a prefetchable window of 64
/// address bits.
pub(super) fn close<C: ConfigSpace>(cfg: &C) -> Result<bool, PciError> {
    command::set_memory_enabled(cfg, false)?;
    cfg.write16(IO_BASE_LIMIT, IO_CLOSED);
    cfg.write32(IO_UPPER, 0);
    cfg.write32(MEMORY_BASE_LIMIT, MEMORY_CLOSED);
    // An unimplemented window reads zero whatever is written.
    cfg.write32(PREF_BASE_LIMIT, MEMORY_BITS);
    let found = cfg.read32(PREF_BASE_LIMIT);
    cfg.write32(PREF_BASE_LIMIT, MEMORY_CLOSED);
    cfg.write32(PREF_BASE_UPPER, 0);
    cfg.write32(PREF_LIMIT_UPPER, 0);
    Ok(found & MEMORY_BITS == MEMORY_BITS && found & PREF_TYPE == PREF_64)
}

/// Opens the window for memory below 4 GiB; says whether the bridge took it.
pub(super) fn open_low<C: ConfigSpace>(cfg: &C, range: Range) -> bool {
    let wanted = base_and_limit(range);
    cfg.write32(MEMORY_BASE_LIMIT, wanted);
    cfg.read32(MEMORY_BASE_LIMIT) & MEMORY_BITS == wanted
}

/// Opens the prefetchable window; says whether the bridge took it.
pub(super) fn open_high<C: ConfigSpace>(cfg: &C, range: Range) -> bool {
    let wanted = base_and_limit(range);
    let (base, limit) = ((range.start >> 32) as u32, (range.last() >> 32) as u32);
    // Closed until the upper halves are right: first the upper half of the base.
    cfg.write32(PREF_BASE_UPPER, base);
    cfg.write32(PREF_LIMIT_UPPER, limit);
    cfg.write32(PREF_BASE_LIMIT, wanted);
    cfg.read32(PREF_BASE_LIMIT) & MEMORY_BITS == wanted
        && cfg.read32(PREF_BASE_UPPER) == base
        && cfg.read32(PREF_LIMIT_UPPER) == limit
}

fn base_and_limit(range: Range) -> u32 {
    let base = (range.start >> 16) as u32 & 0xfff0;
    let limit = (range.last() >> 16) as u32 & 0xfff0;
    base | limit << 16
}

/// Lets requests through, both ways.
pub(super) fn forward<C: ConfigSpace>(cfg: &C, memory: bool) -> Result<(), PciError> {
    if memory {
        command::set_memory_enabled(cfg, true)?;
    }
    command::set_bus_master(cfg, true)
}

/// Writes the address of a BAR; says whether the function took it.
pub(super) fn write_bar<C: ConfigSpace>(cfg: &C, index: u8, wide: bool, address: u64) -> bool {
    let offset = regs::BASE_ADDRESS_0 + 4 * u16::from(index);
    cfg.write32(offset, address as u32);
    let mut found = u64::from(cfg.read32(offset) & !0xf);
    if wide {
        cfg.write32(offset + 4, (address >> 32) as u32);
        found |= u64::from(cfg.read32(offset + 4)) << 32;
    }
    found == address
}
