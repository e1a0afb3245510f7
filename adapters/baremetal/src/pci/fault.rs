//! What can be wrong.

use super::Bdf;
use tombolo_hal::pci::PciError;

/// Something that a function does wrong. The others go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {kind}")]
pub struct Fault {
    /// Which function.
    pub at: Bdf,
    /// What is wrong.
    pub kind: FaultKind,
}

/// What a function does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultKind {
    /// Its configuration space makes no sense.
    #[error(transparent)]
    Pci(#[from] PciError),
    /// A bridge did not take its bus numbers. What is behind it was not looked at.
    #[error("the bridge does not take bus numbers {primary} to {secondary}; nothing behind it is used")]
    BusNumbers {
        /// Bus in front of it.
        primary: u8,
        /// Bus behind it.
        secondary: u8,
    },
    /// There is no bus number left for what is behind this bridge.
    #[error("no bus number is left (the last one is {last}); nothing behind this bridge is used")]
    NoBusLeft {
        /// The highest bus number that ECAM reaches.
        last: u8,
    },
    /// The table of functions is full. This one and those after it are not used.
    #[error("there are more than {limit} functions; this one and the following are not used")]
    TooManyFunctions {
        /// Room in the table.
        limit: usize,
    },
    /// There is no room for a base address register; the function's memory must not be enabled.
    #[error("no room for the {size:#x} bytes of BAR {index}")]
    NoRoom {
        /// Which base address register.
        index: u8,
        /// Its size in bytes.
        size: u64,
    },
    /// There is no room for what is behind a bridge.
    #[error("no room for the {size:#x} bytes behind the bridge")]
    NoRoomBehind {
        /// What is needed in one window, in bytes.
        size: u64,
    },
    /// A register did not take its address; the function's memory must not be enabled.
    #[error("BAR {index} does not take the address {address:#x}")]
    BarRefused {
        /// Which base address register.
        index: u8,
        /// The address.
        address: u64,
    },
    /// A bridge did not take its window; what is behind it cannot be reached.
    #[error("the bridge does not take a window of {size:#x} bytes at {start:#x}")]
    WindowRefused {
        /// First address.
        start: u64,
        /// Size in bytes.
        size: u64,
    },
}

/// Configuration space cannot be used at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScanError {
    /// ECAM is too small for its buses: 1 MiB each.
    #[error("ECAM of {size:#x} bytes does not hold the buses {first_bus} to {last_bus}, 1 MiB each")]
    EcamSize {
        /// Bytes that there are.
        size: usize,
        /// First bus.
        first_bus: u8,
        /// Last bus.
        last_bus: u8,
    },
}

/// The platform's apertures make no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AssignError {
    /// The low one must end below 4 GiB, the high one before the end of the address space.
    #[error("an aperture of {size:#x} bytes at bus address {start:#x} is not usable as the {which} one")]
    Aperture {
        /// `"low"` or `"high"`.
        which: &'static str,
        /// First bus address.
        start: u64,
        /// Size in bytes.
        size: u64,
    },
}
