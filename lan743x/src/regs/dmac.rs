//! DMA controller and its channels (offset 0xc00).

// The macros below make items that cannot carry docs; every register and field has its comment.
#![allow(missing_docs)]

use tombolo_hal::register::{ReadOnly, ReadWrite, W1c, WriteOnly, register_bitfields, register_structs};

register_bitfields![u32,
    /// Configuration of all channels.
    pub DMAC_CFG [
        /// Collects requests before the link is woken. Not in LAN743x A0.
        COAL_EN OFFSET(16) NUMBITS(1) [],
        /// Largest read request: 2^n times 128 bytes is PCIe's own encoding of it; 6 leaves it to PCIe.
        MAX_READ_REQ OFFSET(4) NUMBITS(3) [],
        /// Bytes from one descriptor to the next.
        MAX_DSPACE OFFSET(0) NUMBITS(2) [ Bytes16 = 0, Bytes32 = 1, Bytes64 = 2, Bytes128 = 3 ]
    ],
    /// Coalescing.
    pub COAL_CFG [
        TIMER_LIMIT OFFSET(20) NUMBITS(12) [],
        TIMER_TX_START OFFSET(19) NUMBITS(1) [],
        FLUSH_INTS OFFSET(18) NUMBITS(1) [],
        INT_EXIT_COAL OFFSET(17) NUMBITS(1) [],
        CSR_EXIT_COAL OFFSET(16) NUMBITS(1) [],
        TX_THRES OFFSET(8) NUMBITS(8) [],
        RX_THRES OFFSET(0) NUMBITS(8) []
    ],
    /// Optimised buffer flush and fill.
    pub OBFF_CFG [
        TX_THRES OFFSET(8) NUMBITS(8) [],
        RX_THRES OFFSET(0) NUMBITS(8) []
    ],
    /// Commands: one bit a channel in each field. Start and stop read back as the channel's state:
    /// neither: initial; start: running; both: stopping; stop: stopped.
    pub DMAC_CMD [
        /// Resets the whole controller; clears itself.
        SWR OFFSET(31) NUMBITS(1) [],
        /// Resets a transmit channel; clears itself.
        TX_SWR OFFSET(24) NUMBITS(4) [],
        START_T OFFSET(20) NUMBITS(4) [],
        STOP_T OFFSET(16) NUMBITS(4) [],
        /// Resets a receive channel; clears itself.
        RX_SWR OFFSET(8) NUMBITS(4) [],
        START_R OFFSET(4) NUMBITS(4) [],
        STOP_R OFFSET(0) NUMBITS(4) []
    ],
    /// Interrupts of the channels.
    pub DMAC_INT [
        /// A receive channel has written a frame.
        RXFRM OFFSET(16) NUMBITS(4) [],
        /// A transmit channel has come past a descriptor that asked for it.
        TX_IOC OFFSET(0) NUMBITS(4) []
    ],
    /// Receive channel, first word.
    pub RX_CFG_A [
        /// Descriptors that wait are written back when the moderation timer ends. Not in LAN743x A0.
        RX_WB_ON_INT_TMR OFFSET(30) NUMBITS(1) [],
        /// So many descriptors are written back at once. Not in LAN743x A0.
        RX_WB_THRES OFFSET(24) NUMBITS(5) [],
        /// Fetches when it holds fewer than this. Not in LAN743x A0.
        RX_PF_THRES OFFSET(16) NUMBITS(5) [],
        /// Fetches before the other direction when it holds fewer than this. Not in LAN743x A0.
        RX_PF_PRI_THRES OFFSET(8) NUMBITS(5) [],
        /// Writes its head into memory.
        RX_HP_WB_EN OFFSET(5) NUMBITS(1) []
    ],
    /// Receive channel, second word.
    pub RX_CFG_B [
        /// Time stamps, in an extension descriptor.
        TS OFFSET(28) NUMBITS(2) [ None = 0, Descriptor = 1, All = 2 ],
        /// Bytes before the frame in its first buffer.
        RX_PAD OFFSET(24) NUMBITS(2) [],
        /// Bursts of 512 bytes.
        RDMABL_512 OFFSET(18) NUMBITS(1) [],
        /// Descriptors of the ring.
        RX_RING_LEN OFFSET(0) NUMBITS(16) []
    ],
    /// A ring's tail, with what the write does besides. The first three are not in LAN743x A0.
    pub TAIL [
        /// Enables the channel's interrupt in the DMA controller. Transmit channels.
        SET_DMAC_INT_EN OFFSET(31) NUMBITS(1) [],
        /// Enables the channel's interrupt in the interrupt controller.
        SET_TOP_INT_EN OFFSET(30) NUMBITS(1) [],
        /// Enables the channel's vector.
        SET_TOP_INT_VEC_EN OFFSET(29) NUMBITS(1) [],
        /// Index.
        INDEX OFFSET(0) NUMBITS(16) []
    ],
    /// What an interrupt of the channel clears by itself. Not in LAN743x A0.
    pub CFG_C [
        /// Its enable in the interrupt controller.
        TOP_INT_EN_AUTO_CLR OFFSET(6) NUMBITS(1) [],
        /// Its enable in the DMA controller. Transmit channels.
        DMA_INT_EN_AUTO_CLR OFFSET(5) NUMBITS(1) [],
        /// Its enable, when the status is read.
        INT_EN_R2C OFFSET(4) NUMBITS(1) [],
        /// Its status in the DMA controller.
        DMA_INT_STS_AUTO_CLR OFFSET(3) NUMBITS(1) [],
        /// Its status, when the status is read.
        INT_STS_R2C OFFSET(0) NUMBITS(3) []
    ],
    /// Transmit channel, first word.
    pub TX_CFG_A [
        /// Its head is written when the moderation timer ends. Not in LAN743x A0.
        TX_HP_WB_ON_INT_TMR OFFSET(30) NUMBITS(1) [],
        /// That timer is started by descriptors that ask for an interrupt.
        TX_TMR_HPWB_SEL_IOC OFFSET(28) NUMBITS(1) [],
        TX_PF_THRES OFFSET(16) NUMBITS(5) [],
        TX_PF_PRI_THRES OFFSET(8) NUMBITS(5) [],
        /// Writes its head into memory.
        TX_HP_WB_EN OFFSET(5) NUMBITS(1) [],
        /// After so many descriptors. Not in LAN743x A0.
        TX_HP_WB_THRES OFFSET(0) NUMBITS(4) []
    ],
    /// Transmit channel, second word.
    pub TX_CFG_B [
        /// Bursts of 512 bytes.
        TDMABL_512 OFFSET(18) NUMBITS(1) [],
        /// Descriptors of the ring.
        TX_RING_LEN OFFSET(0) NUMBITS(16) []
    ]
];

register_structs! {
    /// What the channels share, from 0xc00 on.
    pub Dmac {
        (0x000 => pub cfg: ReadWrite<u32, DMAC_CFG::Register>),
        (0x004 => pub coal_cfg: ReadWrite<u32, COAL_CFG::Register>),
        (0x008 => pub obff_cfg: ReadWrite<u32, OBFF_CFG::Register>),
        (0x00c => pub cmd: ReadWrite<u32, DMAC_CMD::Register>),
        (0x010 => pub int_sts: W1c<u32, DMAC_INT::Register>),
        (0x014 => pub int_en_set: ReadWrite<u32, DMAC_INT::Register>),
        (0x018 => pub int_en_clr: WriteOnly<u32, DMAC_INT::Register>),
        (0x01c => @END),
    }
}

register_structs! {
    /// What only a receive channel has: from 0xc40 on, every 0x40.
    pub RxConfig {
        (0x000 => pub cfg_a: ReadWrite<u32, RX_CFG_A::Register>),
        (0x004 => pub cfg_b: ReadWrite<u32, RX_CFG_B::Register>),
        (0x008 => @END),
    }
}

register_structs! {
    /// What only a transmit channel has: from 0xd40 on, every 0x40.
    pub TxConfig {
        (0x000 => pub cfg_a: ReadWrite<u32, TX_CFG_A::Register>),
        (0x004 => pub cfg_b: ReadWrite<u32, TX_CFG_B::Register>),
        (0x008 => @END),
    }
}

register_structs! {
    /// The ring of a channel in either direction: 8 bytes behind the channel's first register.
    pub Ring {
        (0x000 => pub base_addrh: ReadWrite<u32>),
        (0x004 => pub base_addrl: ReadWrite<u32>),
        (0x008 => pub head_writeback_addrh: ReadWrite<u32>),
        (0x00c => pub head_writeback_addrl: ReadWrite<u32>),
        (0x010 => pub head: ReadOnly<u32>),
        (0x014 => pub tail: ReadWrite<u32, TAIL::Register>),
        (0x018 => _r0),
        (0x01c => pub cfg_c: ReadWrite<u32, CFG_C::Register>),
        (0x020 => @END),
    }
}

/// Offset of [`Dmac`].
pub const DMAC: usize = 0xc00;
/// Offset of the first [`RxConfig`].
pub const RX_CHANNELS: usize = 0xc40;
/// Offset of the first [`TxConfig`].
pub const TX_CHANNELS: usize = 0xd40;
/// From a channel's first register to its [`Ring`].
pub const RING: usize = 8;
/// Bytes from one channel to the next.
pub const CHANNEL_STRIDE: usize = 0x40;
