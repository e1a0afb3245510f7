//! Register facts of configuration space.
//!
//! Sources: PCI Local Bus 3.0, PCI Express Base 5.0, PCI Power Management 1.2; names as in Linux's
//! `include/uapi/linux/pci_regs.h`. Offsets and masks are in bytes and bits of the little-endian
//! space.

pub const CONFIG_SPACE_SIZE: u16 = 4096;
pub const STD_CAPS_START: u16 = 0x40;
pub const EXT_CAPS_START: u16 = 0x100;

pub const VENDOR_ID: u16 = 0x00;
pub const COMMAND: u16 = 0x04;
pub const COMMAND_MEMORY: u32 = 0x2;
pub const COMMAND_MASTER: u32 = 0x4;
pub const COMMAND_PARITY: u32 = 0x40;
pub const COMMAND_SERR: u32 = 0x100;
pub const COMMAND_INTX_DISABLE: u32 = 0x400;
/// Status is the upper half of the command register's dword.
pub const STATUS_INTERRUPT: u32 = 0x08 << 16;
pub const STATUS_CAP_LIST: u32 = 0x10 << 16;
pub const STATUS_W1C: u32 = 0xf900 << 16;
pub const CLASS_REVISION: u16 = 0x08;
pub const CACHE_LINE_SIZE: u16 = 0x0c;
pub const BASE_ADDRESS_0: u16 = 0x10;
pub const BAR_MEM_TYPE_64: u32 = 0x4;
pub const BAR_MEM_PREFETCH: u32 = 0x8;
pub const BAR_FLAGS: u64 = 0xf;
pub const SUBSYSTEM_VENDOR_ID: u16 = 0x2c;
pub const CAPABILITY_LIST: u16 = 0x34;
/// Line in byte 0, pin in byte 1.
pub const INTERRUPT_LINE: u16 = 0x3c;

pub const CAP_ID_PM: u8 = 0x01;
pub const CAP_ID_MSI: u8 = 0x05;
pub const CAP_ID_EXP: u8 = 0x10;
pub const CAP_ID_MSIX: u8 = 0x11;
pub const EXT_CAP_ID_VNDR: u16 = 0x000b;

/// Version 3 of the power management specification, no D1, D2 or PME.
pub const PM_PMC_VALUE: u16 = 0x0003;
/// Offset of PMCSR in the capability.
pub const PM_CTRL: u16 = 4;
pub const PM_CTRL_STATE_MASK: u32 = 0x3;
pub const PM_CTRL_NO_SOFT_RESET: u32 = 0x8;

/// Control is the upper half of the capability's first dword.
pub const MSI_ENABLE: u32 = 0x0001 << 16;
pub const MSI_QSIZE: u32 = 0x0070 << 16;
pub const MSI_64BIT: u16 = 0x0080;
pub const MSI_MASKBIT: u16 = 0x0100;
pub const MSI_ADDRESS_LO: u16 = 0x04;
pub const MSI_ADDRESS_HI: u16 = 0x08;
pub const MSI_DATA_64: u16 = 0x0c;
pub const MSI_MASK_64: u16 = 0x10;
pub const MSI_PENDING_64: u16 = 0x14;

/// Control is the upper half of the capability's first dword.
pub const MSIX_MASKALL: u32 = 0x4000 << 16;
pub const MSIX_ENABLE: u32 = 0x8000 << 16;
pub const MSIX_ENTRY_SIZE: u32 = 16;
pub const MSIX_MAX_VECTORS: u16 = 2048;

/// Capability version 2, PCI Express endpoint.
pub const EXP_FLAGS_VALUE: u16 = 0x0002;
/// Payload up to 256 bytes, extended tags, role-based error reporting.
pub const EXP_DEVCAP_VALUE: u32 = 0x8021;
pub const EXP_DEVCAP_FLR: u32 = 0x1000_0000;
/// Device Control in the low half, Device Status in the high half.
pub const EXP_DEVCTL: u16 = 0x08;
/// Relaxed ordering, no snoop, read requests up to 512 bytes: the values after reset.
pub const EXP_DEVCTL_VALUE: u32 = 0x2810;
pub const EXP_DEVCTL_WRITABLE: u32 = 0x79ff;
pub const EXP_DEVCTL_PAYLOAD: u32 = 0x00e0;
pub const EXP_DEVCTL_FLR: u32 = 0x8000;
pub const EXP_DEVSTA_W1C: u32 = 0x000f << 16;
/// 8 GT/s, four lanes.
pub const EXP_LNKCAP_VALUE: u32 = 0x0000_0043;
pub const EXP_LNKCTL_WRITABLE: u32 = 0x01cb;
pub const EXP_LNKSTA_VALUE: u32 = 0x0043 << 16;
/// Completion time-out can be disabled.
pub const EXP_DEVCAP2_VALUE: u32 = 0x0000_0010;
pub const EXP_DEVCTL2_WRITABLE: u32 = 0x0000_001f;
/// 2.5, 5 and 8 GT/s.
pub const EXP_LNKCAP2_VALUE: u32 = 0x0000_000e;
pub const EXP_LNKCTL2_VALUE: u32 = 0x0000_0003;
pub const EXP_LNKCTL2_WRITABLE: u32 = 0x0000_000f;
/// Bytes of the capability up to and including the slot registers of version 2.
pub const EXP_SIZE: usize = 0x3c;
