//! A transmit channel.
//!
//! Sources: Linux 7.3 `lan743x_main.c` (`lan743x_tx_open`, `lan743x_tx_frame_*`, `lan743x_tx_close`).
//!
//! The device tells how far it is by writing its head into memory, so a frame costs one register write,
//! that of the tail, and a burst of frames costs one together.

use core::ops::DerefMut;

use embedded_hal::delay::DelayNs;
use tombolo_hal::dma::DmaBackend;
use tombolo_hal::dmaengine::SgEntry;
use tombolo_hal::mmio::{Mmio, Window};
use tombolo_hal::net::{TxDone, TxFrame, TxQueue, TxSink};
use tombolo_hal::reg;
use tombolo_hal::register::{Readable, Writeable};

use crate::channel;
use crate::desc::{self, TxData, TxExtension};
use crate::regs::dmac::{DMAC_INT, Dmac, Ring, TAIL, TX_CFG_A, TX_CFG_B, TxConfig};
use crate::regs::interrupts::{Interrupts, tx_bit};
use crate::ring::RingMemory;
use crate::shared::{QueueIrq, SharedRef};
use crate::{Error, Nic};

/// What a transmit ring keeps of a descriptor. Never read back from memory that the device can write.
#[derive(Debug)]
pub struct TxSlot<T> {
    piece: Option<SgEntry>,
    token: Option<T>,
    timestamp: bool,
}

impl<T> Default for TxSlot<T> {
    fn default() -> Self {
        Self { piece: None, token: None, timestamp: false }
    }
}

/// Counts of a transmit ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxStats {
    /// Frames that the device took.
    pub frames: u64,
    /// Their bytes, before segmentation.
    pub bytes: u64,
    /// Frames that were cut into segments.
    pub large: u64,
    /// Writes of the tail.
    pub kicks: u64,
    /// Frames that found the ring full.
    pub full: u64,
    /// Heads from the device that cannot be.
    pub violations: u64,
}

/// A transmit channel that is open. `K` is the memory of its slots, one a descriptor.
pub struct TxRing<S: SharedRef, B: DmaBackend, K> {
    shared: S,
    registers: Window<S::Mmio, Ring>,
    ring: RingMemory<B>,
    slots: K,
    channel: u8,
    irq: QueueIrq,
    /// The oldest descriptor that the device has.
    head: usize,
    /// The next that will be filled.
    tail: usize,
    /// What the device was told of the tail.
    told: usize,
    /// Written with each tail.
    tail_bits: u32,
    stats: TxStats,
}

/// A channel that was closed, or could not be opened: its memory.
#[derive(Debug)]
pub struct Closed<B: DmaBackend, K> {
    /// The ring.
    pub ring: RingMemory<B>,
    /// The slots; those of a closed transmit ring are empty.
    pub slots: K,
}

impl<S: SharedRef, B: DmaBackend, K, T> TxRing<S, B, K>
where
    K: DerefMut<Target = [TxSlot<T>]>,
{
    /// Opens transmit channel `channel` and starts it. The slots are as many as the ring has descriptors,
    /// and empty (`Default`).
    ///
    /// # Errors
    /// [`Error`] with the memory. The channel is closed then.
    pub fn open(
        nic: &Nic<S>,
        channel: u8,
        ring: RingMemory<B>,
        slots: K,
        delay: &mut impl DelayNs,
    ) -> Result<Self, (Error, Closed<B, K>)> {
        let shared = nic.shared_ref().clone();
        if slots.len() != ring.length() {
            let length = ring.length() as u64;
            let error = Error::Range {
                what: "the number of slots",
                value: slots.len() as u64,
                least: length,
                most: length,
            };
            return Err((error, Closed { ring, slots }));
        }
        if let Err(error) = shared.shared().enter(false, channel) {
            return Err((error, Closed { ring, slots }));
        }
        match Self::start(&shared, nic, channel, &ring, delay) {
            Ok(registers) => {
                let irq = shared.shared().queue_irq(false, channel);
                Ok(Self {
                    shared,
                    registers,
                    ring,
                    slots,
                    channel,
                    irq,
                    head: 0,
                    tail: 0,
                    told: 0,
                    tail_bits: tail_bits(irq),
                    stats: TxStats::default(),
                })
            }
            Err(error) => {
                shared.shared().leave(false, channel);
                Err((error, Closed { ring, slots }))
            }
        }
    }

    fn start(
        shared: &S,
        nic: &Nic<S>,
        channel: u8,
        ring: &RingMemory<B>,
        delay: &mut impl DelayNs,
    ) -> Result<Window<S::Mmio, Ring>, Error> {
        let shared = shared.shared();
        nic.check_spacing(ring.spacing())?;
        let registers = shared.ring(false, channel)?;
        let irq = shared.queue_irq(false, channel);
        ring.clear();
        channel::reset_tx_fifo(shared, channel, delay)?;
        channel::reset(shared, false, channel, delay)?;
        configure(&shared.tx_config(channel)?, ring.length(), shared.identity().is_a0());
        channel::set_ring(&registers, ring);
        channel::check_head(&registers, channel)?;
        reg!(registers, Ring, tail).set(0);
        channel::set_masking(&registers, irq);
        if irq == QueueIrq::Manual {
            reg!(shared.interrupts, Interrupts, en_set).set(tx_bit(channel));
        }
        if irq != QueueIrq::Polled {
            reg!(shared.dmac, Dmac, int_en_set).set(1 << channel);
        }
        channel::start(shared, false, channel);
        Ok(registers)
    }

    /// Counts.
    pub fn stats(&self) -> TxStats {
        self.stats
    }

    /// Which channel it is.
    pub fn channel(&self) -> u8 {
        self.channel
    }

    /// Descriptors that the device has, or will have after the next kick.
    pub fn outstanding(&self) -> usize {
        self.tail.wrapping_sub(self.head) & self.ring.mask()
    }

    /// Checks a frame and counts its bytes.
    #[inline]
    fn check(&self, frame: &TxFrame<'_>) -> Result<u64, Error> {
        let refuse = |length: u64, why| Error::Frame { pieces: frame.pieces.len(), length, why };
        let mut length: u64 = 0;
        for piece in frame.pieces {
            if piece.len() == 0 || piece.len() > desc::TX_PIECE_MAX {
                return Err(refuse(piece.len(), "a piece has 1 to 65535 bytes"));
            }
            length += piece.len();
        }
        let (most, why) = match frame.offload.segment {
            None => (desc::TX_FRAME_MAX, "16383 bytes are the most"),
            Some(mss) if mss.get() < desc::TX_MSS_MIN => {
                return Err(refuse(length, "a segment has 8 bytes at least"));
            }
            Some(mss) if u64::from(mss.get()) > desc::TX_FRAME_MAX => {
                return Err(refuse(length, "a segment has 16383 bytes at most"));
            }
            Some(_) => (desc::TX_LSO_MAX, "1048575 bytes are the most"),
        };
        if length == 0 || length > most {
            return Err(refuse(length, if length == 0 { "it is empty" } else { why }));
        }
        if self.needed(frame) > self.ring.mask() {
            return Err(refuse(length, "it needs more descriptors than the ring can hold"));
        }
        Ok(length)
    }

    /// Fills the descriptors of a checked frame, from the tail on.
    #[inline]
    fn fill(&mut self, frame: &TxFrame<'_>, length: u64, token: T) {
        let mask = self.ring.mask();
        let offload = frame.offload;
        let size = offload.segment.map_or(length as u32, |mss| u32::from(mss.get()));
        let last = frame.pieces.len() - 1;
        let mut index = self.tail;
        let mut final_index = index;
        for (number, piece) in frame.pieces.iter().enumerate() {
            let mut data = TxData::new().with_length(piece.len() as u16).with_fcs(true);
            if number == 0 {
                data = data.with_fs(true).with_ext(offload.segment.is_some()).with_tse(offload.timestamp);
                let insert = offload.checksum || offload.segment.is_some();
                data = data.with_ice(insert).with_ipe(insert).with_tpe(insert);
            }
            if number == last {
                data = data.with_ls(true).with_ioc(true);
                final_index = index;
            }
            let address = piece.address().value();
            self.ring.write(index, 1, address as u32);
            self.ring.write(index, 2, (address >> 32) as u32);
            self.ring.write(index, 3, size << 16);
            self.ring.write(index, 0, data.into_bits());
            if let Some(slot) = self.slots.get_mut(index) {
                slot.piece = Some(*piece);
            }
            index = (index + 1) & mask;
            if number == 0 && offload.segment.is_some() {
                self.extension(index, length as u32);
                index = (index + 1) & mask;
            }
        }
        if let Some(slot) = self.slots.get_mut(final_index) {
            slot.token = Some(token);
            slot.timestamp = offload.timestamp;
        }
        self.tail = index;
    }

    /// The descriptor that makes a frame a large send.
    fn extension(&mut self, index: usize, length: u32) {
        let extension = TxExtension::new().with_dtype(1).with_lso(true).with_length(length);
        self.ring.write(index, 1, 0);
        self.ring.write(index, 2, 0);
        self.ring.write(index, 3, 0);
        self.ring.write(index, 0, extension.into_bits());
    }

    /// The device's head, if it can be: nobody gets past the tail that it was told.
    #[inline]
    fn device_head(&mut self) -> usize {
        let (head, mask) = (self.ring.head() as usize, self.ring.mask());
        let done = head.wrapping_sub(self.head) & mask;
        if head > mask || done > self.told.wrapping_sub(self.head) & mask {
            self.stats.violations += 1;
            return self.head;
        }
        head
    }

    #[inline]
    fn give_back(&mut self, until: usize, budget: usize, sink: &mut impl TxSink<T>) -> usize {
        let mut frames = 0;
        while self.head != until && frames < budget {
            if let Some(slot) = self.slots.get_mut(self.head) {
                if let Some(piece) = slot.piece.take() {
                    sink.piece(piece);
                }
                if let Some(token) = slot.token.take() {
                    sink.sent(TxDone { token, timestamp: slot.timestamp });
                    frames += 1;
                }
            }
            self.head = (self.head + 1) & self.ring.mask();
        }
        frames
    }

    /// Stops the channel. Call [`release`](Self::release) then.
    ///
    /// # Errors
    /// [`Error`] if it does not stop: its memory may still be read. Reset the controller before
    /// [`release`](Self::release), or drop the ring, which quarantines all of it. A device that is gone
    /// has stopped.
    pub fn stop(&mut self, delay: &mut impl DelayNs) -> Result<(), Error> {
        channel::unless_gone(self.stop_channel(delay))
    }

    fn stop_channel(&mut self, delay: &mut impl DelayNs) -> Result<(), Error> {
        let shared = self.shared.shared();
        channel::stop(shared, false, self.channel, delay)?;
        reg!(shared.dmac, Dmac, int_en_clr).write(DMAC_INT::TX_IOC.val(1 << self.channel));
        reg!(shared.interrupts, Interrupts, en_clr).set(tx_bit(self.channel));
        channel::disable_tx_fifo(shared, self.channel, delay)
    }

    /// Hands back every frame that is in the ring, sent or not, and gives up the memory.
    ///
    /// To call it is to say that the device no longer uses it: the channel was stopped, or the controller
    /// was reset, or is gone.
    pub fn release(mut self, sink: &mut impl TxSink<T>) -> Closed<B, K> {
        let tail = self.tail;
        self.give_back(tail, usize::MAX, sink);
        self.shared.shared().leave(false, self.channel);
        Closed { ring: self.ring, slots: self.slots }
    }
}

/// What a write of the tail enables besides.
fn tail_bits(irq: QueueIrq) -> u32 {
    let auto = TAIL::SET_DMAC_INT_EN::SET + TAIL::SET_TOP_INT_EN::SET + TAIL::SET_TOP_INT_VEC_EN::SET;
    if irq == QueueIrq::Auto { auto.value } else { 0 }
}

fn configure<M: Mmio>(registers: &Window<M, TxConfig>, length: usize, a0: bool) {
    let mut cfg_a = TX_CFG_A::TX_TMR_HPWB_SEL_IOC::SET + TX_CFG_A::TX_HP_WB_EN::SET;
    let mut cfg_b = TX_CFG_B::TX_RING_LEN.val(length as u32);
    if !a0 {
        cfg_a += TX_CFG_A::TX_HP_WB_ON_INT_TMR::SET
            + TX_CFG_A::TX_PF_THRES.val(16)
            + TX_CFG_A::TX_PF_PRI_THRES.val(4)
            + TX_CFG_A::TX_HP_WB_THRES.val(7);
        cfg_b += TX_CFG_B::TDMABL_512::SET;
    }
    reg!(*registers, TxConfig, cfg_a).write(cfg_a);
    reg!(*registers, TxConfig, cfg_b).write(cfg_b);
}

impl<S: SharedRef, B: DmaBackend, K, T> TxQueue for TxRing<S, B, K>
where
    K: DerefMut<Target = [TxSlot<T>]>,
{
    type Token = T;
    type Error = Error;

    #[inline]
    fn push(&mut self, frame: &TxFrame<'_>, token: T) -> Result<(), (T, Error)> {
        let length = match self.check(frame) {
            Ok(length) => length,
            Err(error) => return Err((token, error)),
        };
        let (needed, free) = (self.needed(frame), self.free());
        if needed > free {
            self.stats.full += 1;
            return Err((token, Error::Full { needed, free }));
        }
        self.fill(frame, length, token);
        self.stats.frames += 1;
        self.stats.bytes += length;
        self.stats.large += u64::from(frame.offload.segment.is_some());
        Ok(())
    }

    #[inline]
    fn kick(&mut self) {
        if self.told != self.tail {
            self.told = self.tail;
            self.stats.kicks += 1;
            // Orders the descriptors before it.
            reg!(self.registers, Ring, tail).set(self.tail as u32 | self.tail_bits);
        }
    }

    #[inline]
    fn reap(&mut self, budget: usize, sink: &mut impl TxSink<T>) -> usize {
        let until = self.device_head();
        self.give_back(until, budget, sink)
    }

    #[inline]
    fn rearm(&mut self) -> bool {
        let shared = self.shared.shared();
        match self.irq {
            QueueIrq::Polled => {}
            // What came after the interrupt has set its status again, which interrupts when it is enabled.
            QueueIrq::Auto if self.told == self.head => return false,
            QueueIrq::Auto => {
                reg!(shared.interrupts, Interrupts, en_set).relaxed().set(tx_bit(self.channel));
                return false;
            }
            QueueIrq::Manual => {
                reg!(shared.dmac, Dmac, int_sts).clear_bits(1 << self.channel);
                // A clear that arrives later would wipe out a frame that is done by then.
                let _ = reg!(shared.dmac, Dmac, int_sts).get();
                if self.device_head() != self.head {
                    return true;
                }
                let shared = self.shared.shared();
                reg!(shared.interrupts, Interrupts, en_set).relaxed().set(tx_bit(self.channel));
                return false;
            }
        }
        self.device_head() != self.head
    }

    #[inline]
    fn free(&self) -> usize {
        // One stays empty: a full ring would look like an empty one.
        self.ring.mask() - self.outstanding()
    }

    #[inline]
    fn needed(&self, frame: &TxFrame<'_>) -> usize {
        frame.pieces.len() + usize::from(frame.offload.segment.is_some())
    }
}
