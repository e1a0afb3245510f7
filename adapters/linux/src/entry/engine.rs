//! Engines: finding, opening, interrupts, times without the device.

use core::ffi::c_void;
use core::ptr::NonNull;

use alloc::boxed::Box;

use dw_edma::{Error, Interrupts, RemoteEngine};
use log::Level;

use super::control;
use crate::config::KernelConfig;
use crate::engine::{Control, EngineShared, OpenError};
use crate::errno::{EBUSY, EINVAL, ENODEV, ENOMEM, errno, result};
use crate::{abi, logging, template};

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
