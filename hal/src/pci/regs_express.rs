//! Words of the PCI Express, MSI and MSI-X capabilities.
//!
//! Source: `include/uapi/linux/pci_regs.h` (`PCI_EXP_*`, `PCI_MSI_*`, `PCI_MSIX_*`).

use bitfield_struct::bitfield;

/// PCI Express capabilities, at [`Self::OFFSET`] (`PCI_EXP_FLAGS`).
#[bitfield(u16)]
#[derive(PartialEq, Eq)]
pub struct PcieFlags {
    /// Version of the capability structure (`PCI_EXP_FLAGS_VERS`).
    #[bits(4)]
    pub version: u8,
    /// Device or port type, 0 for an endpoint (`PCI_EXP_FLAGS_TYPE`).
    #[bits(4)]
    pub port_type: u8,
    /// The link leads to a slot (`PCI_EXP_FLAGS_SLOT`).
    pub slot: bool,
    /// MSI or MSI-X vector of the capability's own interrupts (`PCI_EXP_FLAGS_IRQ`).
    #[bits(5)]
    pub irq: u8,
    #[bits(2)]
    __: u8,
}

impl PcieFlags {
    /// Where the word is in the capability.
    pub const OFFSET: u16 = 0x02;
}

/// Device capabilities, at [`Self::OFFSET`] (`PCI_EXP_DEVCAP`).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct DeviceCapabilities {
    /// Largest payload supported, 128 bytes shifted left by this (`PCI_EXP_DEVCAP_PAYLOAD`).
    #[bits(3)]
    pub max_payload: u8,
    /// Phantom functions (`PCI_EXP_DEVCAP_PHANTOM`).
    #[bits(2)]
    pub phantom: u8,
    /// 8-bit tags (`PCI_EXP_DEVCAP_EXT_TAG`).
    pub ext_tag: bool,
    #[bits(22)]
    __: u32,
    /// Function-level reset (`PCI_EXP_DEVCAP_FLR`).
    pub flr: bool,
    #[bits(3)]
    __: u8,
}

impl DeviceCapabilities {
    /// Where the word is in the capability.
    pub const OFFSET: u16 = 0x04;
}

/// Device control, at [`Self::OFFSET`] (`PCI_EXP_DEVCTL`).
#[bitfield(u16)]
#[derive(PartialEq, Eq)]
pub struct DeviceControl {
    /// Report correctable errors (`PCI_EXP_DEVCTL_CERE`).
    pub correctable: bool,
    /// Report non-fatal errors (`PCI_EXP_DEVCTL_NFERE`).
    pub non_fatal: bool,
    /// Report fatal errors (`PCI_EXP_DEVCTL_FERE`).
    pub fatal: bool,
    /// Report unsupported requests (`PCI_EXP_DEVCTL_URRE`).
    pub unsupported_request: bool,
    /// May set Relaxed Ordering (`PCI_EXP_DEVCTL_RELAX_EN`).
    pub relaxed_ordering: bool,
    /// Largest payload, 128 bytes shifted left by this (`PCI_EXP_DEVCTL_PAYLOAD`).
    #[bits(3)]
    pub max_payload: u8,
    /// Use 8-bit tags (`PCI_EXP_DEVCTL_EXT_TAG`).
    pub ext_tag: bool,
    /// Use phantom functions (`PCI_EXP_DEVCTL_PHANTOM`).
    pub phantom: bool,
    /// Draw auxiliary power (`PCI_EXP_DEVCTL_AUX_PME`).
    pub aux_power: bool,
    /// May set No Snoop (`PCI_EXP_DEVCTL_NOSNOOP_EN`).
    pub no_snoop: bool,
    /// Largest read request, 128 bytes shifted left by this (`PCI_EXP_DEVCTL_READRQ`).
    #[bits(3)]
    pub max_read_request: u8,
    /// Start a function-level reset; reads zero (`PCI_EXP_DEVCTL_BCR_FLR`).
    pub initiate_flr: bool,
}

impl DeviceControl {
    /// Where the word is in the capability.
    pub const OFFSET: u16 = 0x08;
}

/// Device status, at [`Self::OFFSET`]; bits 0 to 3 are write-one-to-clear (`PCI_EXP_DEVSTA`).
#[bitfield(u16)]
#[derive(PartialEq, Eq)]
pub struct DeviceStatus {
    /// Correctable error detected (`PCI_EXP_DEVSTA_CED`).
    pub correctable: bool,
    /// Non-fatal error detected (`PCI_EXP_DEVSTA_NFED`).
    pub non_fatal: bool,
    /// Fatal error detected (`PCI_EXP_DEVSTA_FED`).
    pub fatal: bool,
    /// Unsupported request detected (`PCI_EXP_DEVSTA_URD`).
    pub unsupported_request: bool,
    /// Auxiliary power detected (`PCI_EXP_DEVSTA_AUXPD`).
    pub aux_power: bool,
    /// Own requests wait for their completions (`PCI_EXP_DEVSTA_TRPND`).
    pub transactions_pending: bool,
    #[bits(10)]
    __: u16,
}

impl DeviceStatus {
    /// Where the word is in the capability.
    pub const OFFSET: u16 = 0x0a;
}

/// Where Device Control 2 is in a capability of version 2 or later (`PCI_EXP_DEVCTL2`).
pub const DEVICE_CONTROL_2: u16 = 0x28;

/// MSI message control, at [`Self::OFFSET`] (`PCI_MSI_FLAGS`).
#[bitfield(u16)]
#[derive(PartialEq, Eq)]
pub struct MsiControl {
    /// MSI is on, INTx is off (`PCI_MSI_FLAGS_ENABLE`).
    pub enable: bool,
    /// Logarithm to base 2 of the vectors the function can send (`PCI_MSI_FLAGS_QMASK`).
    #[bits(3)]
    pub multiple_capable: u8,
    /// Logarithm to base 2 of the vectors it may send (`PCI_MSI_FLAGS_QSIZE`).
    #[bits(3)]
    pub multiple_enable: u8,
    /// The address has 64 bits (`PCI_MSI_FLAGS_64BIT`).
    pub address_64: bool,
    /// Vectors can be masked one by one (`PCI_MSI_FLAGS_MASKBIT`).
    pub per_vector_mask: bool,
    #[bits(7)]
    __: u8,
}

impl MsiControl {
    /// Where the word is in the capability.
    pub const OFFSET: u16 = 0x02;
}

/// MSI-X message control, at [`Self::OFFSET`] (`PCI_MSIX_FLAGS`).
#[bitfield(u16)]
#[derive(PartialEq, Eq)]
pub struct MsixControl {
    /// Entries of the table less one (`PCI_MSIX_FLAGS_QSIZE`).
    #[bits(11)]
    pub table_size: u16,
    #[bits(3)]
    __: u8,
    /// All vectors are masked (`PCI_MSIX_FLAGS_MASKALL`).
    pub function_mask: bool,
    /// MSI-X is on, MSI and INTx are off (`PCI_MSIX_FLAGS_ENABLE`).
    pub enable: bool,
}

impl MsixControl {
    /// Where the word is in the capability.
    pub const OFFSET: u16 = 0x02;
}

/// Where an MSI-X structure is (`PCI_MSIX_TABLE`, `PCI_MSIX_PBA`).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct MsixLocation {
    /// BAR index (`PCI_MSIX_TABLE_BIR`).
    #[bits(3)]
    pub bar: u8,
    /// Offset in that BAR, in units of 8 bytes (`PCI_MSIX_TABLE_OFFSET`).
    #[bits(29)]
    pub offset_8: u32,
}

impl MsixLocation {
    /// Where the location of the table is in the capability.
    pub const TABLE: u16 = 0x04;
    /// Where the location of the pending bits is in the capability.
    pub const PBA: u16 = 0x08;
}
