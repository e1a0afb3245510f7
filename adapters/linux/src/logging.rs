//! Records of the crate `log`, and our own lines, on their way to the kernel's log.

use core::ffi::c_void;
use core::fmt;

use log::{Level, LevelFilter, Log, Metadata, Record};

use crate::shim::tombolo_shim_log;
use crate::text::Line;

struct KernelLog;

static KERNEL_LOG: KernelLog = KernelLog;

/// printk's number for a level. Debug and trace are dynamic debug.
pub const fn printk_level(level: Level) -> u32 {
    match level {
        Level::Error => 3,
        Level::Warn => 4,
        Level::Info => 6,
        Level::Debug | Level::Trace => 7,
    }
}

impl Log for KernelLog {
    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        // SAFETY: no device.
        unsafe { write(core::ptr::null(), record.level(), *record.args()) }
    }

    fn flush(&self) {}
}

/// Makes the kernel's log the one of the crate `log`.
pub fn install() {
    // Fails only the second time, when it is there already.
    let _ = log::set_logger(&KERNEL_LOG);
    log::set_max_level(LevelFilter::Debug);
}

/// Prints a line about a device.
///
/// # Safety
/// `device` is null or a `struct device`.
pub unsafe fn write(device: *const c_void, level: Level, text: fmt::Arguments<'_>) {
    let line = Line::<256>::new(text);
    let bytes = line.as_bytes();
    // SAFETY: the bytes are there; the caller's promise about the device.
    unsafe { tombolo_shim_log(device, printk_level(level), bytes.as_ptr().cast(), bytes.len()) }
}
