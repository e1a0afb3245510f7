//! Counters and fault hooks of a model, from outside.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The parts of the register map, for [`Counters::register_reads`] and [`Counters::register_writes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Block {
    /// ID, resets, power, GPIO, data port, timer.
    System,
    /// FIFO controller.
    Fct,
    /// MAC, MDIO, wake-up.
    Mac,
    /// Receive filter and RSS.
    Rfe,
    /// RMII, SGMII and system block of the second family.
    Serial,
    /// Interrupts.
    Interrupts,
    /// PTP.
    Ptp,
    /// DMA controller.
    Dmac,
    /// EEPROM and OTP.
    Nvm,
    /// Statistics.
    Statistics,
}

impl Block {
    /// Number of blocks.
    pub const COUNT: usize = 10;

    /// The block at an offset of BAR 0.
    pub const fn at(offset: u64) -> Block {
        match offset {
            0x040..=0x047 | 0x1000..=0x11ff | 0x4e00..=0x5fff => Block::Nvm,
            0x0a0..=0x0ff => Block::Fct,
            0x100..=0x3ff | 0x600..=0x6ff => Block::Mac,
            0x400..=0x5ff => Block::Rfe,
            0x700..=0x77f | 0x900..=0x9ff | 0x4000..=0x4dff => Block::Serial,
            0x780..=0x7ff => Block::Interrupts,
            0xa00..=0xbff => Block::Ptp,
            0xc00..=0xfff => Block::Dmac,
            0x1200..=0x12ff => Block::Statistics,
            _ => Block::System,
        }
    }
}

/// Why a frame ended inside the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// The receiver (`MAC_RX`) is off.
    ReceiverOff,
    /// Receive error: checksum, too short, too long.
    Error,
    /// No filter wants it.
    Filtered,
    /// Its channel's FIFO is disabled.
    FifoDisabled,
    /// Its channel's FIFO is full.
    FifoFull,
    /// MAC and PHY have different speeds.
    Speed,
    /// Pause frame, or another that the MAC keeps for itself.
    Control,
    /// To be sent, but there is no link.
    NoLink,
    /// To be sent, but its descriptors are wrong, or it is too large for the FIFO.
    Transmit,
    /// To be sent, but its data could not be read.
    TransmitRead,
    /// The wake-up logic keeps it, mostly because the function sleeps.
    Asleep,
}

impl DropReason {
    /// Number of reasons.
    pub const COUNT: usize = 11;
}

/// Counts of one DMA channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelCounters {
    /// Writes of the tail register.
    pub doorbells: u64,
    /// Requests that read descriptors.
    pub fetches: u64,
    /// Descriptors read by them.
    pub fetched: u64,
    /// Requests that wrote descriptors back.
    pub write_backs: u64,
    /// Descriptors written by them.
    pub written: u64,
    /// Writes of the head word.
    pub head_writes: u64,
    /// Requests that read (transmit) or wrote (receive) data.
    pub data_requests: u64,
    /// Bytes of data in them.
    pub data_bytes: u64,
    /// Frames: taken from the ring (transmit; a large send counts once), or given to the host (receive).
    pub frames: u64,
    /// Posted writes that nobody took.
    pub lost_writes: u64,
    /// Descriptors that were given by the tail but not owned by hardware (receive).
    pub not_owned: u64,
    /// Parameters written while the channel was not allowed to take them; ignored.
    pub refused_writes: u64,
    /// Errors that stopped the channel until its reset.
    pub halts: u64,
}

/// Counts of a controller since the model was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Reads of registers by [`Block`] (index `block as usize`).
    pub register_reads: [u64; Block::COUNT],
    /// Writes of registers by [`Block`].
    pub register_writes: [u64; Block::COUNT],
    /// Register accesses that are not aligned 32-bit ones; they had no effect and read all ones.
    pub bad_accesses: u64,
    /// Accesses to offsets without a register; read zero.
    pub reserved_accesses: u64,
    /// Interrupt messages by vector.
    pub messages: [u64; 16],
    /// Rises of INTx.
    pub intx_rises: u64,
    /// Transmit channels.
    pub tx: [ChannelCounters; 4],
    /// Receive channels.
    pub rx: [ChannelCounters; 4],
    /// Frames put on the wire, pause frames included.
    pub frames_out: u64,
    /// Frames that came from the wire.
    pub frames_in: u64,
    /// Frames that ended inside, by [`DropReason`] (index `reason as usize`).
    pub dropped: [u64; DropReason::COUNT],
    /// Large sends, and segments made of them.
    pub large_sends: u64,
    /// Segments that large sends were cut into.
    pub segments: u64,
    /// Large sends whose extension descriptor names another length than the frame has, in either of its two
    /// known meanings (whole frame, or IP packet).
    pub odd_payload_lengths: u64,
    /// Frames sent without the bit that asks for a frame check sequence.
    pub frames_without_fcs: u64,
    /// Checksum insertions that were asked for and not possible: the frame is of no known kind.
    pub checksums_not_inserted: u64,
    /// Pause frames sent because a FIFO filled up, or because software asked.
    pub pauses_sent: u64,
    /// Lite resets.
    pub lite_resets: u64,
    /// MDIO transactions.
    pub mdio: u64,
    /// Times at which the controller would signal PME.
    pub wake_ups: u64,
    /// Pulses (or toggles) of the two PTP timers' outputs.
    pub ptp_pulses: [u64; 2],
}

impl Counters {
    /// PCIe requests of all channels: reads and writes, without interrupt messages.
    pub fn pcie_requests(&self) -> u64 {
        let channels = self.tx.iter().chain(&self.rx);
        channels.map(|c| c.fetches + c.write_backs + c.head_writes + c.data_requests).sum()
    }

    /// Reads of all blocks.
    pub fn all_register_reads(&self) -> u64 {
        self.register_reads.iter().sum()
    }

    /// Writes of all blocks.
    pub fn all_register_writes(&self) -> u64 {
        self.register_writes.iter().sum()
    }

    /// Frames dropped for `reason`.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped.get(reason as usize).copied().unwrap_or_default()
    }
}

/// What software waits for, and what [`Handle::never_finish`] keeps from happening.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// `HW_CFG.LRST` clears.
    LiteReset,
    /// `PMT_CTL.ETH_PHY_RST` clears and `READY` is set.
    PhyReset,
    /// `DMAC_CMD.SWR` clears.
    DmacReset,
    /// A channel's reset bit in `DMAC_CMD` clears.
    ChannelReset,
    /// A channel leaves "stop pending".
    ChannelStop,
    /// A FIFO's reset bit clears.
    FifoReset,
    /// A FIFO's enable bit clears after a disable.
    FifoDisable,
    /// `MAC_RX.RXD` or `MAC_TX.TXD` is set.
    MacDisable,
    /// `MAC_CR.MRST` clears.
    MacReset,
    /// `MII_ACC.BUSY` clears.
    Mdio,
    /// `DP_SEL.DPRDY` is set.
    DataPort,
    /// The EEPROM's busy bit clears.
    Eeprom,
    /// The OTP's busy bit clears.
    Otp,
    /// A bit of `PTP_CMD_CTL` clears.
    Ptp,
    /// `SGMII_ACC.BZY` clears.
    Pcs,
    /// The PCS reaches the next state of its power sequence.
    PcsPower,
    /// The system lock is given (second family): another function has it.
    SystemLock,
}

impl Wait {
    /// All of them.
    pub const ALL: [Wait; 17] = [
        Wait::LiteReset,
        Wait::PhyReset,
        Wait::DmacReset,
        Wait::ChannelReset,
        Wait::ChannelStop,
        Wait::FifoReset,
        Wait::FifoDisable,
        Wait::MacDisable,
        Wait::MacReset,
        Wait::Mdio,
        Wait::DataPort,
        Wait::Eeprom,
        Wait::Otp,
        Wait::Ptp,
        Wait::Pcs,
        Wait::PcsPower,
        Wait::SystemLock,
    ];
}

/// An edge at a PTP input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    pub input: u8,
    pub rising: bool,
}

/// Faults that are set.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    pub stuck: u32,
    pub tx_hung: u8,
    pub rx_hung: u8,
    pub lost_tx_stamps: u32,
    pub missing_extension_every: u32,
    pub lock_owned_reads: u32,
    pub late_clears_ns: u64,
    pub edges: VecDeque<Edge>,
}

#[derive(Debug, Default)]
pub(super) struct Shared {
    pub counters: Counters,
    pub faults: Faults,
    pub asleep: bool,
}

/// Access to a model's counters and fault hooks, valid wherever the model itself lives.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(super) shared: Arc<Mutex<Shared>>,
}

impl Handle {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything that was counted.
    pub fn counters(&self) -> Counters {
        self.lock().counters.clone()
    }

    /// Sets all counters to 0, as before a measurement.
    pub fn reset_counters(&self) {
        self.lock().counters = Counters::default();
    }

    /// From now on what software waits for does not happen, if it begins after this call.
    pub fn never_finish(&self, wait: Wait) {
        self.lock().faults.stuck |= 1 << wait as u32;
    }

    /// Transmit channel `channel` does nothing more, whatever is asked of it.
    pub fn hang_tx(&self, channel: u8) {
        self.lock().faults.tx_hung |= 1_u8.checked_shl(channel.into()).unwrap_or(0);
    }

    /// Receive channel `channel` does nothing more.
    pub fn hang_rx(&self, channel: u8) {
        self.lock().faults.rx_hung |= 1_u8.checked_shl(channel.into()).unwrap_or(0);
    }

    /// The next `count` transmit time stamps that are asked for are lost without a sign.
    pub fn lose_tx_stamps(&self, count: u32) {
        self.lock().faults.lost_tx_stamps = count;
    }

    /// Each nth received frame announces an extension descriptor that does not follow: the next slot is
    /// written back with nothing in it. 0: none.
    pub fn missing_extension_every(&self, every: u32) {
        self.lock().faults.missing_extension_every = every;
    }

    /// Second family: another function owns the system lock for the next `attempts` attempts.
    pub fn lock_busy(&self, attempts: u32) {
        self.lock().faults.lock_owned_reads = attempts;
    }

    /// Ones written into an interrupt status arrive this many nanoseconds late, or with the next read. 0:
    /// at once. Writes keep their order, so those behind such a write are late too.
    pub fn delay_status_clears(&self, nanoseconds: u64) {
        self.lock().faults.late_clears_ns = nanoseconds;
    }

    /// An edge at PTP input `input` (0 to 7), seen when the model is called next. At most 64 wait.
    pub fn ptp_edge(&self, input: u8, rising: bool) {
        let edges = &mut self.lock().faults.edges;
        if edges.len() < 64 && input < 8 {
            edges.push_back(Edge { input, rising });
        }
    }

    /// The function goes to D3, or back to D0, and may signal PME meanwhile. The model does not see its
    /// power state by itself.
    pub fn set_asleep(&self, asleep: bool) {
        self.lock().asleep = asleep;
    }

    /// Removes all faults. What hangs goes on when it is next rung, or after a reset.
    pub fn clear_faults(&self) {
        self.lock().faults = Faults::default();
    }
}
