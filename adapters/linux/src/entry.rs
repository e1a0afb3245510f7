//! What C calls.
//!
//! Contexts, as `shim/shim.h` has them: *control* functions are called under the shim's control lock
//! (a raw spinlock, interrupts off), *channel* functions under the channel's lock. `find`, `open`,
//! `close` and the self-test may sleep and are called one at a time. `irq` is called from hard
//! interrupts on any CPU. Only `open` and `close` allocate.

use core::ffi::{c_char, c_void};
use core::ptr::NonNull;

use alloc::boxed::Box;

use dw_edma::{Error, Interrupts, RemoteEngine};
use log::Level;
use tombolo_hal::DmaAddr;
use tombolo_hal::dmaengine::{Descriptor, SgEntry};

use crate::abi;
use crate::channel::{Chan, MAX_BATCH};
use crate::config::KernelConfig;
use crate::engine::{Control, EngineShared, OpenError};
use crate::errno::{EBUSY, EINVAL, EIO, ENODEV, ENOMEM, errno, result};
use crate::memory::pool_layout;
use crate::{logging, params, selftest, template, translate};

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

/// The version of the interface, and the one time that logging is set up: before anything else.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_init() -> u32 {
    logging::install();
    abi::VERSION
}

/// The parameter `irq`: bits `1 << IRQ_MSI` and `1 << IRQ_MSIX`, or a negative number.
///
/// # Safety
/// `text` is valid for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_parse_irq(text: *const c_char, length: usize) -> i32 {
    // SAFETY: the caller's promise.
    let text = unsafe { core::slice::from_raw_parts(text.cast::<u8>(), length) };
    match params::irq_choice(text) {
        Ok(choice) => choice.0 as i32,
        Err(error) => {
            log::error!("{error}");
            -EINVAL
        }
    }
}

/// Tries what the kernel gives to Rust. 0, or a negative number with a line in the log. Level 2 panics,
/// to see that a panic ends as it should.
///
/// # Safety
/// `device` is a `struct device` with its DMA mask set, `lock` an initialised raw spinlock that is not
/// held. May sleep.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_selftest(device: *mut c_void, lock: *mut c_void, level: u32) -> i32 {
    assert!(level != 2, "a panic on purpose, by the parameter selftest={level}");
    let (Some(device), Some(lock)) = (NonNull::new(device), NonNull::new(lock)) else { return -EINVAL };
    // SAFETY: the caller's promise.
    match unsafe { selftest::run(device, lock) } {
        Ok(()) => {
            // SAFETY: the caller's promise.
            unsafe { logging::write(device.as_ptr(), Level::Info, format_args!("self-test passed")) };
            0
        }
        Err(error) => {
            // SAFETY: the caller's promise.
            unsafe {
                logging::write(device.as_ptr(), Level::Error, format_args!("self-test failed: {error}"));
            }
            -EIO
        }
    }
}

/// Finds the engine of a function. 0, or a negative number.
///
/// # Safety
/// `function` is a `struct pci_dev` whose config space answers; `found` is valid for a write. May sleep.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_edma_find(
    function: *mut c_void,
    vendor: u16,
    device: u16,
    found: *mut abi::Engine,
) -> i32 {
    let Some(function) = NonNull::new(function) else { return -EINVAL };
    // SAFETY: the caller's promise.
    let config = unsafe { KernelConfig::new(function) };
    let remote = match RemoteEngine::find(&config) {
        Ok(remote) => Some(remote),
        Err(Error::NoEngine(why)) => {
            log::debug!("{vendor:04x}:{device:04x}: {why}; it is taken for the known device");
            None
        }
        Err(error) => {
            log::error!("{vendor:04x}:{device:04x}: {error}");
            return errno(&error);
        }
    };
    let Some(engine) = template::engine(vendor, device, remote.as_ref()) else {
        log::error!("{vendor:04x}:{device:04x}: where this function keeps its lists is not known");
        return -ENODEV;
    };
    // SAFETY: the caller's promise.
    unsafe { found.write(engine) };
    0
}

/// Where a channel's list and data are. 0, or `-ENODEV` if there are none.
///
/// # Safety
/// `engine` is valid for a read, `places` for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_edma_places(
    engine: *const abi::Engine,
    kind: u32,
    index: u32,
    places: *mut abi::Places,
) -> i32 {
    // SAFETY: the caller's promise.
    let engine = unsafe { engine.read() };
    let found = u16::try_from(index).ok().and_then(|index| template::places(&engine, kind == 0, index));
    let Some(found) = found else { return -ENODEV };
    // SAFETY: the caller's promise.
    unsafe { places.write(found) };
    0
}

/// Opens an engine. 0, or a negative number with a line in the log.
///
/// # Safety
/// As for [`Control::open`]; `handles` is valid for a write. May sleep.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_edma_open(args: *const abi::OpenArgs, handles: *mut abi::Handles) -> i32 {
    // SAFETY: the caller's promise.
    let args = unsafe { &*args };
    // SAFETY: the caller's promise.
    match unsafe { Control::open(args) } {
        Ok(control) => {
            let shared = control.shared().as_ptr().cast::<c_void>();
            let control = Box::into_raw(control).cast::<c_void>();
            // SAFETY: the caller's promise.
            unsafe { handles.write(abi::Handles { shared, control }) };
            0
        }
        Err(error) => {
            // SAFETY: the caller's promise.
            unsafe { logging::write(args.device, Level::Error, format_args!("{error}")) };
            match error {
                OpenError::Engine(error) => errno(&error),
                OpenError::OutOfMemory(_) | OpenError::Dma(_) => -ENOMEM,
                _ => -EINVAL,
            }
        }
    }
}

/// Ends an engine. 0, or `-EBUSY` if channels were open.
///
/// # Safety
/// As for [`Control::close`]; `control` is not used any more. May sleep.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_edma_close(control: *mut c_void) -> i32 {
    // SAFETY: it was a box of this type in `tombolo_edma_open`.
    let control = unsafe { Box::from_raw(control.cast::<Control>()) };
    // SAFETY: the caller's promise.
    if unsafe { control.close() } { 0 } else { -EBUSY }
}

/// Gives the engine its interrupts. 0 for polling, 1 for interrupts, or a negative number with a line
/// in the log: it polls then. Control.
///
/// # Safety
/// `control` is open; `device` is a `struct device`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_edma_connect(device: *const c_void, handle: *mut c_void) -> i32 {
    // SAFETY: the caller's promise.
    match unsafe { control(handle) }.connect() {
        Ok(Interrupts::Polling) => 0,
        Ok(_) => 1,
        Err(error) => {
            // SAFETY: the caller's promise.
            unsafe { logging::write(device, Level::Warn, format_args!("{error}; polling instead")) };
            errno(&error)
        }
    }
}

/// The kernel has changed a message. 1 if [`tombolo_edma_refresh`] must follow soon, 0 if nothing has
/// changed, or a negative number. Control; inside the kernel's message callback.
///
/// # Safety
/// `control` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_edma_hold(handle: *mut c_void) -> i32 {
    // SAFETY: the caller's promise.
    match unsafe { control(handle) }.hold() {
        Ok(follow) => i32::from(follow),
        Err(error) => errno(&error),
    }
}

/// Gives the engine messages that have changed, and channels something to look for. 1 if any had, 0 if
/// not, or a negative number. Control.
///
/// # Safety
/// `control` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_edma_refresh(handle: *mut c_void) -> i32 {
    // SAFETY: the caller's promise.
    match unsafe { control(handle) }.refresh() {
        Ok(changed) => i32::from(changed),
        Err(error) => errno(&error),
    }
}

/// Switches the engine off for a time: 0, or `-EBUSY` while it moves data. Control.
///
/// # Safety
/// `control` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_edma_suspend(handle: *mut c_void) -> i32 {
    // SAFETY: the caller's promise.
    result(unsafe { control(handle) }.suspend())
}

/// Programs the engine again after a suspend or a reset. Control.
///
/// # Safety
/// `control` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_edma_after_reset(handle: *mut c_void) -> i32 {
    // SAFETY: the caller's promise.
    result(unsafe { control(handle) }.after_reset())
}

/// Collects what an interrupt brought. 1 if it brought anything.
///
/// # Safety
/// `shared` is an open engine's; `report` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_edma_irq(shared: *const c_void, report: *mut abi::Report) -> i32 {
    // SAFETY: the caller's promise; it is `Sync`.
    let found = unsafe { &*shared.cast::<EngineShared>() }.on_irq();
    let words = abi::Report { write_channels: found.write_channels, read_channels: found.read_channels };
    // SAFETY: the caller's promise.
    unsafe { report.write(words) };
    i32::from(found.handled)
}

/// Not 0 if the device was seen to be gone.
///
/// # Safety
/// `shared` is an open engine's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_edma_is_gone(shared: *const c_void) -> i32 {
    // SAFETY: the caller's promise.
    i32::from(unsafe { &*shared.cast::<EngineShared>() }.is_gone())
}

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
