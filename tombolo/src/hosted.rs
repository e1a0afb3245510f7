//! A device that was opened, as a place where the driver runs: real time, real registers.

fn read_words<M: Mmio>(memory: &M, start: usize, data: &mut [u8]) {
    let mut at = start;
    while let Some(rest) = data.get_mut(at - start..).filter(|rest| !rest.is_empty()) {
        let (word, lane) = (at & !3, at & 3);
        let bytes = memory.read32_relaxed(word).to_le_bytes();
        let count = (4 - lane).min(rest.len());
        rest[..count].copy_from_slice(&bytes[lane..lane + count]);
        at += count;
    }
}

fn write_words<M: Mmio>(memory: &M, start: usize, data: &[u8]) {
    let mut at = start;
    while let Some(rest) = data.get(at - start..).filter(|rest| !rest.is_empty()) {
        let (word, lane) = (at & !3, at & 3);
        let count = (4 - lane).min(rest.len());
        // At an edge the bytes beside ours stay what they are.
        let mut bytes = if count == 4 { [0; 4] } else { memory.read32(word).to_le_bytes() };
        bytes[lane..lane + count].copy_from_slice(&rest[..count]);
        memory.write32_relaxed(word, u32::from_le_bytes(bytes));
        at += count;
    }
}

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dw_edma::RemoteEngine;
use embedded_hal::delay::DelayNs;
use tombolo_hal::barrier::Barrier;
use tombolo_hal::dma::DmaBackend;
use tombolo_hal::irq::{IrqMode, IrqSource};
use tombolo_hal::mmio::{Caching, Mmio};
use tombolo_hal::pci::{self, ConfigSpace};

use crate::fault::Armed;
use crate::platform::{Counts, Handler, News, Platform};
use crate::rig::{MEMORY_BAR, RigError};

/// What the engine is taken to move per microsecond at least, for limits: far below what links do.
const SLOWEST_BYTES_PER_US: u64 = 50;
/// Interrupts pass a kernel, a thread and, in a guest, a hypervisor: on a loaded machine one that is
/// tens of milliseconds late is not lost.
const LOOK_NS: u64 = 250_000_000;
/// A burst of the engine, for limits.
const BURST_BYTES: u64 = 128;
/// How often a device is asked whether it is still there.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);
/// Waits below this are spent awake.
const SHORT_WAIT: Duration = Duration::from_micros(100);

/// What opens a device: VFIO, or a socket of vfio-user.
pub trait Opened {
    /// Registers and memory behind a BAR.
    type Mmio: Mmio + Clone + Debug + 'static;
    /// Memory that the device reaches.
    type Dma: DmaBackend + Debug;
    /// The vectors.
    type Irq: IrqSource;
    /// Its configuration space.
    type Config: ConfigSpace;

    /// What the user called it.
    fn name(&self) -> &str;
    /// Its configuration space.
    fn config(&self) -> Self::Config;
    /// A BAR, if the function has it.
    fn bar(&self, index: u8) -> Option<Self::Mmio>;
    /// Reads memory behind a BAR.
    fn read_bytes(&self, memory: &Self::Mmio, offset: usize, data: &mut [u8]) {
        read_words(memory, offset, data);
    }
    /// Writes memory behind a BAR.
    fn write_bytes(&self, memory: &Self::Mmio, offset: usize, data: &[u8]) {
        write_words(memory, offset, data);
    }
    /// Vectors of `mode` that the function has.
    fn vectors(&self, mode: IrqMode) -> u16;
    /// DMA memory.
    fn dma(&self) -> &Self::Dma;
    /// Mappings that are out, and their bytes.
    fn mapped(&self) -> (usize, u64);
    /// The vectors.
    fn irq(&self) -> &Self::Irq;
    /// Interrupts that arrived so far.
    fn interrupts(&self) -> u64;

    /// Takes `want` vectors of `mode`, or as many as there are.
    ///
    /// # Errors
    /// [`RigError`] if there are none.
    fn take_vectors(&mut self, mode: IrqMode, want: u16) -> Result<(), RigError>;

    /// Lets `handler` hear of all vectors.
    ///
    /// # Errors
    /// [`RigError`] if it cannot.
    fn connect(&self, handler: Handler) -> Result<(), RigError>;

    /// Looks whether the device is still there and whether messages have changed. From then on its
    /// BARs read all ones if it is not.
    fn check(&self);

    /// Resets the function and puts configuration and vectors back.
    ///
    /// # Errors
    /// [`RigError`] if it does not come back.
    fn reset(&mut self) -> Result<(), RigError>;
}

/// An opened device on which the driver runs.
pub struct Hosted<D: Opened> {
    device: D,
    engine: RemoteEngine,
    bars: [u64; pci::BAR_COUNT],
    memory: Option<D::Mmio>,
    counters: Arc<Accesses>,
    delay: RealDelay,
    started: Instant,
    checked: Cell<Instant>,
}

impl<D: Opened> Hosted<D> {
    /// Finds the engine of a device.
    ///
    /// # Errors
    /// [`RigError`] if there is none.
    pub fn new(device: D) -> Result<Self, RigError> {
        let config = device.config();
        let engine = RemoteEngine::find(&config)?;
        let bars = pci::bars(&config).map_err(dw_edma::Error::from)?;
        let now = Instant::now();
        Ok(Self {
            engine,
            bars: bars.map(|bar| bar.map_or(0, |bar| bar.address)),
            memory: device.bar(MEMORY_BAR),
            counters: Arc::default(),
            delay: RealDelay,
            started: now,
            checked: Cell::new(now),
            device,
        })
    }

    /// What was opened.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The engine.
    pub fn found(&self) -> &RemoteEngine {
        &self.engine
    }

    /// Bytes of memory behind its BAR.
    pub fn memory_bytes(&self) -> u64 {
        self.memory.as_ref().map_or(0, |memory| memory.size() as u64)
    }

    /// Takes the vectors: one for each channel of the engine if there are so many.
    ///
    /// # Errors
    /// [`RigError`] if there are none, or if nobody can tell what an engine across the link would have
    /// to write for them.
    pub fn take_vectors(&mut self, mode: IrqMode) -> Result<(), RigError> {
        let config = self.engine.config();
        let channels = config.write_channels.unwrap_or(1) + config.read_channels.unwrap_or(1);
        self.device.take_vectors(mode, channels)?;
        if mode != IrqMode::Polling && self.device.irq().message(0).is_none() {
            return Err(RigError::HiddenMessage(mode));
        }
        Ok(())
    }

    fn check_now_and_then(&self) {
        if self.checked.get().elapsed() >= CHECK_INTERVAL {
            self.checked.set(Instant::now());
            self.device.check();
        }
    }

    fn memory(&self) -> Result<&D::Mmio, RigError> {
        self.memory.as_ref().ok_or(RigError::NoBar(MEMORY_BAR))
    }

    fn inside(&self, offset: u64, len: usize) -> Result<usize, RigError> {
        let size = self.memory_bytes();
        let end = offset.checked_add(len as u64).filter(|end| *end <= size);
        end.map(|_| offset as usize).ok_or(RigError::OutsideMemory { offset, len, size })
    }
}

impl<D: Opened> Platform for Hosted<D> {
    type Mmio = Counted<D::Mmio>;
    type Dma = D::Dma;
    type Irq = D::Irq;
    type Delay = RealDelay;

    fn name(&self) -> &str {
        self.device.name()
    }

    fn engine(&self) -> Result<RemoteEngine, RigError> {
        Ok(self.engine)
    }

    fn bar(&self, index: u8) -> Option<Counted<D::Mmio>> {
        let memory = index == MEMORY_BAR && index != self.engine.bar;
        Some(Counted { inner: self.device.bar(index)?, memory, counters: self.counters.clone() })
    }

    fn bar_address(&self, index: u8) -> u64 {
        self.bars.get(usize::from(index)).copied().unwrap_or(0)
    }

    fn dma(&self) -> &D::Dma {
        self.device.dma()
    }

    fn irq(&self) -> &D::Irq {
        self.device.irq()
    }

    fn connect(&self, handler: Handler) -> Result<(), RigError> {
        self.device.connect(handler)
    }

    fn delay(&mut self) -> &mut RealDelay {
        &mut self.delay
    }

    fn now_ns(&self) -> u64 {
        // 584 years.
        self.started.elapsed().as_nanos() as u64
    }

    fn pass(&self, news: &News, until: u64) {
        let limit = Duration::from_nanos(until.saturating_sub(self.now_ns()));
        if self.device.irq().mode() == IrqMode::Polling {
            rest(limit);
        } else {
            news.wait(limit);
        }
        self.check_now_and_then();
    }

    fn tick(&self, _armed: &mut Armed) {
        // Also while there is news all the time: a device that is half gone fails one transfer after the
        // other.
        self.check_now_and_then();
    }

    fn reset(&mut self) -> Result<(), RigError> {
        self.device.reset()
    }

    fn device_read(&self, offset: u64, data: &mut [u8]) -> Result<(), RigError> {
        let (start, memory) = (self.inside(offset, data.len())?, self.memory()?);
        self.device.read_bytes(memory, start, data);
        memory.barrier(Barrier::Rmb);
        Ok(())
    }

    fn device_write(&self, offset: u64, data: &[u8]) -> Result<(), RigError> {
        let (start, memory) = (self.inside(offset, data.len())?, self.memory()?);
        self.device.write_bytes(memory, start, data);
        memory.barrier(Barrier::Wmb);
        Ok(())
    }

    fn look_ns(&self) -> u64 {
        LOOK_NS
    }

    fn burst_bytes(&self) -> u64 {
        BURST_BYTES
    }

    fn link_ns(&self, bytes: u64) -> u64 {
        bytes.saturating_mul(1000) / SLOWEST_BYTES_PER_US
    }

    fn counts(&self) -> Counts {
        Counts {
            interrupts: self.device.interrupts(),
            mmio: self.counters.read(),
            mapped: self.device.mapped(),
            ..Counts::default()
        }
    }

    fn is_simulated(&self) -> bool {
        false
    }
}

/// Waits for `limit`, briefly awake.
fn rest(limit: Duration) {
    if limit > SHORT_WAIT {
        return std::thread::sleep(limit);
    }
    let end = Instant::now() + limit;
    while Instant::now() < end {
        // The device may be another process on this processor.
        std::thread::yield_now();
    }
}

/// Waits in real time.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDelay;

impl DelayNs for RealDelay {
    fn delay_ns(&mut self, ns: u32) {
        rest(Duration::from_nanos(ns.into()));
    }
}

/// Reads and writes of registers, reads and writes of memory behind a BAR.
#[derive(Debug, Default)]
struct Accesses([AtomicU64; 4]);

impl Accesses {
    fn count(&self, memory: bool, write: bool) {
        let place = 2 * usize::from(memory) + usize::from(write);
        self.0[place].fetch_add(1, Ordering::Relaxed);
    }

    fn read(&self) -> [u64; 4] {
        self.0.each_ref().map(|count| count.load(Ordering::Relaxed))
    }
}

/// A BAR whose accesses are counted.
#[derive(Clone, Debug)]
pub struct Counted<M> {
    inner: M,
    memory: bool,
    counters: Arc<Accesses>,
}

impl<M: Mmio> Mmio for Counted<M> {
    fn size(&self) -> usize {
        self.inner.size()
    }

    fn read32(&self, offset: usize) -> u32 {
        self.counters.count(self.memory, false);
        self.inner.read32(offset)
    }

    fn write32(&self, offset: usize, value: u32) {
        self.counters.count(self.memory, true);
        self.inner.write32(offset, value);
    }

    fn read32_relaxed(&self, offset: usize) -> u32 {
        self.counters.count(self.memory, false);
        self.inner.read32_relaxed(offset)
    }

    fn write32_relaxed(&self, offset: usize, value: u32) {
        self.counters.count(self.memory, true);
        self.inner.write32_relaxed(offset, value);
    }

    fn write64_relaxed(&self, offset: usize, value: u64) {
        self.counters.count(self.memory, true);
        self.inner.write64_relaxed(offset, value);
    }

    fn barrier(&self, barrier: Barrier) {
        self.inner.barrier(barrier);
    }

    fn caching(&self) -> Caching {
        self.inner.caching()
    }
}
