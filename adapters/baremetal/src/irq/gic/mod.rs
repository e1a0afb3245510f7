//! The Arm Generic Interrupt Controller, version 3, as far as messages go: LPIs through the ITS.
//!
//! [`Its::start`] brings up redistributor and ITS and gives a [`MessageController`](super::MessageController). The CPU interface
//! (system registers) is the runtime's.
//!
//! Registers, tables and commands follow the Arm GIC Architecture Specification, versions 3 and 4 (IHI 0069);
//! names as in Linux's `include/linux/irqchip/arm-gic-v3.h`.

mod command;
mod its;
mod redistributor;
mod registers;
#[cfg(test)]
mod tests;

pub use its::{Its, ItsMemory};
pub use redistributor::{Distributor, Redistributor};

/// The first LPI.
pub const FIRST_LPI: u32 = 8192;
/// How many LPIs are given out.
pub const LPIS: usize = 256;
