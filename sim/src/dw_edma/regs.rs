//! Register offsets and bits.
//!
//! Offsets are those that a C compiler computes for the packed structures `dw_edma_v0_regs` and
//! `dw_hdma_v0_ch_regs` of Linux 7.3 (`drivers/dma/dw-edma/dw-edma-v0-regs.h`, `dw-hdma-v0-regs.h`),
//! whose comments are wrong from the union at 0xfc on. Meanings come from the same driver, from
//! vendor reference manuals that quote the Synopsys databook, and from the headers of other shipping
//! drivers; where sources are silent, the item says what the model does.

/// Registers that eDMA v0 has once per direction or once for the engine.
pub(super) mod v0 {
    /// Arbitration and priority of control traffic. Plain storage here.
    pub const CTRL_DATA_ARB_PRIOR: u64 = 0x00;
    /// Channel counts, read only: write 3:0, read 19:16.
    pub const CTRL: u64 = 0x08;
    /// Viewport of the legacy format: channel 2:0, bit 31 selects read channels.
    pub const VIEWPORT_SEL: u64 = 0xfc;
    /// The channel window of the legacy format.
    pub const LEGACY_CHANNEL: u64 = 0x100;
    /// First channel block of the unrolled format; write channel at +0, read channel at +0x100.
    pub const CHANNELS: u64 = 0x200;
    /// Distance of two channels' blocks.
    pub const CHANNEL_STRIDE: u64 = 0x200;
    /// Offset of a read channel in its block.
    pub const READ_CHANNEL: u64 = 0x100;
    /// Size of one channel's registers.
    pub const CHANNEL_SIZE: u64 = 0x24;
    /// Power enable of write channel 0 (unrolled, HDMA-compatible); others follow in steps of 4.
    pub const WR_PWR_EN: u64 = 0x128;
    /// Power enable of read channel 0.
    pub const RD_PWR_EN: u64 = 0x168;
    /// Channel groups and handshake counters: 0x100 to 0x127.
    pub const CHGROUP_WR: u64 = 0x100;
    /// Channel group of the read channels.
    pub const CHGROUP_RD: u64 = 0x104;
    /// Size of the legacy register file.
    pub const LEGACY_SIZE: u64 = 0x124;
    /// Size of the unrolled register file.
    pub const UNROLLED_SIZE: u64 = 0x1200;

    /// Offsets of the registers that exist once per direction.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Shared {
        /// Bit 0 enable, 23:16 handshake enables. Not implemented in the compatible format.
        EngineEnable,
        /// 2:0 channel, 31 stop. Write only.
        Doorbell,
        /// Arbitration weights.
        ArbWeightLow,
        /// Arbitration weights.
        ArbWeightHigh,
        /// Done 7:0, abort 23:16; a write is an emulated interrupt.
        IntStatus,
        /// Set bits keep the local interrupt line down.
        IntMask,
        /// Write-one-to-clear of the status; any write ends an emulated interrupt.
        IntClear,
        /// Write: application read error 7:0; read: application write error 7:0; both: list fetch
        /// error 23:16.
        ErrStatusLow,
        /// Read direction only: unsupported request 7:0, completer abort 15:8, completion time-out
        /// 23:16, poisoned 31:24.
        ErrStatusHigh,
        /// Where a done message is written.
        DoneLow,
        /// High half of the same.
        DoneHigh,
        /// Where an abort message is written.
        AbortLow,
        /// High half of the same.
        AbortHigh,
        /// Message data of channels 2n (15:0) and 2n+1 (31:16).
        MessageData(usize),
        /// Enables of list-mode aborts: 7:0 remote (LLRAIE), 23:16 local (LLLAIE).
        ListErrorEnable,
    }

    impl Shared {
        /// The register at `offset`: `(is of the read direction, register)`.
        pub fn at(offset: u64) -> Option<(bool, Self)> {
            use Shared::*;
            let write = |register| Some((false, register));
            let read = |register| Some((true, register));
            match offset {
                0x0c => write(EngineEnable),
                0x10 => write(Doorbell),
                0x18 => write(ArbWeightLow),
                0x1c => write(ArbWeightHigh),
                0x4c => write(IntStatus),
                0x54 => write(IntMask),
                0x58 => write(IntClear),
                0x5c => write(ErrStatusLow),
                0x60 => write(DoneLow),
                0x64 => write(DoneHigh),
                0x68 => write(AbortLow),
                0x6c => write(AbortHigh),
                0x70 | 0x74 | 0x78 | 0x7c => write(MessageData(((offset - 0x70) / 4) as usize)),
                0x90 => write(ListErrorEnable),
                0x2c => read(EngineEnable),
                0x30 => read(Doorbell),
                0x38 => read(ArbWeightLow),
                0x3c => read(ArbWeightHigh),
                0xa0 => read(IntStatus),
                0xa8 => read(IntMask),
                0xac => read(IntClear),
                0xb4 => read(ErrStatusLow),
                0xb8 => read(ErrStatusHigh),
                0xc4 => read(ListErrorEnable),
                0xcc => read(DoneLow),
                0xd0 => read(DoneHigh),
                0xd4 => read(AbortLow),
                0xd8 => read(AbortHigh),
                0xdc | 0xe0 | 0xe4 | 0xe8 => read(MessageData(((offset - 0xdc) / 4) as usize)),
                _ => None,
            }
        }
    }

    /// `ENGINE_EN` bit 0.
    pub const ENGINE_EN: u32 = 1;
    /// The bits of `ENGINE_EN` that are storage: handshake enables.
    pub const ENGINE_HANDSHAKE: u32 = 0x00ff_0000;
    /// Channel field of the doorbell.
    pub const DOORBELL_CHANNEL: u32 = 0x7;
    /// Stop instead of start.
    pub const DOORBELL_STOP: u32 = 1 << 31;
    /// Valid bits of interrupt status, mask and clear.
    pub const INT_BITS: u32 = 0x00ff_00ff;
    /// Shift of the abort bits in the interrupt registers and of the list fetch errors.
    pub const ABORT_SHIFT: u32 = 16;

    /// Registers of one channel, by offset in its block.
    pub mod channel {
        /// Control word: bits in [`super::control`].
        pub const CONTROL1: u64 = 0x00;
        /// Virtual function selection. Plain storage here.
        pub const CONTROL2: u64 = 0x04;
        /// Bytes left.
        pub const SIZE: u64 = 0x08;
        /// Source address.
        pub const SAR_LOW: u64 = 0x0c;
        /// Source address, high half.
        pub const SAR_HIGH: u64 = 0x10;
        /// Destination address.
        pub const DAR_LOW: u64 = 0x14;
        /// Destination address, high half.
        pub const DAR_HIGH: u64 = 0x18;
        /// List pointer.
        pub const LLP_LOW: u64 = 0x1c;
        /// List pointer, high half.
        pub const LLP_HIGH: u64 = 0x20;
    }

    /// Bits of the channel control word 1.
    pub mod control {
        /// Local interrupt enable.
        pub const LIE: u32 = 1 << 3;
        /// Remote interrupt enable.
        pub const RIE: u32 = 1 << 4;
        /// Channel status, read only.
        pub const STATUS: u32 = 0x60;
        /// Shift of the status.
        pub const STATUS_SHIFT: u32 = 5;
        /// Consumer cycle state.
        pub const CCS: u32 = 1 << 8;
        /// Linked list enable.
        pub const LLE: u32 = 1 << 9;
    }
}

/// Bits of a list element's control word, equal in all formats.
pub(super) mod element {
    /// Cycle bit.
    pub const CB: u32 = 1 << 0;
    /// Toggle cycle bit, in link elements.
    pub const TCB: u32 = 1 << 1;
    /// This is a link element.
    pub const LLP: u32 = 1 << 2;
    /// Local interrupt: LIE in v0, LWIE (watermark) in HDMA.
    pub const LIE: u32 = 1 << 3;
    /// Remote interrupt: RIE in v0, RWIE in HDMA.
    pub const RIE: u32 = 1 << 4;
    /// All the bits that the engine loads into a channel's control word.
    pub const LOADED: u32 = 0x1f;
    /// Bytes from one element to the next, links included.
    pub const SIZE: u64 = 24;
}

/// HDMA native: the registers of one channel.
pub(super) mod hdma {
    /// Distance of two channels' blocks.
    pub const CHANNEL_STRIDE: u64 = 0x200;
    /// Offset of a read channel in its block.
    pub const READ_CHANNEL: u64 = 0x100;
    /// Enable, bit 0.
    pub const EN: u64 = 0x00;
    /// Bit 0 start, bit 1 stop.
    pub const DOORBELL: u64 = 0x04;
    /// Element prefetch. Plain storage here: the depth is a parameter of the model.
    pub const ELEM_PF: u64 = 0x08;
    /// Handshake. Plain storage here.
    pub const HANDSHAKE: u64 = 0x0c;
    /// List pointer.
    pub const LLP_LOW: u64 = 0x10;
    /// List pointer, high half.
    pub const LLP_HIGH: u64 = 0x14;
    /// Bit 0 cycle bit as loaded, bit 1 consumer cycle state.
    pub const CYCLE: u64 = 0x18;
    /// Bytes left.
    pub const SIZE: u64 = 0x1c;
    /// Source address.
    pub const SAR_LOW: u64 = 0x20;
    /// Source address, high half.
    pub const SAR_HIGH: u64 = 0x24;
    /// Destination address.
    pub const DAR_LOW: u64 = 0x28;
    /// Destination address, high half.
    pub const DAR_HIGH: u64 = 0x2c;
    /// Bit 0 remote, bit 1 local watermark enable; loaded from elements in list mode.
    pub const WATERMARK_EN: u64 = 0x30;
    /// Bit 0 linked list enable.
    pub const CONTROL1: u64 = 0x34;
    /// Function number. Plain storage here.
    pub const FUNC_NUM: u64 = 0x38;
    /// Traffic class and weights. Plain storage here.
    pub const QOS: u64 = 0x3c;
    /// Status 1:0.
    pub const STATUS: u64 = 0x80;
    /// Interrupt status: bits in [`int`], error code 6:3.
    pub const INT_STATUS: u64 = 0x84;
    /// Masks 2:0 and enables 6:3.
    pub const INT_SETUP: u64 = 0x88;
    /// Write-one-to-clear of the status; clearing abort clears the error code.
    pub const INT_CLEAR: u64 = 0x8c;
    /// Where a stop message is written. The high half of each address is 4 bytes on.
    pub const MSI_STOP_LOW: u64 = 0x90;
    /// Where a watermark message is written.
    pub const MSI_WATERMARK_LOW: u64 = 0x98;
    /// Where an abort message is written.
    pub const MSI_ABORT_LOW: u64 = 0xa0;
    /// High half of the same.
    pub const MSI_ABORT_HIGH: u64 = 0xa4;
    /// The data word of all three messages.
    pub const MSI_DATA: u64 = 0xa8;

    /// Interrupt bits.
    pub mod int {
        /// The channel ended.
        pub const STOP: u32 = 1 << 0;
        /// An element with LWIE ended.
        pub const WATERMARK: u32 = 1 << 1;
        /// The channel gave up.
        pub const ABORT: u32 = 1 << 2;
        /// Shift of the error code in the status.
        pub const ERROR_SHIFT: u32 = 3;
        /// The error code in the status.
        pub const ERROR: u32 = 0xf << ERROR_SHIFT;
        /// Remote stop interrupt enable, in the set-up register.
        pub const RSIE: u32 = 1 << 3;
        /// Local stop interrupt enable.
        pub const LSIE: u32 = 1 << 4;
        /// Remote abort interrupt enable.
        pub const RAIE: u32 = 1 << 5;
        /// Local abort interrupt enable.
        pub const LAIE: u32 = 1 << 6;
        /// All bits of the set-up register.
        pub const SETUP: u32 = 0x7f;
        /// The status bits proper.
        pub const EVENTS: u32 = STOP | WATERMARK | ABORT;
    }
}

/// Registers of the port logic that tell the formats apart behind a local DBI.
pub(super) mod dbi {
    /// Core version, four ASCII characters such as `470*`.
    pub const VERSION: u64 = 0x8f8;
    /// The legacy eDMA registers; all ones there on cores below 5.40a without them.
    pub const VIEWPORT: u64 = 0x970;
    /// Where unrolled registers are by default.
    pub const UNROLLED: u64 = 0x8_0000;
    /// Size of the DBI space that the model shows.
    pub const SIZE: u64 = 0x10_0000;
}
