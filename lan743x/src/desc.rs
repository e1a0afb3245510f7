//! Descriptors.
//!
//! Source: Linux 7.3 `lan743x_main.h` (`TX_DESC_*`, `RX_DESC_*`); the meaning of the receive status word
//! beyond the checksum bits is from Microchip AN2948.
//!
//! A descriptor has four little-endian words, whatever the spacing.

use bitfield_struct::bitfield;
use static_assertions::const_assert_eq;

/// Bytes of a descriptor.
pub const SIZE: usize = 16;
/// The longest piece of a frame that a transmit descriptor holds, in bytes.
pub const TX_PIECE_MAX: u64 = 0xffff;
/// The longest frame that is sent as it is: the field has 14 bits.
pub const TX_FRAME_MAX: u64 = 0x3fff;
/// The longest frame that is cut into segments: the field has 20 bits.
pub const TX_LSO_MAX: u64 = 0xf_ffff;
/// The least segment size: smaller ones stall the device.
pub const TX_MSS_MIN: u16 = 8;
/// The largest receive buffer, in bytes: the field has 14 bits.
pub const RX_BUFFER_MAX: u64 = 0x3fff;

/// First word of a transmit data descriptor.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct TxData {
    /// Bytes of this piece.
    pub length: u16,
    /// Store a time stamp when it is sent.
    pub tse: bool,
    /// Append a frame check sequence.
    pub fcs: bool,
    #[bits(2)]
    __: u8,
    /// Insert the checksum of TCP or UDP.
    pub tpe: bool,
    /// Insert the checksum of the IP header.
    pub ipe: bool,
    /// Insert checksums at all.
    pub ice: bool,
    #[bits(3)]
    __: u8,
    /// Interrupt when it is done.
    pub ioc: bool,
    /// An extension descriptor follows.
    pub ext: bool,
    /// Last piece.
    pub ls: bool,
    /// First piece.
    pub fs: bool,
    /// 0: data, 1: extension.
    #[bits(2)]
    pub dtype: u8,
}

/// First word of a transmit extension descriptor.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct TxExtension {
    /// Bytes of the whole frame before it is cut.
    #[bits(20)]
    pub length: u32,
    #[bits(1)]
    __: u8,
    /// Large-send offload.
    pub lso: bool,
    __: u8,
    /// 0: data, 1: extension.
    #[bits(2)]
    pub dtype: u8,
}

/// First word of a receive descriptor.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct RxControl {
    /// Bytes of the buffer.
    #[bits(14)]
    pub buffer_length: u16,
    /// An extension descriptor follows; in it: it is one.
    pub ext: bool,
    /// The device has it.
    pub own: bool,
    /// Bytes of the frame with its frame check sequence. Only with `ls`.
    #[bits(14)]
    pub frame_length: u16,
    /// Last buffer.
    pub ls: bool,
    /// First buffer.
    pub fs: bool,
}

/// Second word of a last receive descriptor: what was found about the frame.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct RxStatus {
    /// The checksum was not checked.
    pub icsm: bool,
    #[bits(12)]
    __: u16,
    /// 1: TCP, 2: UDP, 3: other IP, 0: no IP.
    #[bits(2)]
    pub protocol: u8,
    /// IPv6.
    pub ipv6: bool,
    /// The TCP or UDP checksum is wrong.
    pub tce: bool,
    /// The IP checksum is wrong.
    pub ice: bool,
    #[bits(14)]
    __: u16,
}

const_assert_eq!(TxData::new().with_dtype(1).into_bits(), 0x4000_0000);
const_assert_eq!(TxData::new().with_fs(true).into_bits(), 0x2000_0000);
const_assert_eq!(TxData::new().with_ls(true).into_bits(), 0x1000_0000);
const_assert_eq!(TxData::new().with_ext(true).into_bits(), 0x0800_0000);
const_assert_eq!(TxData::new().with_ioc(true).into_bits(), 0x0400_0000);
const_assert_eq!(TxData::new().with_ice(true).into_bits(), 0x0040_0000);
const_assert_eq!(TxData::new().with_ipe(true).into_bits(), 0x0020_0000);
const_assert_eq!(TxData::new().with_tpe(true).into_bits(), 0x0010_0000);
const_assert_eq!(TxData::new().with_fcs(true).into_bits(), 0x0002_0000);
const_assert_eq!(TxData::new().with_tse(true).into_bits(), 0x0001_0000);
const_assert_eq!(TxExtension::new().with_lso(true).into_bits(), 0x0020_0000);
const_assert_eq!(TxExtension::new().with_length(0xf_ffff).into_bits(), 0x000f_ffff);
const_assert_eq!(TxExtension::new().with_dtype(1).into_bits(), 0x4000_0000);
const_assert_eq!(RxControl::new().with_fs(true).into_bits(), 0x8000_0000);
const_assert_eq!(RxControl::new().with_ls(true).into_bits(), 0x4000_0000);
const_assert_eq!(RxControl::new().with_frame_length(0x3fff).into_bits(), 0x3fff_0000);
const_assert_eq!(RxControl::new().with_own(true).into_bits(), 0x0000_8000);
const_assert_eq!(RxControl::new().with_ext(true).into_bits(), 0x0000_4000);
const_assert_eq!(RxControl::new().with_buffer_length(0x3fff).into_bits(), 0x0000_3fff);
const_assert_eq!(RxStatus::new().with_ice(true).into_bits(), 0x0002_0000);
const_assert_eq!(RxStatus::new().with_tce(true).into_bits(), 0x0001_0000);
const_assert_eq!(RxStatus::new().with_ipv6(true).into_bits(), 0x0000_8000);
const_assert_eq!(RxStatus::new().with_protocol(3).into_bits(), 0x0000_6000);
const_assert_eq!(RxStatus::new().with_icsm(true).into_bits(), 0x0000_0001);

/// The seconds and nanoseconds of a receive extension descriptor are in its second and third word.
pub const RX_TS_NS_MASK: u32 = 0x3fff_ffff;

/// Bytes from one descriptor to the next.
///
/// 16 makes the most of each read request of the device; larger ones keep descriptors in cache lines of
/// their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Spacing {
    /// 16 bytes: four descriptors in 64 bytes.
    #[default]
    Bytes16,
    /// 32 bytes.
    Bytes32,
    /// 64 bytes.
    Bytes64,
    /// 128 bytes.
    Bytes128,
}

impl Spacing {
    /// All of them.
    pub const ALL: [Spacing; 4] = [Spacing::Bytes16, Spacing::Bytes32, Spacing::Bytes64, Spacing::Bytes128];

    /// The spacing of so many bytes.
    pub fn from_bytes(bytes: usize) -> Option<Self> {
        Spacing::ALL.into_iter().find(|spacing| spacing.bytes() == bytes)
    }

    /// In bytes.
    pub const fn bytes(self) -> usize {
        1 << self.shift()
    }

    /// As a power of two.
    pub const fn shift(self) -> u32 {
        match self {
            Spacing::Bytes16 => 4,
            Spacing::Bytes32 => 5,
            Spacing::Bytes64 => 6,
            Spacing::Bytes128 => 7,
        }
    }
}
