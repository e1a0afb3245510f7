//! The module: its version, its parameters, its self-test.

use core::ffi::{c_char, c_void};
use core::ptr::NonNull;

use log::Level;

use crate::errno::{EINVAL, EIO};
use crate::{abi, logging, params, selftest};

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
