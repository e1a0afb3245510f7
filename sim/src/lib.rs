//! Register-accurate PCIe device models and the world in which they run.
//!
//! | module | what it is |
//! |---|---|
//! | [`device`] | what a model is ([`Device`](device::Device)) and all that it sees ([`Bus`](device::Bus)) |
//! | [`config`] | configuration space: described by the model, kept by whoever runs it |
//! | [`memory`] | memory that driver and device touch at once |
//! | [`fabric`] | machines with RAM, IOMMUs, interrupts, virtual time and faults |
//! | [`host`] | the fabric as [`tombolo_hal`]'s platform: MMIO, DMA, interrupts, delays |
//! | [`dw_edma`] | model of the Synopsys DesignWare PCIe eDMA and HDMA |
//! | [`bridge`] | a pair of functions joined by shared memory and doorbells |
//! | [`clock`], [`rng`] | where time and chance come from |
//! | [`test_bus`] | a [`Bus`](device::Bus) for unit tests of one model |
//!
//! Who writes a model begins with [`device::Device`]; who tests a driver with [`fabric::Fabric`].
#![deny(unsafe_code)]

pub mod bridge;
pub mod clock;
pub mod config;
pub mod device;
pub mod dw_edma;
pub mod fabric;
pub mod host;
pub mod lan743x;
pub mod memory;
pub mod rng;
pub mod test_bus;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
