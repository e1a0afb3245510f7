//! The fuzz targets on a few fixed inputs, with the compiler and the speed of an ordinary test.
#![cfg(not(any(miri, loom)))]

#[path = "../fuzz/src/hostile.rs"]
mod hostile;
#[path = "../fuzz/src/lists.rs"]
mod lists;

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
fn a_hostile_device_finds_nothing_in_fixed_inputs() {
    inputs(3_000, 400).for_each(|input| hostile::run(&input));
}

#[test]
fn lists_hold_on_fixed_inputs() {
    inputs(400, 300).for_each(|input| lists::run(&input));
    // An engine that runs when its channel is opened.
    lists::run(&[0x2a, 0x16, 0x0a, 0x3e, 0x03, 0x5d]);
}
