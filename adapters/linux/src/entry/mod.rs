//! What C calls.
//!
//! Contexts, as `shim/shim.h` has them: *control* functions are called under the shim's control lock
//! (a raw spinlock, interrupts off), *channel* functions under the channel's lock. `find`, `open`,
//! `close` and the self-test may sleep and are called one at a time. `irq` is called from hard
//! interrupts on any CPU. Only `open` and `close` allocate.

mod channel;
mod engine;
mod module;
mod transfer;

use core::ffi::c_void;

use crate::channel::Chan;
use crate::engine::Control;

pub use channel::*;
pub use engine::*;
pub use module::*;
pub use transfer::*;

fn zero_or(outcome: Result<(), i32>) -> i32 {
    outcome.err().unwrap_or(0)
}

/// # Safety
/// `control` came from [`tombolo_edma_open`], and no other control function runs.
unsafe fn control<'a>(control: *mut c_void) -> &'a mut Control {
    // SAFETY: the caller's promise.
    unsafe { &mut *control.cast::<Control>() }
}

/// # Safety
/// `chan` is an open channel, and no other function of it runs.
unsafe fn chan<'a>(chan: *mut c_void) -> &'a mut Chan {
    // SAFETY: the caller's promise.
    unsafe { &mut *chan.cast::<Chan>() }
}
