//! Interrupt controller (offset 0x780).

// The macros below make items that cannot carry docs; every register and field has its comment.
#![allow(missing_docs)]

use tombolo_hal::register::{ReadOnly, ReadWrite, WriteOnly, register_bitfields, register_structs};

register_bitfields![u32,
    /// Sources: status, enable and software set have the same layout.
    pub INT [
        /// Receive channels.
        DMA_RX OFFSET(24) NUMBITS(4) [],
        /// Transmit channels.
        DMA_TX OFFSET(16) NUMBITS(4) [],
        /// Software.
        SW_GP OFFSET(9) NUMBITS(1) [],
        /// PTP.
        PTP OFFSET(7) NUMBITS(1) [],
        /// As an enable: all of them. As a status: any that is enabled.
        MAS OFFSET(0) NUMBITS(1) []
    ]
];

register_structs! {
    /// The block, from 0x780 on.
    pub Interrupts {
        (0x000 => pub sts: ReadOnly<u32, INT::Register>),
        (0x004 => pub set: WriteOnly<u32, INT::Register>),
        (0x008 => pub en_set: ReadWrite<u32, INT::Register>),
        (0x00c => pub en_clr: WriteOnly<u32, INT::Register>),
        (0x010 => pub sts_r2c: ReadOnly<u32, INT::Register>),
        (0x014 => pub vec_en_set: WriteOnly<u32>),
        (0x018 => pub vec_en_clr: WriteOnly<u32>),
        (0x01c => pub vec_en_auto_clr: ReadWrite<u32>),
        (0x020 => pub vec_map: [ReadWrite<u32>; 3]),
        (0x02c => _r0),
        (0x030 => pub mod_map: [ReadWrite<u32>; 3]),
        (0x03c => _r1),
        (0x040 => pub mod_cfg: [ReadWrite<u32>; 10]),
        (0x068 => @END),
    }
}

/// Offset of [`Interrupts`].
pub const INTERRUPTS: usize = 0x780;

/// The status and enable bit of a receive channel.
pub const fn rx_bit(channel: u8) -> u32 {
    1 << (24 + (channel & 3))
}

/// The status and enable bit of a transmit channel.
pub const fn tx_bit(channel: u8) -> u32 {
    1 << (16 + (channel & 3))
}
