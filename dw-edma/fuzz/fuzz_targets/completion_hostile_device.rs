//! A device that answers every read with what the fuzzer likes; see `hostile`.
#![no_main]

#[path = "../src/hostile.rs"]
mod hostile;

libfuzzer_sys::fuzz_target!(|data: &[u8]| hostile::run(data));
