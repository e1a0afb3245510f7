//! A simulated machine with an engine in it.

use tombolo_hal::irq::{IrqMode, IrqSource};
use tombolo_sim::dw_edma::{Cause, Dir, DwEdma, Handle, Params};
use tombolo_sim::fabric::{Fabric, Function, Machine, Removal};
use tombolo_sim::host::{SimDelay, SimDma, SimIrq, SimMmio};

use dw_edma::RemoteEngine;

use crate::fault::{Armed, Fault};
use crate::machine::{self, RigSpec};
use crate::platform::{Counts, Handler, News, Platform};
use crate::rig::RigError;

/// Interrupts are lost with this probability, and the first one always.
const LOSS: f64 = 0.5;
/// A spurious interrupt comes about this often, in nanoseconds.
const SPURIOUS_NS: u64 = 2_000;
/// Requests that the IOMMU refuses.
const REFUSED: u64 = 4;
/// Requests that become garbage: one in so many, but not fewer than a handful in a run.
const GARBAGE_EVERY: f64 = 16.0;
/// Posted writes take up to this long, in nanoseconds.
const DELAY_NS: u64 = 5_000;
/// An address that is in no list.
const GARBAGE_POINTER: u64 = 0xdead_beef;

/// A simulated machine and the engine in it.
pub struct Simulated {
    fabric: Fabric,
    function: Function,
    handle: Handle,
    irq: SimIrq,
    delay: SimDelay,
    dma: SimDma,
    params: Params,
    _machine: Machine,
}

impl Simulated {
    /// Puts a machine together.
    ///
    /// # Errors
    /// [`RigError`].
    pub fn new(spec: &RigSpec) -> Result<Self, RigError> {
        let fabric = Fabric::new(spec.seed);
        let machine = fabric.machine(machine::machine_config(spec))?;
        let model = DwEdma::new(machine::params(spec));
        let (handle, params) = (model.handle(), model.params().clone());
        let function = machine.attach(Box::new(model))?;
        function.enable();
        let irq = SimIrq::allocate_mode(&function, spec.irq, machine::vectors(spec));
        let irq = irq.ok_or(RigError::NoVectors(spec.irq))?;
        let (delay, dma) = (SimDelay::new(&fabric), function.dma());
        Ok(Self { fabric, function, handle, irq, delay, dma, params, _machine: machine })
    }
}

impl Platform for Simulated {
    type Mmio = SimMmio;
    type Dma = SimDma;
    type Irq = SimIrq;
    type Delay = SimDelay;

    fn name(&self) -> &str {
        "Simulated"
    }

    fn engine(&self) -> Result<RemoteEngine, RigError> {
        Ok(RemoteEngine::find(&self.function.config())?)
    }

    fn bar(&self, index: u8) -> Option<SimMmio> {
        self.function.mmio(index)
    }

    fn bar_address(&self, index: u8) -> u64 {
        // BARs are decoded from the start; a device that is gone needs no address.
        self.function.bar_address(index).unwrap_or(0)
    }

    fn dma(&self) -> &SimDma {
        &self.dma
    }

    fn irq(&self) -> &SimIrq {
        &self.irq
    }

    fn connect(&self, handler: Handler) -> Result<(), RigError> {
        for vector in 0..self.irq.vectors() {
            self.irq.connect(vector, handler.clone());
        }
        Ok(())
    }

    fn delay(&mut self) -> &mut SimDelay {
        &mut self.delay
    }

    fn now_ns(&self) -> u64 {
        self.fabric.now_ns()
    }

    fn pass(&self, _news: &News, until: u64) {
        if self.irq.mode() == IrqMode::Polling || !self.fabric.step() {
            // Nothing will happen any more by itself, or nobody would hear of it.
            let now = self.fabric.now_ns();
            self.fabric.advance(until.saturating_sub(now));
        }
    }

    fn reset(&mut self) -> Result<(), RigError> {
        self.function.reset_and_restore();
        self.irq.restore();
        Ok(())
    }

    fn device_read(&self, offset: u64, data: &mut [u8]) -> Result<(), RigError> {
        Ok(self.handle.memory().read(offset as usize, data)?)
    }

    fn device_write(&self, offset: u64, data: &[u8]) -> Result<(), RigError> {
        Ok(self.handle.memory().write(offset as usize, data)?)
    }

    fn look_ns(&self) -> u64 {
        5_000_000
    }

    fn burst_bytes(&self) -> u64 {
        u64::from(self.params.burst_bytes)
    }

    fn link_ns(&self, bytes: u64) -> u64 {
        bytes.saturating_mul(1000) / u64::from(self.params.timing.bytes_per_us)
    }

    fn counts(&self) -> Counts {
        let counters = self.function.counters();
        let bar = |index: u8| counters.bars.get(usize::from(index)).copied().unwrap_or_default();
        let (registers, memory) = (bar(self.params.register_bar), bar(self.params.memory_bar));
        Counts {
            interrupts: counters.interrupts_delivered(),
            messages_lost: counters.messages_lost,
            iommu_faults: counters.iommu_faults,
            lost_writes: self.handle.counters().total.lost_writes,
            mmio: [registers.reads, registers.writes, memory.reads, memory.writes],
            mapped: self.function.iommu_mapped(),
        }
    }

    fn is_simulated(&self) -> bool {
        true
    }

    fn arm(&self, fault: Fault, size: u64, requests: u64) {
        let (function, handle) = (&self.function, &self.handle);
        match fault {
            Fault::SpuriousIrq | Fault::Iommu => {}
            Fault::LostIrq => {
                function.lose_interrupts(LOSS);
                function.lose_next_interrupts(1);
            }
            Fault::SurpriseRemoval => function.surprise_remove(Removal::AfterDma(requests / 2)),
            Fault::Abort => {
                handle.abort_after(Dir::Write, 0, size / 2 + 1, Cause::AppRead);
                handle.abort_after(Dir::Read, 0, size / 2 + 1, Cause::CompletionTimeout);
            }
            Fault::Garbage => {
                let few = 8.0 / requests as f64;
                function.corrupt_dma_writes(few.clamp(1.0 / GARBAGE_EVERY, 1.0));
                handle.garbage_llp(Dir::Read, 0, GARBAGE_POINTER);
            }
            Fault::DelayedWrites => function.delay_posted_writes(DELAY_NS),
            Fault::Hang => handle.hang(Dir::Write, 0),
        }
    }

    fn tick(&self, armed: &mut Armed) {
        let now = self.fabric.now_ns();
        if !armed.is_due(now) {
            return;
        }
        match armed.fault() {
            Some(Fault::SpuriousIrq) => {
                let vectors = u64::from(self.irq.vectors().max(1));
                self.function.spurious_interrupt((armed.injected() % vectors) as u16);
                armed.inject(now + SPURIOUS_NS);
            }
            Some(Fault::Iommu) => {
                let counters = self.function.counters();
                if counters.dma_reads > 1 && counters.dma_writes > 1 {
                    self.function.iommu_fault_next(REFUSED);
                    armed.disarm();
                }
            }
            _ => armed.disarm(),
        }
    }
}
