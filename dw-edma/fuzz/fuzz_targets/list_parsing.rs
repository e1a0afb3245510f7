//! Arbitrary lists and positions, for the driver and for the model; see `lists`.
#![no_main]

#[path = "../src/lists.rs"]
mod lists;

libfuzzer_sys::fuzz_target!(|data: &[u8]| lists::run(data));
