//! What the tool needs of the place where a driver runs.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use dw_edma::RemoteEngine;
use embedded_hal::delay::DelayNs;
use tombolo_hal::dma::DmaBackend;
use tombolo_hal::irq::IrqSource;
use tombolo_hal::mmio::Mmio;

use crate::fault::{Armed, Fault};
use crate::rig::RigError;

/// A handler of interrupts; it gets the vector's number.
pub type Handler = Arc<dyn Fn(u16) + Send + Sync>;

/// A place where the driver runs: a simulated machine, or a device that was opened.
pub trait Platform {
    /// Registers and memory behind a BAR.
    type Mmio: Mmio + Clone + Debug + 'static;
    /// Memory that the device reaches.
    type Dma: DmaBackend + Debug;
    /// The vectors.
    type Irq: IrqSource;
    /// Waiting.
    type Delay: DelayNs;

    /// What it is, for people: the first words of a sentence about the engine.
    fn name(&self) -> &str;

    /// The engine as the function's capability describes it.
    ///
    /// # Errors
    /// [`RigError`] if there is none.
    fn engine(&self) -> Result<RemoteEngine, RigError>;

    /// A BAR, if the function has it.
    fn bar(&self, index: u8) -> Option<Self::Mmio>;

    /// Where a BAR is on the bus; 0 if nowhere.
    fn bar_address(&self, index: u8) -> u64;

    /// DMA memory for the driver.
    fn dma(&self) -> &Self::Dma;

    /// The vectors that the function got.
    fn irq(&self) -> &Self::Irq;

    /// Lets `handler` hear of all vectors.
    ///
    /// # Errors
    /// [`RigError`] if it cannot.
    fn connect(&self, handler: Handler) -> Result<(), RigError>;

    /// Time to wait.
    fn delay(&mut self) -> &mut Self::Delay;

    /// The time, in nanoseconds: simulated or real.
    fn now_ns(&self) -> u64;

    /// Lets time pass until something happens, at most until `until`.
    fn pass(&self, news: &News, until: u64);

    /// Resets the function and puts configuration and vectors back.
    ///
    /// # Errors
    /// [`RigError`] if it does not come back.
    fn reset(&mut self) -> Result<(), RigError>;

    /// Reads the device's memory from byte `offset` on, past engine and driver.
    ///
    /// # Errors
    /// [`RigError`] outside of it.
    fn device_read(&self, offset: u64, data: &mut [u8]) -> Result<(), RigError>;

    /// Writes the device's memory from byte `offset` on, past engine and driver.
    ///
    /// # Errors
    /// [`RigError`] outside of it.
    fn device_write(&self, offset: u64, data: &[u8]) -> Result<(), RigError>;

    /// How long an interrupt may be overdue before it counts as lost, in nanoseconds.
    fn look_ns(&self) -> u64;

    /// The largest number of bytes that the engine moves in one request, for limits.
    fn burst_bytes(&self) -> u64;

    /// How long the link needs for `bytes` in one direction, in nanoseconds, for limits.
    fn link_ns(&self, bytes: u64) -> u64;

    /// What was counted so far.
    fn counts(&self) -> Counts;

    /// Whether time is the device's own and not that of a clock on the wall.
    fn is_simulated(&self) -> bool;

    /// Lets `fault` strike in a run of transfers of `size` bytes with about `requests` requests of the
    /// engine. Only simulated machines can.
    fn arm(&self, fault: Fault, size: u64, requests: u64) {
        let _ = (fault, size, requests);
    }

    /// Called again and again while data moves: some faults wait for their moment.
    fn tick(&self, armed: &mut Armed) {
        let _ = armed;
    }
}

/// What a platform counts. What it cannot count is 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Interrupts that reached the handler.
    pub interrupts: u64,
    /// Interrupt messages that fault injection lost.
    pub messages_lost: u64,
    /// Requests that the IOMMU refused.
    pub iommu_faults: u64,
    /// Posted writes of the engine that went nowhere.
    pub lost_writes: u64,
    /// Reads and writes of registers, reads and writes of memory behind a BAR.
    pub mmio: [u64; 4],
    /// Mappings for the device, and their bytes.
    pub mapped: (usize, u64),
}

/// What the interrupt handler leaves for the one who waits.
#[derive(Debug, Default)]
pub struct News {
    came: Mutex<bool>,
    arrived: Condvar,
    delivered: AtomicU64,
    unclaimed: AtomicU64,
}

impl News {
    /// An interrupt came; `claimed` says whether the driver found something of its own.
    pub fn tell(&self, claimed: bool) {
        self.delivered.fetch_add(1, Ordering::Relaxed);
        if !claimed {
            self.unclaimed.fetch_add(1, Ordering::Relaxed);
        }
        *self.came.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.arrived.notify_one();
    }

    /// Whether an interrupt came since the last call.
    pub fn take(&self) -> bool {
        std::mem::take(&mut *self.came.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits for an interrupt in real time and leaves it to be taken.
    pub fn wait(&self, limit: Duration) {
        let came = self.came.lock().unwrap_or_else(PoisonError::into_inner);
        let result = self.arrived.wait_timeout_while(came, limit, |came| !*came);
        drop(result.unwrap_or_else(PoisonError::into_inner));
    }

    /// Calls of the handler.
    pub fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// Interrupts in which the driver found nothing of its own.
    pub fn unclaimed(&self) -> u64 {
        self.unclaimed.load(Ordering::Relaxed)
    }
}
