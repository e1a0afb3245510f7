//! Distributor and redistributor.

use embedded_hal::delay::DelayNs;
use tombolo_hal::dma::{Coherent, DmaBackend};
use tombolo_hal::mmio::{Mmio, Window};
use tombolo_hal::wait::poll_until;

use super::registers::*;
use crate::irq::IrqError;

/// Most redistributors that are looked at.
const MAX_REDISTRIBUTORS: usize = 4096;
/// Longest wait for a register, in microseconds.
pub(super) const LIMIT_US: u32 = 100_000;

/// The distributor.
#[derive(Debug)]
pub struct Distributor<M>(M);

impl<M: Mmio> Distributor<M> {
    /// Switches it on, with affinity routing.
    ///
    /// # Errors
    /// [`IrqError::Controller`] if it knows no LPIs or does not finish.
    pub fn start(io: M, delay: &mut impl DelayNs) -> Result<Self, IrqError> {
        if io.read32(GICD_TYPER) & GICD_TYPER_LPIS == 0 {
            return Err(IrqError::Controller("the GIC knows no LPIs (message-signalled interrupts)"));
        }
        io.write32(GICD_CTLR, GICD_CTLR_ENABLE);
        wait(delay, "the distributor does not take its control register", || {
            io.read32(GICD_CTLR) & GICD_CTLR_RWP == 0
        })?;
        Ok(Self(io))
    }

    /// How many bits interrupt IDs have.
    pub fn id_bits(&self) -> u32 {
        (self.0.read32(GICD_TYPER) >> 19 & 0x1f) + 1
    }
}

/// The redistributor of this CPU.
#[derive(Debug)]
pub struct Redistributor<M> {
    io: Window<M>,
    /// Where it is, as a bus address.
    address: u64,
}

impl<M: Mmio + Clone> Redistributor<M> {
    /// Finds the redistributor of the CPU with `affinity` (Aff3.Aff2.Aff1.Aff0 from the top) in a region of
    /// them at `address`, and wakes it.
    ///
    /// # Errors
    /// [`IrqError::Controller`].
    pub fn find(io: M, address: u64, affinity: u32, delay: &mut impl DelayNs) -> Result<Self, IrqError> {
        let region = Window::new(io);
        let mut offset = 0;
        for _ in 0..MAX_REDISTRIBUTORS {
            let frame = region.clone().sub(offset, GICR_FRAME);
            let frame = frame.map_err(|_| IrqError::Controller("no redistributor is this CPU's"))?;
            let kind = frame.read32(GICR_TYPER);
            if frame.read32(GICR_TYPER + 4) == affinity {
                let found = Self { io: frame, address: address + offset as u64 };
                found.wake(delay)?;
                return Ok(found);
            }
            if kind & GICR_TYPER_LAST != 0 {
                break;
            }
            let frames = if kind & GICR_TYPER_VLPIS != 0 { 2 } else { 1 };
            offset += frames * GICR_FRAME;
        }
        Err(IrqError::Controller("no redistributor is this CPU's"))
    }

    fn wake(&self, delay: &mut impl DelayNs) -> Result<(), IrqError> {
        let waker = self.io.read32(GICR_WAKER);
        self.io.write32(GICR_WAKER, waker & !GICR_WAKER_SLEEP);
        wait(delay, "the redistributor does not wake up", || {
            self.io.read32(GICR_WAKER) & GICR_WAKER_ASLEEP == 0
        })
    }

    /// Gives it the tables of LPIs, for interrupt IDs of `id_bits` bits, and switches LPIs on.
    ///
    /// # Errors
    /// [`IrqError::Controller`] if it knows no LPIs, or somebody has switched them on before.
    pub(super) fn start_lpis<B: DmaBackend>(
        &self,
        properties: &Coherent<B>,
        pending: &Coherent<B>,
        id_bits: u32,
    ) -> Result<(), IrqError> {
        if self.io.read32(GICR_TYPER) & GICR_TYPER_PLPIS == 0 {
            return Err(IrqError::Controller("the redistributor knows no LPIs"));
        }
        if self.io.read32(GICR_CTLR) & GICR_CTLR_ENABLE_LPIS != 0 {
            return Err(IrqError::Controller("LPIs are on already, with tables that are not ours"));
        }
        let properties = properties.device_address().value() | GICR_CACHED | u64::from(id_bits - 1);
        self.io.write64_relaxed(GICR_PROPBASER, properties);
        let pending = pending.device_address().value() | GICR_CACHED | GICR_PENDBASER_ZERO;
        self.io.write64_relaxed(GICR_PENDBASER, pending);
        self.io.write32(GICR_CTLR, self.io.read32(GICR_CTLR) | GICR_CTLR_ENABLE_LPIS);
        if self.io.read32(GICR_CTLR) & GICR_CTLR_ENABLE_LPIS == 0 {
            return Err(IrqError::Controller("the redistributor does not switch LPIs on"));
        }
        Ok(())
    }

    /// What commands call it: its address, or its number.
    pub(super) fn target(&self, by_address: bool) -> u64 {
        if by_address {
            return self.address & !0xffff;
        }
        bits(u64::from(self.io.read32(GICR_TYPER)), 23, 8) << 16
    }
}

pub(super) fn wait(
    delay: &mut impl DelayNs,
    what: &'static str,
    done: impl Fn() -> bool,
) -> Result<(), IrqError> {
    poll_until(delay, 10, LIMIT_US, || done().then_some(())).map_err(|_| IrqError::Controller(what))
}
