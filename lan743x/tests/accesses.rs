//! What a frame costs in register accesses: exact, on the model, with one interrupt a frame.

mod common;

use common::*;
use tombolo_hal::net::TxOffload;
use tombolo_sim::lan743x::{Params, presets};

const FRAMES: u64 = 64;

/// Reads and writes of sender and receiver for single frames, each with its interrupts.
fn single_frames(params: Params) -> [(u64, u64); 2] {
    let params = Params { moderation_unit_ns: 0, ..params };
    let mut pair = Pair::new(params.clone(), params, Setup { ring: 128, ..Setup::default() });
    pair.a.handle.reset_counters();
    pair.b.handle.reset_counters();
    for seed in 0..FRAMES {
        pair.a.send(&frame(60, seed as u8));
        assert_eq!(pair.run(40_000).1.len(), 1);
    }
    assert_eq!(pair.a.sent as u64, FRAMES);
    [&pair.a, &pair.b].map(|station| {
        let counters = station.handle.counters();
        (counters.all_register_reads(), counters.all_register_writes())
    })
}

#[test]
fn without_automatic_masks_a_frame_takes_one_read_and_four_writes_or_fewer() {
    // Linux's driver: 7.0 reads and 6.0 writes to send, 4.0 and 5.1 to receive.
    let [send, receive] = single_frames(presets::lan7430_a0());
    assert_eq!(send, (FRAMES, 4 * FRAMES));
    assert_eq!(receive, (FRAMES, 3 * FRAMES + FRAMES / 8));
}

#[test]
fn with_automatic_masks_nothing_is_read_and_a_poll_writes_once() {
    for params in [presets::lan7430_b0(), presets::pci11010_b0(), presets::pci11414_b0()] {
        let [send, receive] = single_frames(params);
        assert_eq!(send, (0, FRAMES), "the tail and nothing else");
        assert!(receive.0 == 0 && receive.1 <= FRAMES + FRAMES / 8, "{receive:?}");
    }
}

#[test]
fn a_burst_takes_one_write_of_the_tail() {
    let mut pair = Pair::new(presets::lan7430_b0(), presets::lan7430_b0(), Setup::default());
    pair.a.handle.reset_counters();
    for seed in 0..32 {
        assert!(pair.a.send_on(0, &frame(60, seed), TxOffload::default()));
    }
    assert_eq!(pair.a.handle.counters().all_register_writes(), 0);
    pair.a.tx[0].kick();
    assert_eq!(pair.a.handle.counters().all_register_writes(), 1);
    assert_eq!(pair.run(500_000).1.len(), 32);
}
