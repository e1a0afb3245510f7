//! Messages of a client that knows the protocol and keeps to nothing; see `messages`.
#![no_main]

#[path = "../src/messages.rs"]
mod messages;

libfuzzer_sys::fuzz_target!(|data: &[u8]| messages::run(data));
