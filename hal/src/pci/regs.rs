//! Offsets and words of the configuration header and of the capabilities used here.
//!
//! Names and values as in Linux's `include/uapi/linux/pci_regs.h` (`PCI_*`), which follows the PCI
//! Local Bus, PCI Power Management and PCI Express Base specifications. Offsets of capability
//! registers count from the start of their capability.

use bitfield_struct::bitfield;

pub use super::regs_express::{
    DEVICE_CONTROL_2, DeviceCapabilities, DeviceControl, DeviceStatus, MsiControl, MsixControl, MsixLocation,
    PcieFlags,
};

/// Vendor ID, 16 bits (`PCI_VENDOR_ID`); the device ID is the other half of the word.
pub const VENDOR_ID: u16 = 0x00;
/// Device ID, 16 bits (`PCI_DEVICE_ID`).
pub const DEVICE_ID: u16 = 0x02;
/// [`Command`], 16 bits (`PCI_COMMAND`).
pub const COMMAND: u16 = 0x04;
/// [`Status`], 16 bits, with write-one-to-clear bits (`PCI_STATUS`).
pub const STATUS: u16 = 0x06;
/// [`ClassRevision`], 32 bits (`PCI_CLASS_REVISION`).
pub const CLASS_REVISION: u16 = 0x08;
/// Cache line size in units of 4 bytes, 8 bits (`PCI_CACHE_LINE_SIZE`).
pub const CACHE_LINE_SIZE: u16 = 0x0c;
/// [`HeaderType`], 8 bits (`PCI_HEADER_TYPE`).
pub const HEADER_TYPE: u16 = 0x0e;
/// First base address register, 32 bits; the others follow (`PCI_BASE_ADDRESS_0`).
pub const BASE_ADDRESS_0: u16 = 0x10;
/// Subsystem vendor ID, 16 bits, normal headers only (`PCI_SUBSYSTEM_VENDOR_ID`).
pub const SUBSYSTEM_VENDOR_ID: u16 = 0x2c;
/// Subsystem ID, 16 bits, normal headers only (`PCI_SUBSYSTEM_ID`).
pub const SUBSYSTEM_ID: u16 = 0x2e;
/// Expansion ROM base address, 32 bits, normal headers only (`PCI_ROM_ADDRESS`).
pub const ROM_ADDRESS: u16 = 0x30;
/// Pointer to the first capability, 8 bits (`PCI_CAPABILITY_LIST`).
pub const CAPABILITY_LIST: u16 = 0x34;
/// Interrupt line, 8 bits, read and written by software only (`PCI_INTERRUPT_LINE`).
pub const INTERRUPT_LINE: u16 = 0x3c;
/// Interrupt pin, 8 bits: 0 for none, 1 to 4 for INTA to INTD (`PCI_INTERRUPT_PIN`).
pub const INTERRUPT_PIN: u16 = 0x3d;

/// Where capabilities may start: behind the header (`PCI_STD_HEADER_SIZEOF`).
pub const FIRST_CAPABILITY: u16 = 0x40;
/// Where the first extended capability is (`PCI_CFG_SPACE_SIZE`).
pub const FIRST_EXT_CAPABILITY: u16 = 0x100;

/// Offset of base address register `index`, 0 to 5.
pub(super) const fn base_address(index: u8) -> u16 {
    BASE_ADDRESS_0 + 4 * (index & 7) as u16
}

/// Command register (`PCI_COMMAND`).
#[bitfield(u16)]
#[derive(PartialEq, Eq)]
pub struct Command {
    /// Answer in I/O space (`PCI_COMMAND_IO`).
    pub io: bool,
    /// Answer in memory space (`PCI_COMMAND_MEMORY`).
    pub memory: bool,
    /// Bus Master Enable: the function may do DMA and send MSI (`PCI_COMMAND_MASTER`).
    pub bus_master: bool,
    /// Special cycles, zero on PCI Express.
    pub special: bool,
    /// Memory write and invalidate, zero on PCI Express.
    pub invalidate: bool,
    /// VGA palette snoop, zero on PCI Express.
    pub vga_palette: bool,
    /// Report poisoned data (`PCI_COMMAND_PARITY`).
    pub parity: bool,
    /// Address stepping, zero on PCI Express.
    pub wait: bool,
    /// Report fatal and non-fatal errors (`PCI_COMMAND_SERR`).
    pub serr: bool,
    /// Fast back-to-back, zero on PCI Express.
    pub fast_back: bool,
    /// Send no INTx messages (`PCI_COMMAND_INTX_DISABLE`).
    pub intx_disable: bool,
    #[bits(5)]
    __: u8,
}

/// Status register (`PCI_STATUS`). Bits 8 and 11 to 15 are write-one-to-clear.
#[bitfield(u16)]
#[derive(PartialEq, Eq)]
pub struct Status {
    /// Ready for requests right after a reset (`PCI_STATUS_IMM_READY`).
    pub immediate_readiness: bool,
    #[bits(2)]
    __: u8,
    /// INTx is asserted inside the function (`PCI_STATUS_INTERRUPT`).
    pub interrupt: bool,
    /// There is a capability list (`PCI_STATUS_CAP_LIST`).
    pub capability_list: bool,
    #[bits(3)]
    __: u8,
    /// Master data parity error (`PCI_STATUS_PARITY`).
    pub master_data_parity: bool,
    #[bits(2)]
    __: u8,
    /// Sent a Completer Abort (`PCI_STATUS_SIG_TARGET_ABORT`).
    pub signaled_target_abort: bool,
    /// Got a Completer Abort (`PCI_STATUS_REC_TARGET_ABORT`).
    pub received_target_abort: bool,
    /// Got an Unsupported Request (`PCI_STATUS_REC_MASTER_ABORT`).
    pub received_master_abort: bool,
    /// Sent an error message (`PCI_STATUS_SIG_SYSTEM_ERROR`).
    pub signaled_system_error: bool,
    /// Got poisoned data (`PCI_STATUS_DETECTED_PARITY`).
    pub detected_parity: bool,
}

/// Revision and class code (`PCI_CLASS_REVISION`).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct ClassRevision {
    /// Revision of the device (`PCI_REVISION_ID`).
    pub revision: u8,
    /// Class code: base class, sub-class, programming interface.
    #[bits(24)]
    pub class: u32,
}

/// Header type (`PCI_HEADER_TYPE`).
#[bitfield(u8)]
#[derive(PartialEq, Eq)]
pub struct HeaderType {
    /// Layout of the header: [`NORMAL`](Self::NORMAL), [`BRIDGE`](Self::BRIDGE), or one that this
    /// crate does not handle.
    #[bits(7)]
    pub layout: u8,
    /// The device has, or may have, further functions (`PCI_HEADER_TYPE_MFD`).
    pub multi_function: bool,
}

impl HeaderType {
    /// Layout of an endpoint (`PCI_HEADER_TYPE_NORMAL`).
    pub const NORMAL: u8 = 0;
    /// Layout of a bridge or port (`PCI_HEADER_TYPE_BRIDGE`).
    pub const BRIDGE: u8 = 1;
}

/// Low word of a base address register for memory (`PCI_BASE_ADDRESS_*`).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct BarLow {
    /// I/O space; then the fields below are not the ones that count (`PCI_BASE_ADDRESS_SPACE_IO`).
    pub io: bool,
    /// 0 for 32-bit, 1 for below 1 MiB (obsolete), 2 for 64-bit, 3 reserved
    /// (`PCI_BASE_ADDRESS_MEM_TYPE_MASK`).
    #[bits(2)]
    pub memory_type: u8,
    /// Reads have no side effects (`PCI_BASE_ADDRESS_MEM_PREFETCH`).
    pub prefetchable: bool,
    /// Bits 31:4 of the address.
    #[bits(28)]
    pub address: u32,
}

/// Power management capabilities, at [`Self::OFFSET`] (`PCI_PM_PMC`).
#[bitfield(u16)]
#[derive(PartialEq, Eq)]
pub struct PmCapabilities {
    /// Version of the capability (`PCI_PM_CAP_VER_MASK`).
    #[bits(3)]
    pub version: u8,
    #[bits(6)]
    __: u8,
    /// Has D1 (`PCI_PM_CAP_D1`).
    pub d1: bool,
    /// Has D2 (`PCI_PM_CAP_D2`).
    pub d2: bool,
    /// States from which wake-up is signalled, D0 first (`PCI_PM_CAP_PME_MASK`).
    #[bits(5)]
    pub pme_support: u8,
}

impl PmCapabilities {
    /// Where the word is in the capability.
    pub const OFFSET: u16 = 0x02;
}

/// Power management control and status, at [`Self::OFFSET`] (`PCI_PM_CTRL`).
#[bitfield(u16)]
#[derive(PartialEq, Eq)]
pub struct PmControl {
    /// Power state, D0 to D3hot (`PCI_PM_CTRL_STATE_MASK`).
    #[bits(2)]
    pub state: u8,
    __: bool,
    /// Leaving D3hot keeps the function's state (`PCI_PM_CTRL_NO_SOFT_RESET`).
    pub no_soft_reset: bool,
    #[bits(4)]
    __: u8,
    /// Signal wake-up (`PCI_PM_CTRL_PME_ENABLE`).
    pub pme_enable: bool,
    /// Which value the data register shows (`PCI_PM_CTRL_DATA_SEL_MASK`).
    #[bits(4)]
    pub data_select: u8,
    /// Scale of the data register (`PCI_PM_CTRL_DATA_SCALE_MASK`).
    #[bits(2)]
    pub data_scale: u8,
    /// Wake-up is signalled; write one to clear (`PCI_PM_CTRL_PME_STATUS`).
    pub pme_status: bool,
}

impl PmControl {
    /// Where the word is in the capability.
    pub const OFFSET: u16 = 0x04;
}
