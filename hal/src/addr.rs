//! The three kinds of address that meet in a DMA driver. A CPU address is none of them.

use core::fmt;

macro_rules! address {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(transparent)]
        pub struct $name(u64);

        impl $name {
            /// The address with this value.
            pub const fn new(value: u64) -> Self {
                Self(value)
            }

            /// The value, as a device register or list element holds it.
            pub const fn value(self) -> u64 {
                self.0
            }

            /// Bits 31:0.
            pub const fn low(self) -> u32 {
                self.0 as u32
            }

            /// Bits 63:32.
            pub const fn high(self) -> u32 {
                (self.0 >> 32) as u32
            }

            /// `self + offset`, or `None` past the end of the address space.
            pub const fn checked_add(self, offset: u64) -> Option<Self> {
                match self.0.checked_add(offset) {
                    Some(value) => Some(Self(value)),
                    None => None,
                }
            }

            /// Whether the address is a multiple of `align`, a power of two.
            pub const fn is_aligned(self, align: u64) -> bool {
                self.0 & align.wrapping_sub(1) == 0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }

        impl fmt::LowerHex for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::LowerHex::fmt(&self.0, f)
            }
        }
    };
}

address! {
    /// Host memory as the device reaches it: through the IOMMU, if there is one.
    ///
    /// Comes from a [`DmaBackend`](crate::dma::DmaBackend).
    DmaAddr
}

address! {
    /// A place on the PCI bus: a BAR, or what a peer behind the bus decodes.
    BusAddr
}

address! {
    /// What an engine's own registers hold: a list pointer, or the slave side of a transfer.
    ///
    /// For an engine in the host it equals the bus address; for an engine inside an endpoint it is
    /// an address on the endpoint's internal bus, which the host cannot use itself.
    EngineAddr
}

impl From<DmaAddr> for EngineAddr {
    /// An engine that sends its requests over the bus uses the host's DMA addresses as they are.
    fn from(addr: DmaAddr) -> Self {
        EngineAddr(addr.0)
    }
}

impl From<BusAddr> for EngineAddr {
    /// What an engine on the bus must be told to reach a BAR there.
    fn from(addr: BusAddr) -> Self {
        EngineAddr(addr.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_and_alignment() {
        let a = DmaAddr::new(0x1_2345_6780);
        assert_eq!((a.high(), a.low()), (1, 0x2345_6780));
        assert!(a.is_aligned(0x80) && !a.is_aligned(0x100));
        assert_eq!(DmaAddr::new(u64::MAX).checked_add(1), None);
        assert_eq!(std::format!("{a:?} {a}"), "DmaAddr(0x123456780) 0x123456780");
    }
}
