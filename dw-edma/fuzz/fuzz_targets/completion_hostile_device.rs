//! A device that answers every read with what the fuzzer likes; see `hostile`.
#![no_main]

#[path = "../src/hostile.rs"]
mod hostile;

/// Memory that a device may still write is leaked on purpose, so leaks are no finding here.
// SAFETY: AddressSanitizer looks for this symbol and reads the string that it returns.
#[unsafe(no_mangle)]
pub extern "C" fn __asan_default_options() -> *const std::ffi::c_char {
    c"detect_leaks=0".as_ptr()
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| hostile::run(data));
