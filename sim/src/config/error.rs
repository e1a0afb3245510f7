//! What can be wrong with a description of a function.

/// A description that no function can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A BAR index above 5, or a 64-bit BAR at index 5.
    #[error("BAR{0} does not exist or has no room for its upper half")]
    BarIndex(u8),
    /// A BAR register that is described twice, or that is the upper half of another BAR.
    #[error("BAR{0} is described twice")]
    BarTwice(u8),
    /// A size that is not a power of two, is below 16 bytes or above what the BAR can decode.
    #[error("BAR{bar} cannot have {size:#x} bytes")]
    BarSize {
        /// Index of the BAR.
        bar: u8,
        /// The size that was asked for, in bytes.
        size: u64,
    },
    /// A capability at an offset that is not a multiple of four.
    #[error("capability offset {0:#x} is not a multiple of four")]
    CapabilityMisaligned(u16),
    /// A capability that does not lie inside its part of configuration space.
    #[error("capability of {len} bytes does not fit at {offset:#x}")]
    CapabilityRange {
        /// Offset in configuration space.
        offset: u16,
        /// Length in bytes with its header.
        len: usize,
    },
    /// A capability that covers a part of another one.
    #[error("capability at {0:#x} overlaps another one")]
    CapabilityOverlap(u16),
    /// A capability of which a function has one at most.
    #[error("capability {0:#x} is described twice")]
    CapabilityTwice(u8),
    /// A generic standard capability whose ID has more than eight bits or belongs to a capability
    /// that the builder has a method for.
    #[error("{0:#x} is not the ID of a generic capability")]
    CapabilityId(u16),
    /// No room is left for a capability without a fixed offset.
    #[error("no room for a capability of {len} bytes")]
    CapabilitySpace {
        /// Length in bytes with its header.
        len: usize,
    },
    /// Writable masks that are longer than the payload they belong to.
    #[error("{masks} writable masks for {payload} payload words")]
    MaskCount {
        /// Number of masks.
        masks: usize,
        /// Number of payload words.
        payload: usize,
    },
    /// MSI vectors must be 1, 2, 4, 8, 16 or 32.
    #[error("MSI cannot have {0} vectors")]
    MsiVectors(u8),
    /// MSI-X vectors must be 1 to 2048.
    #[error("MSI-X cannot have {0} vectors")]
    MsixVectors(u16),
    /// The MSI-X table or pending bits are not 8-aligned inside a described BAR, or overlap.
    #[error("MSI-X structure of {len:#x} bytes cannot be at {offset:#x} of BAR{bar}")]
    MsixPlacement {
        /// Index of the BAR.
        bar: u8,
        /// Offset in the BAR in bytes.
        offset: u32,
        /// Length of the structure in bytes.
        len: u32,
    },
    /// The interrupt pin must be 1 (INTA) to 4 (INTD).
    #[error("interrupt pin {0} does not exist")]
    InterruptPin(u8),
    /// The class code has 24 bits.
    #[error("class code {0:#x} has more than 24 bits")]
    Class(u32),
}
