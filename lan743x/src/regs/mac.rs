//! MAC, MDIO and wake-up (offset 0x100).

// The macros below make items that cannot carry docs; every register and field has its comment.
#![allow(missing_docs)]

use tombolo_hal::register::{ReadOnly, ReadWrite, W1c, register_bitfields, register_structs};

register_bitfields![u32,
    /// MAC control.
    pub MAC_CR [
        /// MII instead of RGMII. LAN7431.
        MII_EN OFFSET(19) NUMBITS(1) [],
        /// Energy-efficient Ethernet.
        EEE_EN OFFSET(17) NUMBITS(1) [],
        /// Automatic duplex detection.
        ADD OFFSET(12) NUMBITS(1) [],
        /// Automatic speed detection.
        ASD OFFSET(11) NUMBITS(1) [],
        /// Internal loopback.
        INT_LOOP OFFSET(10) NUMBITS(1) [],
        /// Clears the statistics; clears itself.
        CNTR_RST OFFSET(5) NUMBITS(1) [],
        /// Full duplex.
        DPX OFFSET(3) NUMBITS(1) [],
        /// Speed in Mbit/s.
        CFG OFFSET(1) NUMBITS(2) [ Mbit10 = 0, Mbit100 = 1, Mbit1000 = 2, Mbit2500 = 3 ],
        /// Resets the MAC; clears itself.
        RST OFFSET(0) NUMBITS(1) []
    ],
    /// Receiver.
    pub MAC_RX [
        /// The longest frame, with its frame check sequence, in bytes.
        MAX_SIZE OFFSET(16) NUMBITS(14) [],
        /// One VLAN tag does not count against `MAX_SIZE`. Can be changed while the receiver is off.
        FSE OFFSET(2) NUMBITS(1) [],
        /// The receiver has stopped; cleared by writing a one.
        RXD OFFSET(1) NUMBITS(1) [],
        /// Enable.
        RXEN OFFSET(0) NUMBITS(1) []
    ],
    /// Transmitter.
    pub MAC_TX [
        /// The transmitter has stopped; cleared by writing a one.
        TXD OFFSET(1) NUMBITS(1) [],
        /// Enable.
        TXEN OFFSET(0) NUMBITS(1) []
    ],
    /// Flow control.
    pub MAC_FLOW [
        /// Sends pause frames.
        TX_FCEN OFFSET(30) NUMBITS(1) [],
        /// Obeys pause frames.
        RX_FCEN OFFSET(29) NUMBITS(1) [],
        /// Pause time that is sent, in units of 512 bit times.
        FCPT OFFSET(0) NUMBITS(16) []
    ],
    /// An MDIO transaction.
    pub MII_ACC [
        /// PHY address.
        PHY OFFSET(11) NUMBITS(5) [],
        /// Register (clause 22), or device (clause 45).
        INDEX OFFSET(6) NUMBITS(5) [],
        /// Clause 45.
        CL45 OFFSET(3) NUMBITS(1) [],
        /// Clause 22 has `Read` as 0; clause 45 loads the address first.
        COMMAND OFFSET(1) NUMBITS(2) [ Address = 0, Write = 1, Read = 2 ],
        /// Starts it; clears itself at its end.
        BUSY OFFSET(0) NUMBITS(1) []
    ],
    /// Wake-up control and status. Status bits are cleared by writing ones.
    pub WUCSR [
        /// A password follows the magic packet.
        MP_SO_EN OFFSET(21) NUMBITS(1) [],
        /// What the filter accepts may wake.
        RFE_WAKE_EN OFFSET(14) NUMBITS(1) [],
        /// Status bits: filter, perfect address, wake-up frame, magic packet, broadcast, EEE.
        STATUS OFFSET(4) NUMBITS(10) [],
        /// A frame for our address wakes.
        PFDA_EN OFFSET(3) NUMBITS(1) [],
        /// A wake-up frame wakes.
        WAKE_EN OFFSET(2) NUMBITS(1) [],
        /// A magic packet wakes.
        MPEN OFFSET(1) NUMBITS(1) [],
        /// A broadcast wakes.
        BCST_EN OFFSET(0) NUMBITS(1) []
    ],
    /// A wake-up frame filter.
    pub WUF_CFG [
        /// Enable.
        EN OFFSET(31) NUMBITS(1) [],
        /// Which destinations.
        TYPE OFFSET(24) NUMBITS(2) [ Unicast = 0, All = 1, Multicast = 2 ],
        /// Where in the frame the mask begins, in bytes.
        START OFFSET(16) NUMBITS(8) [],
        /// CRC-16 of the bytes that the mask selects.
        CRC OFFSET(0) NUMBITS(16) []
    ]
];

register_structs! {
    /// The block, from 0x100 on.
    pub Mac {
        (0x000 => pub cr: ReadWrite<u32, MAC_CR::Register>),
        (0x004 => pub rx: ReadWrite<u32, MAC_RX::Register>),
        (0x008 => pub tx: ReadWrite<u32, MAC_TX::Register>),
        (0x00c => pub flow: ReadWrite<u32, MAC_FLOW::Register>),
        (0x010 => _r0),
        (0x018 => pub rx_addrh: ReadWrite<u32>),
        (0x01c => pub rx_addrl: ReadWrite<u32>),
        (0x020 => pub mii_acc: ReadWrite<u32, MII_ACC::Register>),
        (0x024 => pub mii_data: ReadWrite<u32>),
        (0x028 => _r1),
        (0x030 => pub eee_tx_lpi_req_dly_cnt: ReadWrite<u32>),
        (0x034 => _r2),
        (0x040 => pub wucsr: ReadWrite<u32, WUCSR::Register>),
        (0x044 => pub wk_src: W1c<u32>),
        (0x048 => pub mp_so_hi: ReadWrite<u32>),
        (0x04c => pub mp_so_lo: ReadWrite<u32>),
        (0x050 => pub wuf_cfg: [ReadWrite<u32, WUF_CFG::Register>; 32]),
        (0x0d0 => _r3),
        (0x100 => pub wuf_mask: [ReadWrite<u32>; 128]),
        (0x300 => @END),
    }
}

register_structs! {
    /// Second wake-up register, at 0x600.
    pub Wake2 {
        (0x000 => pub wucsr2: ReadWrite<u32>),
        (0x004 => pub int_sts: ReadOnly<u32>),
        (0x008 => @END),
    }
}

/// Offset of [`Mac`].
pub const MAC: usize = 0x100;
/// Offset of [`Wake2`].
pub const WAKE2: usize = 0x600;
/// Wake-up frame filters.
pub const WUF_COUNT: usize = 32;
