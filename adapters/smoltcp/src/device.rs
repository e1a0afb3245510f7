//! The device that smoltcp sees.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use smoltcp::phy::{self, Checksum, ChecksumCapabilities, DeviceCapabilities, Medium};
use smoltcp::time::Instant;
use tombolo_hal::dma::{DmaBackend, InFlight, Streaming};
use tombolo_hal::net::{
    HEADER, MIN_FRAME, OwnedRx, OwnedTx, ReceivedFrame, RxChecksum, RxQueue, TxOffload, TxQueue, VLAN_TAG,
};

use crate::Pool;

/// Parts of a received frame: enough for 9 KiB in buffers of 2 KiB.
const PARTS: usize = 8;

type Buffer<B> = Streaming<B, Vec<u8>, InFlight>;
type Frame = ReceivedFrame<Vec<u8>, PARTS>;

/// What the device does, and how much is done at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceConfig {
    /// The longest IP packet, in bytes. smoltcp's own number, which counts the Ethernet header, is made
    /// from it.
    pub mtu: usize,
    /// The device inserts the checksums of IPv4, TCP and UDP.
    pub tx_checksums: bool,
    /// Frames of which the device says that a checksum is wrong are dropped. smoltcp verifies the others
    /// all the same, since a device tells nothing about some.
    pub rx_checksums: bool,
    /// Write the doorbell once in [`Device::poll`] and [`Device::flush`] and not after each frame.
    pub batched: bool,
    /// Frames taken from, and given back by, the device in one [`Device::poll`].
    pub budget: usize,
}

impl Default for DeviceConfig {
    fn default() -> Self {
        Self { mtu: 1500, tx_checksums: false, rx_checksums: false, batched: true, budget: 64 }
    }
}

/// Counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceStats {
    /// Frames given to the stack.
    pub received: u64,
    /// Frames sent.
    pub sent: u64,
    /// Frames dropped because the device found a checksum wrong.
    pub bad_checksums: u64,
    /// Frames that the device did not take, or that there was no buffer for.
    pub not_sent: u64,
}

/// A network device for smoltcp, over the queues of any driver.
///
/// [`poll`](Self::poll) is called before the interface's, [`flush`](Self::flush) after it.
#[derive(Debug)]
pub struct Device<T, R, B> {
    tx: OwnedTx<T, B>,
    rx: OwnedRx<R, B, Vec<u8>, PARTS>,
    tx_pool: Pool,
    rx_pool: Pool,
    waiting: VecDeque<Frame>,
    /// Where a frame in several parts is put together.
    whole: Vec<u8>,
    config: DeviceConfig,
    stats: DeviceStats,
    carrier: bool,
}

impl<T, R, B> Device<T, R, B>
where
    B: DmaBackend,
    T: TxQueue<Token = Buffer<B>>,
    T::Error: 'static,
    R: RxQueue<Token = Buffer<B>>,
{
    /// Over one queue of each kind. The pools hold the buffers that are not in the rings: those for
    /// receiving are of the size with which the receive ring was filled, those for sending hold a whole
    /// frame.
    pub fn new(
        tx: OwnedTx<T, B>,
        rx: OwnedRx<R, B, Vec<u8>, PARTS>,
        tx_pool: Pool,
        rx_pool: Pool,
        config: DeviceConfig,
    ) -> Self {
        let waiting = VecDeque::with_capacity(rx_pool.available());
        let whole = Vec::with_capacity(config.mtu + HEADER + VLAN_TAG);
        let stats = DeviceStats::default();
        Self { tx, rx, tx_pool, rx_pool, waiting, whole, config, stats, carrier: true }
    }

    /// Takes back what was sent, and takes what has come. True if there may be more at once.
    pub fn poll(&mut self) -> bool {
        let Self { tx, rx, tx_pool, rx_pool, waiting, config, stats, .. } = self;
        tx.kick();
        tx.reap(config.budget, |buffer, _| tx_pool.give(buffer));
        let room = config.budget.min(waiting.capacity().saturating_sub(waiting.len()));
        let progress = rx.poll(
            room,
            || rx_pool.take(),
            |frame| {
                if config.rx_checksums && frame.info.checksum == RxChecksum::Bad {
                    stats.bad_checksums += 1;
                }
                waiting.push_back(frame);
            },
        );
        self.drop_bad();
        progress.more && room > 0
    }

    /// Drops the frames at the front whose checksums the device found wrong.
    fn drop_bad(&mut self) {
        while self.config.rx_checksums
            && self.waiting.front().is_some_and(|frame| frame.info.checksum == RxChecksum::Bad)
        {
            if let Some(frame) = self.waiting.pop_front() {
                frame.into_buffers().for_each(|buffer| self.rx_pool.give(buffer));
            }
        }
    }

    /// Lets the device see what was sent, and lets it interrupt again. True if there may be something to
    /// do already.
    pub fn flush(&mut self) -> bool {
        self.tx.kick();
        let tx = self.tx.queue_mut().rearm();
        self.rx.rearm() || tx
    }

    /// The link came or went: without it nothing is sent.
    pub fn set_carrier(&mut self, on: bool) {
        self.carrier = on;
    }

    /// Counts.
    pub fn stats(&self) -> DeviceStats {
        self.stats
    }

    /// The transmit queue's buffers that are free.
    pub fn free_buffers(&self) -> usize {
        self.tx_pool.available()
    }

    /// The queues, to be closed.
    pub fn into_queues(self) -> (T, R) {
        (self.tx.into_queue(), self.rx.into_queue())
    }

    fn can_send(&self) -> bool {
        self.carrier && self.tx_pool.available() > 0 && self.tx.queue().free() > TX_ROOM
    }
}

/// Descriptors that a frame of one buffer needs at most.
const TX_ROOM: usize = 4;

/// A received frame on its way to smoltcp.
#[derive(Debug)]
pub struct RxToken<'a> {
    frame: Option<Frame>,
    pool: &'a mut Pool,
    whole: &'a mut Vec<u8>,
}

impl phy::RxToken for RxToken<'_> {
    fn consume<O, F: FnOnce(&[u8]) -> O>(mut self, f: F) -> O {
        let Some(frame) = self.frame.take() else { return f(&[]) };
        let result = match frame.contiguous() {
            Some(bytes) => f(bytes),
            None => {
                self.whole.clear();
                frame.pieces().for_each(|piece| self.whole.extend_from_slice(piece));
                f(self.whole)
            }
        };
        frame.into_buffers().for_each(|buffer| self.pool.give(buffer));
        result
    }
}

impl Drop for RxToken<'_> {
    fn drop(&mut self) {
        if let Some(frame) = self.frame.take() {
            frame.into_buffers().for_each(|buffer| self.pool.give(buffer));
        }
    }
}

/// Room for a frame to be sent.
#[derive(Debug)]
pub struct TxToken<'a, T, B> {
    tx: &'a mut OwnedTx<T, B>,
    pool: &'a mut Pool,
    stats: &'a mut DeviceStats,
    config: &'a DeviceConfig,
}

impl<B, T> phy::TxToken for TxToken<'_, T, B>
where
    B: DmaBackend,
    T: TxQueue<Token = Buffer<B>>,
    T::Error: 'static,
{
    fn consume<O, F: FnOnce(&mut [u8]) -> O>(self, len: usize, f: F) -> O {
        let Some(mut buffer) = self.pool.take() else {
            // Promised when the token was made; a stack that keeps it finds the device all the same.
            self.stats.not_sent += 1;
            return f(&mut alloc::vec![0; len]);
        };
        buffer.resize(len, 0);
        let result = f(&mut buffer);
        buffer.resize(len.max(MIN_FRAME), 0);
        let offload = TxOffload { checksum: self.config.tx_checksums, ..TxOffload::default() };
        match self.tx.push(buffer, offload) {
            Ok(()) => self.stats.sent += 1,
            Err(error) => {
                self.stats.not_sent += 1;
                self.pool.give(error.into_memory());
            }
        }
        if !self.config.batched {
            self.tx.kick();
        }
        result
    }
}

impl<T, R, B> phy::Device for Device<T, R, B>
where
    B: DmaBackend,
    T: TxQueue<Token = Buffer<B>>,
    T::Error: 'static,
    R: RxQueue<Token = Buffer<B>>,
{
    type RxToken<'a>
        = RxToken<'a>
    where
        Self: 'a;
    type TxToken<'a>
        = TxToken<'a, T, B>
    where
        Self: 'a;

    fn receive(&mut self, _now: Instant) -> Option<(RxToken<'_>, TxToken<'_, T, B>)> {
        // smoltcp answers with the token that comes with the frame: both or none.
        if !self.can_send() {
            return None;
        }
        self.drop_bad();
        let frame = self.waiting.pop_front()?;
        self.stats.received += 1;
        let Self { tx, tx_pool, rx_pool, whole, stats, config, .. } = self;
        let rx = RxToken { frame: Some(frame), pool: rx_pool, whole };
        Some((rx, TxToken { tx, pool: tx_pool, stats, config }))
    }

    fn transmit(&mut self, _now: Instant) -> Option<TxToken<'_, T, B>> {
        if !self.can_send() {
            return None;
        }
        let Self { tx, tx_pool, stats, config, .. } = self;
        Some(TxToken { tx, pool: tx_pool, stats, config })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut all = DeviceCapabilities::default();
        all.medium = Medium::Ethernet;
        // Here it counts the Ethernet header.
        all.max_transmission_unit = self.config.mtu + HEADER;
        all.max_burst_size = None;
        all.checksum = checksums(self.config.tx_checksums);
        all
    }
}

/// What is left for smoltcp: verifying always, computing where the device does not. ICMP is never the
/// device's.
fn checksums(tx_by_device: bool) -> ChecksumCapabilities {
    let mut all = ChecksumCapabilities::default();
    let left = if tx_by_device { Checksum::Rx } else { Checksum::Both };
    (all.ipv4, all.udp, all.tcp) = (left, left, left);
    all
}
