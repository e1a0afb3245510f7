//! What is made to go wrong.

use std::fmt;

use clap::ValueEnum;
use tombolo_hal::irq::{IrqMode, IrqSource};
use tombolo_sim::dw_edma::{Cause, Dir};
use tombolo_sim::fabric::Removal;

use crate::rig::Rig;

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

/// A fault to inject. The descriptions are shown by `--help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Fault {
    /// Half of all interrupt messages are lost
    LostIrq,
    /// Interrupts come that nobody sent
    SpuriousIrq,
    /// The device is pulled out halfway
    SurpriseRemoval,
    /// The IOMMU refuses four requests of the engine
    Iommu,
    /// Write and read channel 0 give up in mid-transfer
    Abort,
    /// Nonsense in memory and in read channel 0's pointer
    Garbage,
    /// The driver's MMIO writes arrive up to 5 us late
    DelayedWrites,
    /// Write channel 0 never finishes, obeys no stop
    Hang,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

impl Fault {
    /// Why the fault cannot be with this kind of interrupt, if it cannot.
    pub fn conflict(self, irq: IrqMode) -> Option<&'static str> {
        match (self, irq) {
            (Fault::LostIrq, IrqMode::Polling | IrqMode::Intx) => {
                Some("--fault lost-irq needs messages that can be lost: --irq msix or msi")
            }
            (Fault::SpuriousIrq, IrqMode::Polling) => {
                Some("--fault spurious-irq needs interrupts: --irq msix, msi or intx")
            }
            _ => None,
        }
    }
}

/// A fault that is under way.
#[derive(Clone, Copy, Debug)]
pub struct Armed {
    fault: Option<Fault>,
    injected: u64,
    /// When the next injection is due; never again once it is past all time.
    due_ns: u64,
}

impl Armed {
    /// Arms `fault` for a run of transfers of `size` bytes with `total` bytes in all.
    pub fn new(rig: &Rig, fault: Option<Fault>, size: u64, total: u64) -> Self {
        let requests = (total / rig.burst_bytes()).max(2);
        let (function, handle) = (&rig.function, &rig.handle);
        match fault {
            None | Some(Fault::SpuriousIrq | Fault::Iommu) => {}
            Some(Fault::LostIrq) => {
                function.lose_interrupts(LOSS);
                function.lose_next_interrupts(1);
            }
            Some(Fault::SurpriseRemoval) => function.surprise_remove(Removal::AfterDma(requests / 2)),
            Some(Fault::Abort) => {
                handle.abort_after(Dir::Write, 0, size / 2 + 1, Cause::AppRead);
                handle.abort_after(Dir::Read, 0, size / 2 + 1, Cause::CompletionTimeout);
            }
            Some(Fault::Garbage) => {
                let few = 8.0 / requests as f64;
                function.corrupt_dma_writes(few.clamp(1.0 / GARBAGE_EVERY, 1.0));
                handle.garbage_llp(Dir::Read, 0, GARBAGE_POINTER);
            }
            Some(Fault::DelayedWrites) => function.delay_posted_writes(DELAY_NS),
            Some(Fault::Hang) => handle.hang(Dir::Write, 0),
        }
        Self { fault, injected: 0, due_ns: 0 }
    }

    /// No fault.
    pub const fn none() -> Self {
        Self { fault: None, injected: 0, due_ns: u64::MAX }
    }

    /// Called again and again while data moves: some faults wait for their moment.
    pub fn tick(&mut self, rig: &Rig) {
        let now = rig.fabric.now_ns();
        if now < self.due_ns {
            return;
        }
        match self.fault {
            Some(Fault::SpuriousIrq) => {
                let vectors = u64::from(rig.irq.vectors().max(1));
                rig.function.spurious_interrupt((self.injected % vectors) as u16);
                self.injected += 1;
                self.due_ns = now + SPURIOUS_NS;
            }
            Some(Fault::Iommu) => {
                let counters = rig.function.counters();
                if counters.dma_reads > 1 && counters.dma_writes > 1 {
                    rig.function.iommu_fault_next(REFUSED);
                    self.due_ns = u64::MAX;
                }
            }
            _ => self.due_ns = u64::MAX,
        }
    }

    /// The fault.
    pub const fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// Interrupts that were injected.
    pub const fn injected(&self) -> u64 {
        self.injected
    }
}
