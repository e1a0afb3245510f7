//! A stream of arbitrary bytes, cut anywhere, at the server of an engine.
//!
//! Whatever comes: no panic, no reply that is no message, no reply that nobody asked for, and the next
//! client is served.

use arbitrary::Unstructured;
use tombolo_sim::dw_edma::{DwEdma, Format, Params, presets};
use tombolo_vfio_user::protocol::{Command, HEADER_SIZE, Header, Kind, Version};
use tombolo_vfio_user::server::ServerOptions;
use tombolo_vfio_user::server::offline::{Client, Offline};

/// Events that are run at most.
const EVENTS: usize = 100;

/// One input of the fuzzer.
pub fn run(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let params = Params { memory_bytes: 1 << 20, ..presets::edda(Format::Unrolled) };
    let Ok(server) = Offline::new(Box::new(DwEdma::new(params)), ServerOptions::default()) else {
        unreachable!("the model is sound")
    };
    let mut client = server.client();
    // Most streams that begin with noise end there.
    if input.arbitrary().unwrap_or(true) {
        agree(&mut client);
    }
    while !input.is_empty() {
        let len = input.int_in_range(1..=200).unwrap_or(1).min(input.len());
        let Ok(bytes) = input.bytes(len) else { break };
        for (header, _) in client.feed(bytes, Vec::new()) {
            assert_eq!(header.kind(), Some(Kind::Reply));
        }
        server.run_events(EVENTS);
    }
    drop(client);
    agree(&mut server.client());
}

/// Agrees on the version, which a server must always do with a new client.
fn agree(client: &mut Client<'_>) {
    let mut message = vec![0; HEADER_SIZE];
    Version::ours(true).put(&mut message);
    let header = Header::request(1, Command::Version, message.len() - HEADER_SIZE, true);
    message[..HEADER_SIZE].copy_from_slice(&header.to_bytes());
    let replies = client.feed(&message, Vec::new());
    assert!(replies.len() == 1 && replies[0].0.failed().is_none(), "{replies:?}");
}
