//! Transfers: the calls of the data path.

use core::ffi::c_void;

use tombolo_hal::DmaAddr;
use tombolo_hal::dmaengine::{Descriptor, SgEntry};

use super::{chan, zero_or};
use crate::abi;
use crate::channel::MAX_BATCH;
use crate::errno::EINVAL;
use crate::translate;

/// Sets the sticky configuration. Channel.
///
/// # Safety
/// `handle` is open; `config` is valid for a read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_edma_chan_configure(handle: *mut c_void, config: *const abi::Slave) -> i32 {
    // SAFETY: the caller's promise.
    zero_or(unsafe { chan(handle).configure(&*config) })
}

/// Prepares a transfer. `config` is null for the sticky one. 0, or a negative number: `-ENOSPC` asks
/// for a larger pool. Channel.
///
/// # Safety
/// `handle` is open; `sg` is valid for `count` reads, `config` null or valid for one, `prepared` valid
/// for a write. The client keeps the promise of [`SgEntry::from_raw`]: that is dmaengine's contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_edma_chan_prep(
    handle: *mut c_void,
    sg: *const abi::Sg,
    count: u32,
    direction: u32,
    interrupt: u32,
    config: *const abi::Slave,
    prepared: *mut u64,
) -> i32 {
    let Some(direction) = translate::direction(direction) else { return -EINVAL };
    // SAFETY: the caller's promise; `abi` checked that the two types are laid out alike.
    let sg = unsafe { core::slice::from_raw_parts(sg.cast::<SgEntry>(), count as usize) };
    // SAFETY: the caller's promise.
    let (chan, config) = unsafe { (chan(handle), config.as_ref()) };
    match chan.prep(sg, direction, interrupt != 0, config) {
        Ok(descriptor) => {
            // SAFETY: the caller's promise.
            unsafe { prepared.write(descriptor.into_raw()) };
            0
        }
        Err(error) => error,
    }
}

/// Prepares a cyclic transfer with the sticky configuration. Channel.
///
/// # Safety
/// As for [`tombolo_edma_chan_prep`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_edma_chan_prep_cyclic(
    handle: *mut c_void,
    buffer: *const abi::Sg,
    period: u64,
    direction: u32,
    interrupt: u32,
    prepared: *mut u64,
) -> i32 {
    let Some(direction) = translate::direction(direction) else { return -EINVAL };
    // SAFETY: the caller's promise.
    let (chan, buffer) = unsafe { (chan(handle), buffer.read()) };
    // SAFETY: the caller's promise: dmaengine's contract.
    let buffer = unsafe { SgEntry::from_raw(DmaAddr::new(buffer.address), buffer.length) };
    match chan.prep_cyclic(buffer, period, direction, interrupt != 0) {
        Ok(descriptor) => {
            // SAFETY: the caller's promise.
            unsafe { prepared.write(descriptor.into_raw()) };
            0
        }
        Err(error) => error,
    }
}

/// Queues a prepared descriptor; one that is refused is free again. Channel.
///
/// # Safety
/// `handle` is open; `cookie` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_edma_chan_submit(
    handle: *mut c_void,
    prepared: u64,
    cookie: *mut u64,
) -> i32 {
    // SAFETY: the caller's promise.
    match unsafe { chan(handle) }.submit(Descriptor::from_raw(prepared)) {
        Ok(ticket) => {
            // SAFETY: the caller's promise.
            unsafe { cookie.write(ticket.into_raw()) };
            0
        }
        Err(error) => error,
    }
}

/// Hands what was submitted to the engine. Not 0 if somebody must poll at once. Channel.
///
/// # Safety
/// `handle` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_edma_chan_issue(handle: *mut c_void) -> i32 {
    // SAFETY: the caller's promise.
    i32::from(unsafe { chan(handle) }.issue())
}

/// Reports what happened, at most `max` things and at most 16; returns how many. A period is the last
/// of a report. Channel.
///
/// # Safety
/// `handle` is open; `out` is valid for `max` writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_edma_chan_poll(
    handle: *mut c_void,
    out: *mut abi::Completion,
    max: u32,
) -> u32 {
    if (max as usize) < MAX_BATCH {
        return 0;
    }
    let mut next = out;
    // SAFETY: the caller's promise.
    let count = unsafe { chan(handle) }.poll(|completion| {
        // SAFETY: `poll` reports at most `MAX_BATCH` things, and `out` has room for these.
        unsafe {
            next.write(completion);
            next = next.add(1);
        }
    });
    count as u32
}

/// Looks at the hardware although no interrupt came. Channel.
///
/// # Safety
/// `handle` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_edma_chan_look(handle: *mut c_void) -> i32 {
    // SAFETY: the caller's promise.
    zero_or(unsafe { chan(handle) }.look())
}

/// How far a transfer has come. Channel.
///
/// # Safety
/// `handle` is open; `status` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_edma_chan_status(
    handle: *mut c_void,
    cookie: u64,
    status: *mut abi::Status,
) {
    // SAFETY: the caller's promise.
    unsafe { status.write(chan(handle).status(cookie)) }
}
