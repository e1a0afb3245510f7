#![cfg_attr(target_os = "linux", doc = include_str!("../README.md"))]
#![cfg_attr(
    not(target_os = "linux"),
    doc = "Tombolo drivers in Linux userspace over VFIO: empty on this host."
)]
#![cfg(target_os = "linux")]

mod address;
mod bar;
mod caps;
mod config;
mod container;
mod delay;
mod device;
mod dma;
mod error;
mod irq;
mod mapping;
mod messages;
mod pages;
mod ranges;
mod regions;
mod sigbus;
mod sys;
pub mod sysfs;

pub use address::{BadAddress, PciAddress};
pub use bar::Bar;
pub use config::Config;
pub use delay::StdDelay;
pub use device::Device;
pub use dma::{DmaError, VfioDma};
pub use error::Error;
pub use irq::{IrqThread, VfioIrq};
