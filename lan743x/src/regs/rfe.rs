//! Receive filter engine: addresses, checksums, receive-side scaling (offset 0x400).

// The macros below make items that cannot carry docs; every register and field has its comment.
#![allow(missing_docs)]

use tombolo_hal::register::{ReadWrite, register_bitfields, register_structs};

register_bitfields![u32,
    /// Upper half of an address in the perfect filter.
    pub FILT_HI [
        /// The entry counts.
        VALID OFFSET(31) NUMBITS(1) [],
        /// The address's fifth and sixth byte.
        ADDRESS OFFSET(0) NUMBITS(16) []
    ],
    /// What is accepted.
    pub RFE_CTL [
        /// Checks TCP and UDP checksums.
        TCP_UDP_COE OFFSET(12) NUMBITS(1) [],
        /// Checks IP header checksums.
        IP_COE OFFSET(11) NUMBITS(1) [],
        /// All broadcasts.
        AB OFFSET(10) NUMBITS(1) [],
        /// All multicasts.
        AM OFFSET(9) NUMBITS(1) [],
        /// All unicasts.
        AU OFFSET(8) NUMBITS(1) [],
        /// Multicasts whose hash is set in the table.
        MCAST_HASH OFFSET(3) NUMBITS(1) [],
        /// What is in the perfect filter.
        DA_PERFECT OFFSET(1) NUMBITS(1) []
    ],
    /// Receive-side scaling.
    pub RSS_CFG [
        /// What is hashed: a bit a kind of packet, from IPv4 to UDP over IPv6 with extensions.
        KINDS OFFSET(8) NUMBITS(9) [],
        /// How many bits of the hash choose the queue.
        VALID_HASH_BITS OFFSET(5) NUMBITS(3) [],
        /// The indirection table chooses the queue.
        QUEUE_ENABLE OFFSET(2) NUMBITS(1) [],
        /// The hash is stored in the descriptor.
        HASH_STORE OFFSET(1) NUMBITS(1) [],
        /// Enable.
        ENABLE OFFSET(0) NUMBITS(1) []
    ]
];

register_structs! {
    /// An entry of the perfect filter.
    pub Filter {
        (0x000 => pub hi: ReadWrite<u32, FILT_HI::Register>),
        (0x004 => pub lo: ReadWrite<u32>),
        (0x008 => @END),
    }
}

register_structs! {
    /// What follows the perfect filter, from 0x508 on.
    pub Rfe {
        (0x000 => pub ctl: ReadWrite<u32, RFE_CTL::Register>),
        (0x004 => _r0),
        (0x04c => pub rss_cfg: ReadWrite<u32, RSS_CFG::Register>),
        (0x050 => pub hash_key: [ReadWrite<u32>; 10]),
        (0x078 => pub indx: [ReadWrite<u32>; 32]),
        (0x0f8 => @END),
    }
}

/// Offset of the perfect filter.
pub const FILTERS: usize = 0x400;
/// Bytes from one entry to the next.
pub const FILTER_STRIDE: usize = 8;
/// Entries of the perfect filter; the first one is the controller's own address.
pub const FILTER_COUNT: usize = 33;
/// Offset of [`Rfe`].
pub const RFE: usize = 0x508;
