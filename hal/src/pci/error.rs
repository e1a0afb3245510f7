//! What can be wrong with a function and with what it says about itself.

use super::caps::CapabilityId;
use crate::error::ErrorKind;

/// Errors of the [`pci`](crate::pci) module, with the numbers that a person needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PciError {
    /// No function answers at this place.
    #[error("no PCI function answers (identity word {id:#010x})")]
    Absent {
        /// The identity word (vendor in the low half) as it was read.
        id: u32,
    },
    /// The function answered before and now reads all ones: it was removed, or its link is down.
    #[error("the PCI function is gone")]
    DeviceGone,
    /// The function asks for more time after a reset (Request Retry Status).
    #[error("the PCI function is not ready yet")]
    NotReady,
    /// Another function answers than before.
    #[error("another PCI function answers: expected {expected:#010x}, found {found:#010x}")]
    IdentityChanged {
        /// Device in the high half, vendor in the low half, as first read.
        expected: u32,
        /// The same word, as read now.
        found: u32,
    },
    /// The layout of the header is not one that this operation knows.
    #[error("unsupported PCI header layout {layout:#04x}")]
    HeaderLayout {
        /// Bits 6:0 of the header type register.
        layout: u8,
    },
    /// The header has no base address register with this index.
    #[error("no BAR {index}: the header has {count}")]
    BarIndex {
        /// The index asked for.
        index: u8,
        /// How many base address registers the header has.
        count: u8,
    },
    /// This slot holds the upper half of the 64-bit BAR before it.
    #[error("BAR {index} is the upper half of a 64-bit BAR")]
    BarUpperHalf {
        /// The index asked for.
        index: u8,
    },
    /// Reserved type bits.
    #[error("BAR {index} has a reserved type ({raw:#010x})")]
    BarType {
        /// Which base address register.
        index: u8,
        /// Its low word.
        raw: u32,
    },
    /// A 64-bit BAR in the last slot has no room for its upper half.
    #[error("BAR {index} is 64-bit but is the last one")]
    Bar64AtEnd {
        /// Which base address register.
        index: u8,
    },
    /// The register says that it is implemented, but decodes no address bit.
    #[error("BAR {index} decodes no address bit ({raw:#010x})")]
    BarSizeZero {
        /// Which base address register.
        index: u8,
        /// Its low word before sizing.
        raw: u32,
    },
    /// The bits that can be set are not those of a power-of-two size.
    #[error("BAR {index} has a size mask that is no power of two ({mask:#x})")]
    BarMask {
        /// Which base address register.
        index: u8,
        /// What the address bits read after all ones were written.
        mask: u64,
    },
    /// Type bits, which are read-only, changed while the BAR was sized.
    #[error("BAR {index} changed its type: {before:#010x}, then {after:#010x}")]
    BarChanged {
        /// Which base address register.
        index: u8,
        /// The low word before sizing.
        before: u32,
        /// The low word after all ones were written.
        after: u32,
    },
    /// The address is not a multiple of the size.
    #[error("BAR {index} at {address:#x} is not aligned to its size {size:#x}")]
    BarMisaligned {
        /// Which base address register.
        index: u8,
        /// Address in bytes, as programmed.
        address: u64,
        /// Size in bytes.
        size: u64,
    },
    /// A list pointer leads out of the range where capabilities may be.
    #[error("capability pointer {offset:#05x} is out of range")]
    CapabilityPointer {
        /// The pointer.
        offset: u16,
    },
    /// A capability header reads all ones although the function answers.
    #[error("capability header at {offset:#05x} reads all ones")]
    CapabilityHeader {
        /// Where the header is.
        offset: u16,
    },
    /// A capability list has more entries than there is room for: it runs in a circle.
    #[error("capability list has no end after {steps} entries")]
    CapabilityLoop {
        /// Entries walked.
        steps: u16,
    },
    /// A capability does not fit before the end of its part of the space.
    #[error("capability {id} at {offset:#05x} needs {size} bytes and runs over the end")]
    CapabilityTruncated {
        /// Which capability.
        id: CapabilityId,
        /// Where it starts.
        offset: u16,
        /// Bytes it needs.
        size: u16,
    },
    /// A capability that the operation needs is not there.
    #[error("the function has no capability {id}")]
    CapabilityMissing {
        /// Which capability.
        id: CapabilityId,
    },
    /// The length of a vendor-specific extended capability cannot be right.
    #[error("vendor-specific capability at {offset:#05x} has the impossible length {length}")]
    VsecLength {
        /// Where the capability starts.
        offset: u16,
        /// Its length in bytes, headers included.
        length: u16,
    },
    /// A read that is misaligned or outside the payload of a vendor-specific capability.
    #[error("no word at {offset:#05x} of a vendor-specific capability of {length} bytes")]
    VsecRead {
        /// Offset from the start of the capability.
        offset: u16,
        /// Length of the capability in bytes.
        length: u16,
    },
    /// A control register did not take what was written.
    #[error("register {offset:#05x} refused {wanted:#06x} and reads {found:#06x}")]
    RegisterRefused {
        /// Where the register is.
        offset: u16,
        /// What was written.
        wanted: u16,
        /// What was read back.
        found: u16,
    },
    /// The function has no function-level reset.
    #[error("the function has no function-level reset")]
    FlrUnsupported,
    /// The function did not come back after a reset.
    #[error("the function does not answer {waited_ms} ms after its reset")]
    ResetTimeout {
        /// Milliseconds waited since the reset.
        waited_ms: u32,
    },
    /// MSI-X table or pending bits in a BAR that cannot exist.
    #[error("MSI-X structure in reserved BAR {bar}")]
    MsixBar {
        /// The BAR indicator.
        bar: u8,
    },
    /// MSI-X table or pending bits reach over the end of their BAR, or the BAR is not memory.
    #[error("MSI-X structure at {offset:#x}, {length} bytes, does not fit BAR {bar} ({size:#x})")]
    MsixRange {
        /// The BAR indicator.
        bar: u8,
        /// Offset in the BAR, in bytes.
        offset: u32,
        /// Bytes the structure takes.
        length: u32,
        /// Size of the BAR in bytes; 0 if there is no such memory BAR.
        size: u64,
    },
    /// More MSI vectors than the function can send, or not a power of two.
    #[error("{vectors} MSI vectors: not a power of two, or over the limit {limit}")]
    MsiVectors {
        /// How many were asked for, or announced by the function.
        vectors: u16,
        /// How many there may be.
        limit: u16,
    },
    /// An MSI message that the function cannot send.
    #[error("the function cannot send MSI data {data:#x} to {address:#x}")]
    MsiMessage {
        /// Where the message is written.
        address: u64,
        /// What is written.
        data: u32,
    },
}

impl crate::error::Error for PciError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Absent { .. } | Self::DeviceGone | Self::IdentityChanged { .. } => ErrorKind::DeviceGone,
            Self::NotReady => ErrorKind::Busy,
            Self::ResetTimeout { .. } => ErrorKind::Timeout,
            Self::BarIndex { .. }
            | Self::BarUpperHalf { .. }
            | Self::VsecRead { .. }
            | Self::MsiVectors { .. }
            | Self::MsiMessage { .. } => ErrorKind::InvalidInput,
            Self::HeaderLayout { .. }
            | Self::CapabilityMissing { .. }
            | Self::FlrUnsupported
            | Self::RegisterRefused { .. } => ErrorKind::Unsupported,
            Self::BarType { .. }
            | Self::Bar64AtEnd { .. }
            | Self::BarSizeZero { .. }
            | Self::BarMask { .. }
            | Self::BarChanged { .. }
            | Self::BarMisaligned { .. }
            | Self::CapabilityPointer { .. }
            | Self::CapabilityHeader { .. }
            | Self::CapabilityLoop { .. }
            | Self::CapabilityTruncated { .. }
            | Self::VsecLength { .. }
            | Self::MsixBar { .. }
            | Self::MsixRange { .. } => ErrorKind::Protocol,
        }
    }
}
