//! Tombolo drivers on bare metal: PCIe enumeration, interrupts and DMA memory without an operating system.
//!
//! - [`pci`]: functions over ECAM, bus numbers, addresses.
//! - [`irq`]: MSI-X and MSI into the local APIC or the GICv3's ITS; where there is neither, polling.
//! - [`dma`]: hal's `DmaBackend` over one bounded region.
//! - [`clock`]: hal's delays from a hardware counter.
//! - [`platform`]: what firmware says of a machine.
//! - `rt`: a tiny runtime, only on `x86_64-unknown-none` and `aarch64-unknown-none`.
//!
//! The README has the commands to build and boot, and a walk-through for a device of your own.
#![no_std]

#[cfg(test)]
extern crate std;

pub mod clock;
pub mod dma;
pub mod irq;
pub mod pci;
pub mod platform;
#[cfg(all(feature = "rt", target_os = "none", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub mod rt;
