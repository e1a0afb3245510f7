//! Atomics that loom can watch: use these for what an interrupt handler and a data path share.

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
