//! Tombolo drivers in the Linux kernel, behind a C shim.
//!
//! The kernel's headers are C and change with every version; our drivers are Rust and do not. So the
//! module is two objects: this crate, which is the same for every kernel, and the files in `shim/`,
//! which are compiled against one kernel's headers. They meet in [`abi`], which `shim/shim.h` mirrors;
//! sizes and offsets are checked on both sides.
//!
//! - [`mmio`](tombolo_hal::mmio::RawMmio), [`lock`], [`irq`], [`config`] and [`dma`] give the hal what
//!   it asks of a platform.
//! - [`template`] says where engines keep lists and data, [`engine`] and [`channel`] bind the portable
//!   driver, [`entry`] is what C calls.
//! - [`memory`] partitions memory that the shim lends. What may be called in atomic context allocates
//!   nothing here; Rust's own allocator is used in probe and remove only.
//!
//! On the target without an operating system the crate also has a panic handler (it ends in `BUG()`,
//! with the message printed) and an allocator. On any other it is a library with tests.
#![no_std]

#[cfg(any(test, not(target_os = "none")))]
extern crate std;

extern crate alloc;

pub mod abi;
pub mod channel;
pub mod config;
pub mod dma;
pub mod engine;
pub mod entry;
pub mod errno;
pub mod irq;
#[cfg(target_os = "none")]
mod kernel;
pub mod lock;
pub mod logging;
pub mod memory;
pub mod params;
pub mod selftest;
pub mod shim;
pub mod template;
pub mod text;
pub mod translate;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;
