//! Little-endian words in memory: the storage of descriptor and list-element bitfields.
//!
//! ```
//! use tombolo_hal::le::Le32;
//!
//! #[bitfield_struct::bitfield(u32, repr = Le32, from = Le32::from_native, into = Le32::to_native)]
//! struct Control {
//!     owned: bool,
//!     last: bool,
//!     #[bits(14)]
//!     length: u16,
//!     #[bits(16)]
//!     __: u16,
//! }
//!
//! let word = Control::new().with_owned(true).with_length_checked(64).unwrap();
//! assert_eq!(word.into_bits().to_native(), 0x101);
//! assert!(Control::new().with_length_checked(1 << 14).is_err());
//! ```

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

macro_rules! le {
    ($(#[$meta:meta])* $name:ident, $int:ty) => {
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
        )]
        #[repr(transparent)]
        pub struct $name($int);

        impl $name {
            /// From the CPU's byte order.
            pub const fn from_native(value: $int) -> Self {
                Self(value.to_le())
            }

            /// To the CPU's byte order.
            pub const fn to_native(self) -> $int {
                <$int>::from_le(self.0)
            }
        }

        impl From<$int> for $name {
            fn from(value: $int) -> Self {
                Self::from_native(value)
            }
        }

        impl From<$name> for $int {
            fn from(value: $name) -> Self {
                value.to_native()
            }
        }
    };
}

le! {
    /// A 16-bit little-endian word, naturally aligned.
    Le16, u16
}
le! {
    /// A 32-bit little-endian word, naturally aligned.
    Le32, u32
}
le! {
    /// A 64-bit little-endian word, naturally aligned.
    Le64, u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_in_memory_are_little_endian() {
        assert_eq!(Le16::from_native(0x1234).as_bytes(), &[0x34, 0x12]);
        assert_eq!(Le32::from_native(0x1234_5678).as_bytes(), &[0x78, 0x56, 0x34, 0x12]);
        assert_eq!(u64::from(Le64::from(0x1122_3344_5566_7788)), 0x1122_3344_5566_7788);
        assert_eq!(Le64::from_native(1).as_bytes()[0], 1);
    }
}
