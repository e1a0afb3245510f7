//! The fabric as a driver's platform: [`tombolo_hal`]'s traits on a
//! [`Function`](crate::fabric::Function).

mod config;
mod delay;
mod dma;
mod irq;
mod mmio;

pub use config::SimConfig;
pub use delay::SimDelay;
pub use dma::{SimDma, SimDmaError};
pub use irq::SimIrq;
pub use mmio::SimMmio;
