//! Smaller blocks: timer, time stamps of frames, faults.

use super::packets::plain;
use super::*;
use crate::lan743x::Wait;

#[test]
fn the_general_purpose_timer_counts_down() {
    let mut rig = Rig::new(presets::lan7430_a0());
    assert_eq!((rig.rd(0x08c), rig.rd(0x090)), (0xffff, 0xffff));
    rig.wr(0x788, 1 | 1 << 1);
    rig.wr(0x794, 1);
    // Once, 10 counts of 100 us.
    rig.wr(0x08c, 3 << 29 | 10);
    rig.bus.now_ns += 250_000;
    assert_eq!(rig.rd(0x090), 8);
    rig.settle();
    assert_eq!((rig.bus.now_ns, rig.bus.raised.as_slice()), (1_000_000, &[0][..]));
    assert_eq!((rig.rd(0x780) & 2, rig.rd(0x08c) >> 29 & 1), (2, 0));
    // Again and again, 1000 counts of 16 ns.
    rig.wr(0x780, 2);
    rig.wr(0x08c, 1 << 31 | 1 << 29 | 1000);
    assert!(rig.bus.step(&mut rig.model) && rig.bus.step(&mut rig.model));
    assert_eq!(rig.bus.now_ns, 1_000_000 + 2 * 16_000);
    rig.wr(0x08c, 5);
    assert_eq!(rig.rd(0x08c), 0xffff, "disabling presets the load");
    rig.settle();
    assert_eq!(rig.bus.now_ns, 1_000_000 + 3 * 16_000, "one event of no consequence");
}

#[test]
fn a_timer_of_nothing_does_not_stop_time() {
    let mut rig = Rig::new(presets::lan7430_a0());
    rig.wr(0x08c, 1 << 31 | 1 << 29);
    for _ in 0..10 {
        let before = rig.bus.now_ns;
        assert!(rig.bus.step(&mut rig.model));
        assert!(rig.bus.now_ns > before);
    }
}

#[test]
fn frames_are_stamped_in_an_extension_descriptor() {
    let mut rig = Rig::up();
    // The clock runs, from 100 s.
    rig.wr(0xa14, 100);
    rig.wr(0xa18, 0);
    rig.wr(0xa00, 1 << 4);
    rig.wr(0xa00, 1 << 2);
    rig.set(0xc44, 3 << 28);
    rig.incoming(&plain(MAC, 60));
    let got = rig.take(0).unwrap();
    assert_eq!((got.buffers, got.stamp.unwrap().0), (1, 100));
    rig.model.handle().missing_extension_every(1);
    rig.incoming(&plain(MAC, 60));
    let index = 2;
    assert_eq!(rig.words(true, 0, index)[0] >> 14 & 1, 1, "announced");
    assert_eq!(rig.words(true, 0, index + 1), [0; 4], "and empty");
}

#[test]
fn what_is_to_hang_hangs() {
    let mut rig = Rig::new(presets::lan7430_a0());
    let handle = rig.model.handle();
    Wait::ALL.into_iter().for_each(|wait| handle.never_finish(wait));
    rig.wr(0x0ac, 1 << 20);
    rig.wr(0xc0c, 1 << 31 | 1 << 8);
    rig.wr(0x014, 1 << 4);
    rig.wr(0x104, 1);
    rig.wr(0x104, 0);
    rig.wr(0x028, 1);
    rig.settle();
    rig.bus.now_ns += 10_000_000_000;
    assert_eq!((rig.rd(0x0ac), rig.rd(0xc0c)), (1 << 20, 1 << 31 | 1 << 8));
    assert_eq!((rig.rd(0x014) & 0x90, rig.rd(0x104) & 2, rig.rd(0x024) >> 31), (1 << 4, 0, 0));
}

#[test]
fn hung_channels_do_nothing_until_the_fault_goes() {
    let mut rig = Rig::up();
    let handle = rig.model.handle();
    handle.hang_tx(0);
    handle.hang_rx(0);
    rig.send(0, &plain(MAC, 60), 0);
    rig.incoming(&plain(MAC, 60));
    assert_eq!((rig.all_arrived().len(), rig.take(0)), (0, None));
    handle.clear_faults();
    rig.ring(0);
    rig.wr(0xc5c, RING - 1);
    rig.settle();
    assert_eq!(rig.all_arrived().len(), 1);
    assert!(rig.take(0).is_some());
}
