//! What every Tombolo driver stands on, and nothing that knows a platform.
//!
//! A driver written against this crate names no platform, so the same source is meant to run on a
//! simulated device, in Linux userspace over VFIO, in the Linux kernel and on bare metal. It sees its
//! device through five things:
//!
//! | a driver needs | it takes | a platform gives |
//! |---|---|---|
//! | registers | [`mmio::Window`] and [`reg!`] | [`mmio::Mmio`] |
//! | memory that the device reaches | [`dma::Coherent`], [`dma::Streaming`] | [`dma::DmaBackend`] |
//! | interrupts | `on_irq(&self)` of its own | [`irq::IrqSource`] |
//! | config space | [`pci`] | [`pci::ConfigSpace`] |
//! | time | bounded waits in [`wait`] | `DelayNs` of embedded-hal |
//!
//! DMA engines offer [`dmaengine::DmaChannel`] to others. Nothing here allocates on a data path,
//! takes a lock unasked or panics on what a device or peer wrote.
//!
//! # A driver in a few lines
//!
//! ```
//! use tombolo_hal::mmio::{Mmio, Window};
//! use tombolo_hal::reg;
//! use tombolo_hal::register::{ReadOnly, ReadWrite, Readable, ReadWriteable};
//! use tombolo_hal::register::{register_bitfields, register_structs};
//!
//! register_bitfields![u32,
//!     CTRL [ ENABLE OFFSET(0) NUMBITS(1) [], RATE OFFSET(4) NUMBITS(3) [ Slow = 0, Fast = 5 ] ],
//!     STATUS [ BUSY OFFSET(0) NUMBITS(1) [] ]
//! ];
//! register_structs! {
//!     Regs {
//!         (0x00 => ctrl: ReadWrite<u32, CTRL::Register>),
//!         (0x04 => status: ReadOnly<u32, STATUS::Register>),
//!         (0x08 => @END),
//!     }
//! }
//!
//! struct Timer<M> { regs: Window<M, Regs> }
//!
//! impl<M: Mmio> Timer<M> {
//!     fn start(&self) -> bool {
//!         reg!(self.regs, Regs, ctrl).modify(CTRL::ENABLE::SET + CTRL::RATE::Fast);
//!         reg!(self.regs, Regs, status).is_set(STATUS::BUSY)
//!     }
//! }
//! # #[cfg(feature = "std")] {
//! let device = tombolo_hal::fake::FakeMmio::new(0x1000);
//! let timer = Timer { regs: Window::new(&device).layout(0).unwrap() };
//! assert!(!timer.start());
//! assert_eq!(device.peek32(0), 0x51);
//! # }
//! ```
#![no_std]
#![deny(unsafe_code)]

#[cfg(any(feature = "alloc", test))]
extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

mod addr;
pub mod barrier;
pub mod dma;
pub mod dmaengine;
pub mod error;
#[cfg(feature = "std")]
pub mod fake;
pub mod irq;
pub mod le;
pub mod lock;
mod logging;
pub mod mmio;
pub mod net;
pub mod pci;
pub mod register;
pub mod sync;
pub mod wait;

pub use addr::{BusAddr, DmaAddr, EngineAddr};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
