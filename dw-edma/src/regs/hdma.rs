//! HDMA in its native map: all registers per channel.

// The macros below make items that cannot carry docs; every register and field has its comment.
#![allow(missing_docs)]

use tombolo_hal::register::{ReadOnly, ReadWrite, Split64, WriteOnly, register_bitfields, register_structs};

register_bitfields![u32,
    /// Channel enable.
    pub CH_EN [
        /// On.
        ENABLE OFFSET(0) NUMBITS(1) []
    ],
    /// Starts or stops the channel.
    pub DOORBELL [
        /// Start.
        START OFFSET(0) NUMBITS(1) [],
        /// Stop.
        STOP OFFSET(1) NUMBITS(1) []
    ],
    /// Cycle bookkeeping.
    pub CYCLE [
        /// Cycle bit of the element last loaded.
        BIT OFFSET(0) NUMBITS(1) [],
        /// Consumer cycle state: what a list element's cycle bit must equal.
        STATE OFFSET(1) NUMBITS(1) []
    ],
    /// Channel control.
    pub CONTROL1 [
        /// Linked-list mode.
        LLEN OFFSET(0) NUMBITS(1) []
    ],
    /// Whose requests.
    pub FUNC_NUM [
        /// Physical function.
        PF OFFSET(0) NUMBITS(8) []
    ],
    /// Where the channel is.
    pub STATUS [
        /// State.
        STATE OFFSET(0) NUMBITS(2) [ Initial = 0, Running = 1, Aborted = 2, Stopped = 3 ]
    ],
    /// What happened.
    pub INT_STATUS [
        /// The channel came to the end of its list or transfer, or was stopped.
        STOP OFFSET(0) NUMBITS(1) [],
        /// An element with a watermark bit was moved.
        WATERMARK OFFSET(1) NUMBITS(1) [],
        /// An error.
        ABORT OFFSET(2) NUMBITS(1) [],
        /// Which error.
        ERROR OFFSET(3) NUMBITS(4) [
            ListUnsupported = 1, ListCompleterAbort = 2, ListPoisoned = 3,
            DataTimeout = 8, DataUnsupported = 9, DataCompleterAbort = 10, DataPoisoned = 11,
            MessageWrite = 12
        ]
    ],
    /// Masks (a one masks the local interrupt) and enables.
    pub INT_SETUP [
        /// Mask the local stop interrupt.
        STOP_MASK OFFSET(0) NUMBITS(1) [],
        /// Mask the local watermark interrupt.
        WATERMARK_MASK OFFSET(1) NUMBITS(1) [],
        /// Mask the local abort interrupt.
        ABORT_MASK OFFSET(2) NUMBITS(1) [],
        /// Send a message at a stop.
        REMOTE_STOP_EN OFFSET(3) NUMBITS(1) [],
        /// Latch a stop in the status.
        LOCAL_STOP_EN OFFSET(4) NUMBITS(1) [],
        /// Send a message at an abort.
        REMOTE_ABORT_EN OFFSET(5) NUMBITS(1) [],
        /// Latch an abort in the status.
        LOCAL_ABORT_EN OFFSET(6) NUMBITS(1) []
    ],
    /// Clears status bits (write one); clearing the abort clears the error too.
    pub INT_CLEAR [
        /// Stop.
        STOP OFFSET(0) NUMBITS(1) [],
        /// Watermark.
        WATERMARK OFFSET(1) NUMBITS(1) [],
        /// Abort.
        ABORT OFFSET(2) NUMBITS(1) []
    ]
];

register_structs! {
    /// Registers of one channel.
    pub Channel {
        (0x00 => pub ch_en: ReadWrite<u32, CH_EN::Register>),
        (0x04 => pub doorbell: WriteOnly<u32, DOORBELL::Register>),
        (0x08 => _prefetch: [u32; 2]),
        (0x10 => pub llp: Split64),
        (0x18 => pub cycle: ReadWrite<u32, CYCLE::Register>),
        (0x1c => pub transfer_size: ReadWrite<u32>),
        (0x20 => pub sar: Split64),
        (0x28 => pub dar: Split64),
        (0x30 => pub watermark_en: ReadWrite<u32>),
        (0x34 => pub control1: ReadWrite<u32, CONTROL1::Register>),
        (0x38 => pub func_num: ReadWrite<u32, FUNC_NUM::Register>),
        (0x3c => _qos: [u32; 17]),
        (0x80 => pub status: ReadOnly<u32, STATUS::Register>),
        (0x84 => pub int_status: ReadOnly<u32, INT_STATUS::Register>),
        (0x88 => pub int_setup: ReadWrite<u32, INT_SETUP::Register>),
        (0x8c => pub int_clear: WriteOnly<u32, INT_CLEAR::Register>),
        (0x90 => pub msi_stop: Split64),
        (0x98 => pub msi_watermark: Split64),
        (0xa0 => pub msi_abort: Split64),
        (0xa8 => pub msi_data: ReadWrite<u32>),
        (0xac => @END),
    }
}

/// From one channel number to the next.
pub const CHANNEL_STRIDE: usize = 0x200;
/// From a write channel's registers to those of the read channel of the same number.
pub const READ_OFFSET: usize = 0x100;

static_assertions::const_assert_eq!(core::mem::offset_of!(Channel, int_status), 0x84);
static_assertions::const_assert_eq!(64 * CHANNEL_STRIDE, 0x8000);
static_assertions::const_assert!(size_of::<Channel>() <= READ_OFFSET);
