//! The register map of BAR 0.
//!
//! Sources: Microchip AN2948 "Configuration Registers of LAN743x" and Linux 7.3
//! `drivers/net/ethernet/microchip/lan743x_main.h`; the blocks of PCI11x1x are public in the latter alone.
//! Where both name a bit, Linux's name is used.

pub mod dmac;
pub mod interrupts;
pub mod mac;
pub mod nvm;
pub mod ptp;
pub mod rfe;
pub mod serial;
pub mod statistics;
pub mod system;

/// The least size of BAR 0 that this driver works with, in bytes.
pub const BAR_SIZE: usize = 0x2000;
/// The least size of BAR 0 of PCI11x1x: up to the end of its OTP block.
pub const BAR_SIZE_PCI11X1X: usize = 0x5040;
