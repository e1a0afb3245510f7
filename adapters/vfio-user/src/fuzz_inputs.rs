//! The fuzz targets on a few fixed inputs, with the compiler and the speed of an ordinary test.

#[path = "../fuzz/src/bytes.rs"]
mod bytes;
#[path = "../fuzz/src/messages.rs"]
mod messages;
#[path = "../fuzz/src/replies.rs"]
mod replies;

/// Bytes that look random and are the same in every run.
fn inputs(count: u64, longest: u64) -> impl Iterator<Item = Vec<u8>> {
    (0..count).map(move |seed| {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state >> 16
        };
        (0..next() % longest).map(|_| next() as u8).collect()
    })
}

#[test]
fn a_server_holds_whatever_bytes_come() {
    inputs(300, 2000).for_each(|input| bytes::run(&input));
}

#[test]
fn a_server_holds_whatever_a_client_asks_for() {
    inputs(1000, 1000).for_each(|input| messages::run(&input));
}

#[test]
fn answers_are_understood_or_refused() {
    inputs(3000, 200).for_each(|input| replies::run(&input));
}
