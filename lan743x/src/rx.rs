//! A receive channel.
//!
//! Sources: Linux 7.3 `lan743x_main.c` (`lan743x_rx_open`, `lan743x_rx_process_buffer`,
//! `lan743x_rx_close`).
//!
//! The device writes descriptors back when it has filled their buffers, then its head. A frame may lie in
//! several buffers; how long it is, stands in the last one only, and the device sometimes uses one buffer
//! more than the frame needs. Whatever happens to a frame, its descriptors go back to the device.

use core::ops::DerefMut;

use embedded_hal::delay::DelayNs;
use tombolo_hal::dma::DmaBackend;
use tombolo_hal::mmio::{Mmio, Window};
use tombolo_hal::net::{
    FCS, Part, RxBuffer, RxChecksum, RxDecision, RxFrameInfo, RxProgress, RxQueue, RxSink, Timestamp,
};
use tombolo_hal::reg;
use tombolo_hal::register::{FieldValue, Readable, Writeable};

use crate::channel;
use crate::desc::{self, RxControl, RxStatus};
use crate::regs::dmac::{DMAC_INT, Dmac, RX_CFG_A, RX_CFG_B, Ring, RxConfig, TAIL};
use crate::regs::interrupts::{Interrupts, rx_bit};
use crate::regs::system::{FCT_FLOW, System};
use crate::ring::RingMemory;
use crate::shared::{QueueIrq, SharedRef};
use crate::tx::Closed;
use crate::{Error, Nic};

/// Refilled descriptors that wait for the next write of the tail.
const BATCH: usize = 8;

/// Counts of a receive ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxStats {
    /// Frames handed over.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames that whoever takes them had no memory for.
    pub no_memory: u64,
    /// Writes of the tail.
    pub kicks: u64,
    /// Frames that were announced with an extension descriptor which did not come.
    pub missing_extensions: u64,
    /// Descriptors and heads from the device that cannot be.
    pub violations: u64,
}

/// Where the frame is that is being received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Assembly {
    /// Between frames.
    None,
    /// In a frame of which so many bytes of buffers are filled.
    Inside(usize),
    /// In a frame that is dropped.
    Dropping,
}

/// A receive channel that is open. `K` is the memory of its buffers, one a descriptor.
pub struct RxRing<S: SharedRef, B: DmaBackend, K> {
    shared: S,
    registers: Window<S::Mmio, Ring>,
    ring: RingMemory<B>,
    buffers: K,
    channel: u8,
    irq: QueueIrq,
    /// Bytes before a frame in its first buffer.
    pad: usize,
    /// The next descriptor that the device will give back.
    head: usize,
    /// What the device was told of the tail.
    told: usize,
    /// Written with each tail when interrupts are enabled again.
    rearm_bits: u32,
    assembly: Assembly,
    stats: RxStats,
}

impl<S: SharedRef, B: DmaBackend, K, T> RxRing<S, B, K>
where
    K: DerefMut<Target = [RxBuffer<T>]>,
{
    /// Opens receive channel `channel` and starts it. There are as many buffers as the ring has
    /// descriptors. `pad` is how many bytes the device leaves free before a frame: 0, or 2, which aligns
    /// the IP header to 4.
    ///
    /// # Errors
    /// [`Error`] with the memory. The channel is closed then.
    pub fn open(
        nic: &Nic<S>,
        channel: u8,
        ring: RingMemory<B>,
        buffers: K,
        pad: u8,
        delay: &mut impl DelayNs,
    ) -> Result<Self, (Error, Closed<B, K>)> {
        let shared = nic.shared_ref().clone();
        let closed = |error, ring, slots| Err((error, Closed { ring, slots }));
        if let Err(error) = check(&ring, &buffers, pad) {
            return closed(error, ring, buffers);
        }
        if let Err(error) = shared.shared().enter(true, channel) {
            return closed(error, ring, buffers);
        }
        let irq = shared.shared().queue_irq(true, channel);
        match Self::start(&shared, nic, channel, &ring, &buffers, pad, delay) {
            Ok(registers) => Ok(Self {
                told: ring.mask(),
                shared,
                registers,
                ring,
                buffers,
                channel,
                irq,
                pad: pad.into(),
                head: 0,
                rearm_bits: rearm_bits(irq),
                assembly: Assembly::None,
                stats: RxStats::default(),
            }),
            Err(error) => {
                shared.shared().leave(true, channel);
                closed(error, ring, buffers)
            }
        }
    }

    fn start(
        shared: &S,
        nic: &Nic<S>,
        channel: u8,
        ring: &RingMemory<B>,
        buffers: &K,
        pad: u8,
        delay: &mut impl DelayNs,
    ) -> Result<Window<S::Mmio, Ring>, Error> {
        let shared = shared.shared();
        nic.check_spacing(ring.spacing())?;
        let registers = shared.ring(true, channel)?;
        let irq = shared.queue_irq(true, channel);
        ring.clear();
        for (index, buffer) in buffers.iter().enumerate() {
            give(ring, index, buffer);
        }
        channel::reset(shared, true, channel, delay)?;
        let (a0, stamps) = (shared.identity().is_a0(), nic.rx_time_stamps());
        configure(&shared.rx_config(channel)?, ring.length(), a0, pad, stamps);
        channel::set_ring(&registers, ring);
        channel::set_masking(&registers, irq);
        reg!(registers, Ring, tail).set(ring.mask() as u32);
        channel::check_head(&registers, channel)?;
        // Linux does this after the start. Here nothing fails once the device may write: the memory could
        // not be given back then.
        channel::reset_rx_fifo(shared, channel, delay)?;
        if irq != QueueIrq::Polled {
            reg!(shared.interrupts, Interrupts, en_set).set(rx_bit(channel));
            reg!(shared.dmac, Dmac, int_sts).clear(DMAC_INT::RXFRM.val(1 << channel));
            reg!(shared.dmac, Dmac, int_en_set).write(DMAC_INT::RXFRM.val(1 << channel));
        }
        channel::start(shared, true, channel);
        if let Some(flow) = reg!(shared.system, System, fct_flow[usize::from(channel)]) {
            // Linux's thresholds: of its 64 KiB a FIFO asks for a pause at 21 KiB and ends it at 5 KiB.
            flow.write(
                FCT_FLOW::REQ_EN::SET + FCT_FLOW::ON_THRESHOLD.val(0x2a) + FCT_FLOW::OFF_THRESHOLD.val(0xa),
            );
        }
        channel::enable_rx_fifo(shared, channel);
        Ok(registers)
    }

    /// Counts.
    pub fn stats(&self) -> RxStats {
        self.stats
    }

    /// Which channel it is.
    pub fn channel(&self) -> u8 {
        self.channel
    }

    /// The device's head, if it can be: it never gets past the tail that it was told.
    #[inline]
    fn device_head(&mut self) -> usize {
        let (head, mask) = (self.ring.head() as usize, self.ring.mask());
        if head > mask || head.wrapping_sub(self.head) & mask > self.told.wrapping_sub(self.head) & mask {
            self.stats.violations += 1;
            return self.head;
        }
        head
    }

    /// Takes the descriptor at the head, which the device gave back. False if the frame's extension has
    /// not come yet.
    #[inline]
    fn take(&mut self, until: usize, sink: &mut impl RxSink<T>) -> Step {
        let index = self.head;
        let control = RxControl::from_bits(self.ring.read(index, 0));
        if control.own() {
            return Step::Wait;
        }
        self.ring.order_reads();
        let last = control.ls();
        let (timestamp, extension) = if last && control.ext() {
            match self.extension(index, until) {
                Extension::Later => return Step::Wait,
                Extension::Missing => (None, false),
                Extension::Here(at) => (Some(at), true),
            }
        } else {
            (None, false)
        };
        let frame = self.hand_over(index, control, timestamp, sink);
        self.advance();
        if extension {
            self.advance();
        }
        if frame { Step::Frame } else { Step::Part }
    }

    /// Gives the descriptor at the head back to the device.
    #[inline]
    fn advance(&mut self) {
        if let Some(buffer) = self.buffers.get(self.head) {
            give(&self.ring, self.head, buffer);
        }
        self.head = (self.head + 1) & self.ring.mask();
        if self.tail().wrapping_sub(self.told) & self.ring.mask() >= BATCH {
            self.tell(0);
        }
    }

    /// The descriptor after a frame that announced an extension.
    fn extension(&mut self, index: usize, until: usize) -> Extension {
        let next = (index + 1) & self.ring.mask();
        if next == until {
            return Extension::Later;
        }
        let control = RxControl::from_bits(self.ring.read(next, 0));
        if control.own() {
            return Extension::Later;
        }
        if !control.ext() {
            // It belongs to the next frame, or to nobody: it is looked at in its turn.
            self.stats.missing_extensions += 1;
            return Extension::Missing;
        }
        self.ring.order_reads();
        let nanoseconds = self.ring.read(next, 2) & desc::RX_TS_NS_MASK;
        if nanoseconds >= 1_000_000_000 {
            self.stats.violations += 1;
        }
        let seconds = self.ring.read(next, 1).into();
        Extension::Here(Timestamp { seconds, nanoseconds: nanoseconds.min(999_999_999) })
    }

    /// Hands a filled buffer over. True if it ended a frame that was taken.
    #[inline]
    fn hand_over(
        &mut self,
        index: usize,
        control: RxControl,
        timestamp: Option<Timestamp>,
        sink: &mut impl RxSink<T>,
    ) -> bool {
        let Some(capacity) = self.buffers.get(index).map(|buffer| usable(buffer) as usize) else {
            return false;
        };
        let Some((offset, before)) = self.place(control, capacity, sink) else { return false };
        let filled = before + (capacity - offset);
        let mut part = Part { offset, length: capacity - offset, first: control.fs(), last: None, cut: 0 };
        if control.ls() {
            let status = RxStatus::from_bits(self.ring.read(index, 1));
            let Some(info) = frame_info(control, status, timestamp, filled) else {
                self.stats.violations += 1;
                self.drop_frame(control, sink);
                return false;
            };
            let excess = filled - info.length;
            let here = excess.min(part.length);
            part.length -= here;
            part.cut = excess - here;
            part.last = Some(info);
        }
        let Some(buffer) = self.buffers.get_mut(index) else { return false };
        if sink.part(buffer, &part) != RxDecision::Taken {
            self.stats.no_memory += 1;
            self.drop_frame(control, sink);
            return false;
        }
        let Some(info) = part.last else {
            self.assembly = Assembly::Inside(filled);
            return false;
        };
        self.assembly = Assembly::None;
        self.stats.frames += 1;
        self.stats.bytes += info.length as u64;
        true
    }

    /// Where in its buffer the part of a frame begins, and how many bytes the buffers before it hold. `None`
    /// if it is part of no frame that is being taken.
    #[inline]
    fn place(
        &mut self,
        control: RxControl,
        capacity: usize,
        sink: &mut impl RxSink<T>,
    ) -> Option<(usize, usize)> {
        match (control.fs(), self.assembly) {
            (true, state) => {
                if matches!(state, Assembly::Inside(_)) {
                    self.stats.violations += 1;
                    sink.abandon();
                }
                Some((self.pad.min(capacity), 0))
            }
            (false, Assembly::Inside(before)) => Some((0, before)),
            (false, state) => {
                self.stats.violations += u64::from(state == Assembly::None);
                self.assembly = if control.ls() { Assembly::None } else { Assembly::Dropping };
                None
            }
        }
    }

    /// Drops the frame of a descriptor, with the parts that were handed over.
    fn drop_frame(&mut self, control: RxControl, sink: &mut impl RxSink<T>) {
        if !control.fs() {
            sink.abandon();
        }
        self.assembly = if control.ls() { Assembly::None } else { Assembly::Dropping };
    }

    /// Stops the channel. Call [`release`](Self::release) then.
    ///
    /// # Errors
    /// [`Error`] if it does not stop: its buffers may still be written. Reset the controller before
    /// [`release`](Self::release), or drop the ring, which quarantines all of it. A device that is gone
    /// has stopped.
    pub fn stop(&mut self, delay: &mut impl DelayNs) -> Result<(), Error> {
        channel::unless_gone(self.stop_channel(delay))
    }

    fn stop_channel(&mut self, delay: &mut impl DelayNs) -> Result<(), Error> {
        let shared = self.shared.shared();
        channel::disable_rx_fifo(shared, self.channel, delay)?;
        channel::stop(shared, true, self.channel, delay)?;
        reg!(shared.dmac, Dmac, int_en_clr).write(DMAC_INT::RXFRM.val(1 << self.channel));
        reg!(shared.interrupts, Interrupts, en_clr).set(rx_bit(self.channel));
        Ok(())
    }

    /// Gives up the memory.
    ///
    /// To call it is to say that the device no longer uses it: the channel was stopped, or the controller
    /// was reset, or is gone.
    pub fn release(self) -> Closed<B, K> {
        self.shared.shared().leave(true, self.channel);
        Closed { ring: self.ring, slots: self.buffers }
    }
}

/// What [`RxRing::take`] did.
enum Step {
    /// Nothing: the device still has the descriptor.
    Wait,
    /// It took a part of a frame, or dropped something.
    Part,
    /// It took the end of a frame.
    Frame,
}

enum Extension {
    Later,
    Missing,
    Here(Timestamp),
}

/// Bytes of a buffer that the device is told of.
#[inline]
fn usable<T>(buffer: &RxBuffer<T>) -> u64 {
    buffer.memory.len().min(desc::RX_BUFFER_MAX)
}

/// Gives a buffer to the device.
#[inline]
fn give<B: DmaBackend, T>(ring: &RingMemory<B>, index: usize, buffer: &RxBuffer<T>) {
    let address = buffer.memory.address().value();
    ring.write(index, 1, address as u32);
    ring.write(index, 2, (address >> 32) as u32);
    ring.write(index, 3, 0);
    // The device may look as soon as it owns it.
    ring.order_writes();
    let control = RxControl::new().with_own(true).with_buffer_length(usable(buffer) as u16);
    ring.write(index, 0, control.into_bits());
}

/// What a last descriptor says of a frame whose buffers hold `filled` bytes. `None` if that cannot be.
#[inline]
fn frame_info(
    control: RxControl,
    status: RxStatus,
    timestamp: Option<Timestamp>,
    filled: usize,
) -> Option<RxFrameInfo> {
    let length = usize::from(control.frame_length()).checked_sub(FCS)?;
    if length == 0 || length > filled {
        return None;
    }
    let checksum = if status.ice() || status.tce() {
        RxChecksum::Bad
    } else if status.icsm() || !matches!(status.protocol(), 1 | 2) {
        RxChecksum::Unknown
    } else {
        RxChecksum::Good
    };
    Some(RxFrameInfo { length, checksum, hash: None, timestamp })
}

/// What the write of the tail that ends a poll enables.
fn rearm_bits(irq: QueueIrq) -> u32 {
    let auto = TAIL::SET_TOP_INT_EN::SET + TAIL::SET_TOP_INT_VEC_EN::SET;
    if irq == QueueIrq::Auto { auto.value } else { 0 }
}

fn check<B: DmaBackend, T>(ring: &RingMemory<B>, buffers: &[RxBuffer<T>], pad: u8) -> Result<(), Error> {
    let length = ring.length() as u64;
    let range = |what, value, least, most| Err(Error::Range { what, value, least, most });
    if buffers.len() as u64 != length {
        return range("the number of buffers", buffers.len() as u64, length, length);
    }
    if !matches!(pad, 0 | 2) {
        return range("the padding", pad.into(), 0, 2);
    }
    // A buffer of which the pad leaves nothing would take no frame for ever.
    match buffers.iter().map(|buffer| buffer.memory.len()).min() {
        Some(least) if least < 64 => range("the size of a buffer", least, 64, desc::RX_BUFFER_MAX),
        _ => Ok(()),
    }
}

fn configure<M: Mmio>(
    registers: &Window<M, RxConfig>,
    length: usize,
    a0: bool,
    pad: u8,
    stamps: FieldValue<u32, RX_CFG_B::Register>,
) {
    let mut cfg_a = RX_CFG_A::RX_HP_WB_EN::SET;
    let mut cfg_b = RX_CFG_B::RX_PAD.val(pad.into()) + RX_CFG_B::RX_RING_LEN.val(length as u32) + stamps;
    if !a0 {
        cfg_a += RX_CFG_A::RX_WB_ON_INT_TMR::SET
            + RX_CFG_A::RX_WB_THRES.val(7)
            + RX_CFG_A::RX_PF_THRES.val(16)
            + RX_CFG_A::RX_PF_PRI_THRES.val(4);
        cfg_b += RX_CFG_B::RDMABL_512::SET;
    }
    reg!(*registers, RxConfig, cfg_a).write(cfg_a);
    reg!(*registers, RxConfig, cfg_b).write(cfg_b);
}

impl<S: SharedRef, B: DmaBackend, K, T> RxQueue for RxRing<S, B, K>
where
    K: DerefMut<Target = [RxBuffer<T>]>,
{
    type Token = T;

    #[inline]
    fn poll(&mut self, budget: usize, sink: &mut impl RxSink<T>) -> RxProgress {
        let until = self.device_head();
        let mut progress = RxProgress::default();
        while self.head != until {
            if progress.frames >= budget {
                progress.more = true;
                break;
            }
            match self.take(until, sink) {
                Step::Wait => break,
                Step::Part => {}
                Step::Frame => progress.frames += 1,
            }
        }
        progress
    }

    #[inline]
    fn rearm(&mut self) -> bool {
        match self.irq {
            // One write: it gives the buffers back and enables. What came after the interrupt has set its
            // status again, which interrupts now.
            QueueIrq::Auto => {
                self.tell(self.rearm_bits);
                return false;
            }
            QueueIrq::Polled => self.flush(),
            QueueIrq::Manual => {
                self.flush();
                let shared = self.shared.shared();
                reg!(shared.dmac, Dmac, int_sts).clear(DMAC_INT::RXFRM.val(1 << self.channel));
                // A clear that arrives later would wipe out a frame that has come by then.
                let _ = reg!(shared.dmac, Dmac, int_sts).get();
                if self.device_head() != self.head {
                    return true;
                }
                let shared = self.shared.shared();
                reg!(shared.interrupts, Interrupts, en_set).relaxed().set(rx_bit(self.channel));
                return false;
            }
        }
        self.device_head() != self.head
    }
}

impl<S: SharedRef, B: DmaBackend, K> RxRing<S, B, K> {
    /// The last descriptor that was given back: what the tail should say.
    fn tail(&self) -> usize {
        self.head.wrapping_sub(1) & self.ring.mask()
    }

    /// Tells the device of it, and enables what `bits` say.
    #[inline]
    fn tell(&mut self, bits: u32) {
        self.told = self.tail();
        self.stats.kicks += 1;
        // Orders the descriptors before it.
        reg!(self.registers, Ring, tail).set(self.told as u32 | bits);
    }

    /// Tells the device of refilled descriptors that it has not been told of, unless it has plenty: at
    /// most seven wait, of which a device that still has half of its ring has no need.
    #[inline]
    fn flush(&mut self) {
        let has = self.told.wrapping_sub(self.head) & self.ring.mask();
        if self.tail() != self.told && has <= self.ring.mask() / 2 {
            self.tell(0);
        }
    }
}
