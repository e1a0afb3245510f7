//! eDMA v0: legacy, unrolled and HDMA-compatible maps.

// The macros below make items that cannot carry docs; every register and field has its comment.
#![allow(missing_docs)]

use tombolo_hal::register::{ReadOnly, ReadWrite, Split64, WriteOnly, register_bitfields, register_structs};

register_bitfields![u32,
    /// Numbers of channels. Read-only.
    pub CTRL [
        /// Number of write channels.
        WRITE_CHANNELS OFFSET(0) NUMBITS(4) [],
        /// Number of read channels.
        READ_CHANNELS OFFSET(16) NUMBITS(4) []
    ],
    /// Engine enable. Does not exist in the HDMA-compatible map.
    pub ENGINE_EN [
        /// Enable; reads back as set until the engine has come to rest.
        ENABLE OFFSET(0) NUMBITS(1) []
    ],
    /// Starts or stops a channel.
    pub DOORBELL [
        /// Which channel.
        CHANNEL OFFSET(0) NUMBITS(3) [],
        /// Stop it instead. Ends in an abort; no effect on a channel that does not run.
        STOP OFFSET(31) NUMBITS(1) []
    ],
    /// One bit a channel: status, mask (a one masks) and clear (write one) have the same layout.
    pub INT [
        /// An element with an interrupt bit was moved, or a transfer without list ended.
        DONE OFFSET(0) NUMBITS(8) [],
        /// An error, or a stop.
        ABORT OFFSET(16) NUMBITS(8) []
    ],
    /// Which channels report errors of their list.
    pub LL_ERR_EN [
        /// Report across the link.
        REMOTE OFFSET(0) NUMBITS(8) [],
        /// Report on the engine's side.
        LOCAL OFFSET(16) NUMBITS(8) []
    ],
    /// Errors of the write channels. Clearing an abort clears its channel's bits.
    pub WRITE_ERR [
        /// The application did not give the data.
        APP_READ OFFSET(0) NUMBITS(8) [],
        /// The list could not be read.
        LIST OFFSET(16) NUMBITS(8) []
    ],
    /// Errors of the read channels, first word.
    pub READ_ERR_LOW [
        /// The application did not take the data.
        APP_WRITE OFFSET(0) NUMBITS(8) [],
        /// The list could not be read.
        LIST OFFSET(16) NUMBITS(8) []
    ],
    /// Errors of the read channels, second word: what came back over the link.
    pub READ_ERR_HIGH [
        /// Unsupported request.
        UNSUPPORTED OFFSET(0) NUMBITS(8) [],
        /// Completer abort.
        COMPLETER_ABORT OFFSET(8) NUMBITS(8) [],
        /// Completion time-out.
        TIMEOUT OFFSET(16) NUMBITS(8) [],
        /// Poisoned data.
        POISONED OFFSET(24) NUMBITS(8) []
    ],
    /// Data of the interrupt messages of two neighbouring channels.
    pub IMWR_DATA [
        /// Of the even channel.
        EVEN OFFSET(0) NUMBITS(16) [],
        /// Of the odd channel.
        ODD OFFSET(16) NUMBITS(16) []
    ],
    /// Which channel's registers the legacy window shows.
    pub VIEWPORT [
        /// Which channel.
        CHANNEL OFFSET(0) NUMBITS(3) [],
        /// A read channel.
        READ OFFSET(31) NUMBITS(1) []
    ],
    /// Power of one channel (HDMA-compatible: its enable).
    pub PWR_EN [
        /// On.
        ENABLE OFFSET(0) NUMBITS(1) []
    ],
    /// Channel control.
    pub CONTROL1 [
        /// Where the channel is.
        STATUS OFFSET(5) NUMBITS(2) [ Initial = 0, Running = 1, Halted = 2, Stopped = 3 ],
        /// Consumer cycle state: what a list element's cycle bit must equal.
        CCS OFFSET(8) NUMBITS(1) [],
        /// Linked-list mode.
        LLE OFFSET(9) NUMBITS(1) [],
        /// Physical function of the requests.
        FUNCTION OFFSET(12) NUMBITS(5) []
    ]
];

register_structs! {
    /// Registers that all channels share.
    pub Globals {
        (0x000 => _arbitration: [u32; 2]),
        (0x008 => pub ctrl: ReadOnly<u32, CTRL::Register>),
        (0x00c => pub wr_engine_en: ReadWrite<u32, ENGINE_EN::Register>),
        (0x010 => pub wr_doorbell: WriteOnly<u32, DOORBELL::Register>),
        (0x014 => _wr_weights: [u32; 6]),
        (0x02c => pub rd_engine_en: ReadWrite<u32, ENGINE_EN::Register>),
        (0x030 => pub rd_doorbell: WriteOnly<u32, DOORBELL::Register>),
        (0x034 => _rd_weights: [u32; 6]),
        (0x04c => pub wr_int_status: ReadOnly<u32, INT::Register>),
        (0x050 => _r0),
        (0x054 => pub wr_int_mask: ReadWrite<u32, INT::Register>),
        (0x058 => pub wr_int_clear: WriteOnly<u32, INT::Register>),
        (0x05c => pub wr_err_status: ReadOnly<u32, WRITE_ERR::Register>),
        (0x060 => pub wr_done_imwr: Split64),
        (0x068 => pub wr_abort_imwr: Split64),
        (0x070 => pub wr_imwr_data: [ReadWrite<u32, IMWR_DATA::Register>; 4]),
        (0x080 => _r1),
        (0x090 => pub wr_ll_err_en: ReadWrite<u32, LL_ERR_EN::Register>),
        (0x094 => _r2),
        (0x0a0 => pub rd_int_status: ReadOnly<u32, INT::Register>),
        (0x0a4 => _r3),
        (0x0a8 => pub rd_int_mask: ReadWrite<u32, INT::Register>),
        (0x0ac => pub rd_int_clear: WriteOnly<u32, INT::Register>),
        (0x0b0 => _r4),
        (0x0b4 => pub rd_err_low: ReadOnly<u32, READ_ERR_LOW::Register>),
        (0x0b8 => pub rd_err_high: ReadOnly<u32, READ_ERR_HIGH::Register>),
        (0x0bc => _r5),
        (0x0c4 => pub rd_ll_err_en: ReadWrite<u32, LL_ERR_EN::Register>),
        (0x0c8 => _r6),
        (0x0cc => pub rd_done_imwr: Split64),
        (0x0d4 => pub rd_abort_imwr: Split64),
        (0x0dc => pub rd_imwr_data: [ReadWrite<u32, IMWR_DATA::Register>; 4]),
        (0x0ec => _r7),
        (0x0fc => pub viewport: WriteOnly<u32, VIEWPORT::Register>),
        (0x100 => @END),
    }
}

register_structs! {
    /// Channel power, only in the unrolled and HDMA-compatible maps; from offset 0x100 on.
    pub Power {
        (0x00 => _groups: [u32; 10]),
        (0x28 => pub wr_pwr_en: [ReadWrite<u32, PWR_EN::Register>; 8]),
        (0x48 => _r0: [u32; 8]),
        (0x68 => pub rd_pwr_en: [ReadWrite<u32, PWR_EN::Register>; 8]),
        (0x88 => @END),
    }
}

register_structs! {
    /// Registers of one channel: behind the viewport, or at their own place.
    pub Channel {
        (0x00 => pub control1: ReadWrite<u32, CONTROL1::Register>),
        (0x04 => pub control2: ReadWrite<u32>),
        (0x08 => pub transfer_size: ReadWrite<u32>),
        (0x0c => pub sar: Split64),
        (0x14 => pub dar: Split64),
        (0x1c => pub llp: Split64),
        (0x24 => @END),
    }
}

/// Where [`Power`] begins.
pub const POWER: usize = 0x100;
/// Where the legacy window shows the registers of the selected channel.
pub const VIEWPORT_WINDOW: usize = 0x100;
/// Where the registers of channel 0 begin in the unrolled maps.
pub const CHANNELS: usize = 0x200;
/// From one channel number to the next.
pub const CHANNEL_STRIDE: usize = 0x200;
/// From a write channel's registers to those of the read channel of the same number.
pub const READ_OFFSET: usize = 0x100;

static_assertions::const_assert_eq!(size_of::<Globals>(), 0x100);
static_assertions::const_assert_eq!(core::mem::offset_of!(Globals, viewport), 0xfc);
static_assertions::const_assert_eq!(POWER + core::mem::offset_of!(Power, rd_pwr_en) + 5 * 4, 0x17c);
static_assertions::const_assert_eq!(CHANNELS + 8 * CHANNEL_STRIDE, 0x1200);
static_assertions::const_assert_eq!(size_of::<Channel>(), 0x24);
