//! What is made to go wrong.

use std::fmt;

use clap::ValueEnum;
use tombolo_hal::irq::IrqMode;

use crate::platform::Platform;

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
    pub fn new<P: Platform>(platform: &P, fault: Option<Fault>, size: u64, total: u64) -> Self {
        let Some(fault) = fault else { return Self::none() };
        platform.arm(fault, size, (total / platform.burst_bytes()).max(2));
        Self { fault: Some(fault), injected: 0, due_ns: 0 }
    }

    /// No fault.
    pub const fn none() -> Self {
        Self { fault: None, injected: 0, due_ns: u64::MAX }
    }

    /// The fault.
    pub const fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// Interrupts that were injected.
    pub const fn injected(&self) -> u64 {
        self.injected
    }

    /// Whether it is time for an injection.
    pub const fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.due_ns
    }

    /// An interrupt was injected; the next one is due at `next_ns`.
    pub const fn inject(&mut self, next_ns: u64) {
        self.injected += 1;
        self.due_ns = next_ns;
    }

    /// There is nothing more to inject.
    pub const fn disarm(&mut self) {
        self.due_ns = u64::MAX;
    }
}
