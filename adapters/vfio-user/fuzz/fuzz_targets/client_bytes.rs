//! Arbitrary bytes from a client; see `bytes`.
#![no_main]

#[path = "../src/bytes.rs"]
mod bytes;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bytes::run(data));
