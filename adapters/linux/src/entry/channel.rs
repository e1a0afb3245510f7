//! Channels: opening, closing, memory, pausing, terminating, counters.

use core::ffi::c_void;

use super::{chan, control, zero_or};
use crate::abi;
use crate::channel::Chan;
use crate::errno::{EBUSY, ENOMEM};
use crate::memory::pool_layout;

/// Bytes that a channel takes.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_edma_chan_size() -> usize {
    size_of::<Chan>()
}

/// Bytes that a pool takes, aligned as kmalloc aligns; 0 if there is no such pool.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_edma_pool_size(descriptors: u32, segments: u32) -> usize {
    pool_layout(descriptors, segments).map_or(0, |(layout, _)| layout.size())
}

/// Opens a channel in `args.place`. 0, or a negative number. Control.
///
/// # Safety
/// As for [`Chan::open`]; `args.place` has [`tombolo_edma_chan_size`] bytes, aligned to 8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_edma_chan_open(handle: *mut c_void, args: *const abi::ChanArgs) -> i32 {
    // SAFETY: the caller's promise.
    let (control, args) = unsafe { (control(handle), &*args) };
    // SAFETY: the caller's promise.
    match unsafe { Chan::open(control, args) } {
        Ok(chan) => {
            // SAFETY: the caller's promise.
            unsafe { args.place.cast::<Chan>().write(chan) };
            0
        }
        Err(error) => error,
    }
}

/// Ends a channel. 0, or `-EBUSY` if its hardware did not come to rest. Its memory is the shim's again
/// in both cases. Channel.
///
/// # Safety
/// `handle` is open, and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_edma_chan_close(handle: *mut c_void) -> i32 {
    // SAFETY: the caller's promise: it is moved out once.
    let chan = unsafe { handle.cast::<Chan>().read() };
    if chan.close() { 0 } else { -EBUSY }
}

/// How large the pool should be for `segments` more. 0, or `-ENOMEM` if it is as large as it may be.
/// Channel.
///
/// # Safety
/// `handle` is open; `room` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_edma_chan_more(
    handle: *mut c_void,
    segments: u32,
    room: *mut abi::Room,
) -> i32 {
    // SAFETY: the caller's promise.
    let Some(more) = unsafe { chan(handle) }.more(segments) else { return -ENOMEM };
    // SAFETY: the caller's promise.
    unsafe { room.write(more) };
    0
}

/// Moves into a larger pool. Channel.
///
/// # Safety
/// As for [`Chan::grow`]; `room` is valid for a read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_edma_chan_grow(
    handle: *mut c_void,
    pool: *mut c_void,
    room: *const abi::Room,
) -> i32 {
    // SAFETY: the caller's promise.
    zero_or(unsafe { chan(handle).grow(pool, *room) })
}

/// Holds transfers back. Channel.
///
/// # Safety
/// `handle` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_edma_chan_pause(handle: *mut c_void) -> i32 {
    // SAFETY: the caller's promise.
    zero_or(unsafe { chan(handle) }.pause())
}

/// Lets them go on. Channel.
///
/// # Safety
/// `handle` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_edma_chan_resume(handle: *mut c_void) -> i32 {
    // SAFETY: the caller's promise.
    zero_or(unsafe { chan(handle) }.resume())
}

/// Not 0 if transfers are held back. Channel.
///
/// # Safety
/// `handle` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_edma_chan_is_paused(handle: *mut c_void) -> i32 {
    // SAFETY: the caller's promise.
    i32::from(unsafe { chan(handle) }.is_paused())
}

/// Drops all transfers and starts stopping what runs. Channel.
///
/// # Safety
/// `handle` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_edma_chan_terminate(handle: *mut c_void) -> i32 {
    // SAFETY: the caller's promise.
    zero_or(unsafe { chan(handle) }.terminate())
}

/// Not 0 if nothing that was terminated is with the hardware. Channel.
///
/// # Safety
/// `handle` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_edma_chan_is_terminated(handle: *mut c_void) -> i32 {
    // SAFETY: the caller's promise.
    i32::from(unsafe { chan(handle) }.is_terminated())
}

/// Not 0 if the hardware rests. Channel.
///
/// # Safety
/// `handle` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_edma_chan_is_quiescent(handle: *mut c_void) -> i32 {
    // SAFETY: the caller's promise.
    i32::from(unsafe { chan(handle) }.is_quiescent())
}

/// Not 0 if transfers are queued or with the engine. Channel.
///
/// # Safety
/// `handle` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_edma_chan_has_transfers(handle: *mut c_void) -> i32 {
    // SAFETY: the caller's promise.
    i32::from(unsafe { chan(handle) }.has_transfers())
}

/// What a channel counted. Channel.
///
/// # Safety
/// `handle` is open; `stats` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_edma_chan_stats(handle: *mut c_void, stats: *mut abi::Stats) {
    // SAFETY: the caller's promise.
    unsafe { stats.write(chan(handle).stats()) }
}
