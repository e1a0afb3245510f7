//! Arbitrary bytes where a client expects answers; see `replies`.
#![no_main]

#[path = "../src/replies.rs"]
mod replies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| replies::run(data));
