//! The hal's lock over a raw spinlock of the kernel, with interrupts off.

use core::ffi::c_void;
use core::ptr::NonNull;

use tombolo_hal::lock::RawLock;

use crate::shim::{tombolo_shim_lock, tombolo_shim_unlock};

/// A `raw_spinlock_t` of the shim.
#[derive(Debug)]
pub struct KernelLock(NonNull<c_void>);

// SAFETY: a spinlock is made for being used from everywhere.
unsafe impl Send for KernelLock {}
// SAFETY: as for `Send`.
unsafe impl Sync for KernelLock {}

impl KernelLock {
    /// The lock at `raw`.
    ///
    /// # Safety
    /// It is an initialised `raw_spinlock_t` for as long as this value exists, and nobody else takes
    /// it.
    pub const unsafe fn new(raw: NonNull<c_void>) -> Self {
        Self(raw)
    }
}

impl RawLock for KernelLock {
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        // SAFETY: `new` promised a lock; sections do not nest, because they only touch registers.
        let flags = unsafe { tombolo_shim_lock(self.0.as_ptr()) };
        let result = section();
        // SAFETY: just taken. (A panic in between never comes back here: it ends in BUG().)
        unsafe { tombolo_shim_unlock(self.0.as_ptr(), flags) };
        result
    }
}
