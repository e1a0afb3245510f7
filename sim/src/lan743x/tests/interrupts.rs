//! Interrupts: the modes of A0 and of later revisions, moderation, INTx.

use super::packets::plain;
use super::*;

const RX0: u32 = 1 << 24;
const TX0: u32 = 1 << 16;
const SW: u32 = 1 << 9;

/// A controller whose channel 0 interrupts on vectors 1 (transmit) and 2 (receive), as stock Linux maps
/// them on the first revision.
fn vectors(params: Params) -> Rig {
    let mut rig = Rig::up_with(params);
    rig.wr(0x798, u32::MAX);
    rig.wr(0x7a0, 2);
    rig.wr(0x7a4, 1);
    rig.wr(0x7a8, 0);
    rig.wr(0x794, 7);
    rig.wr(0x788, 1 | RX0 | TX0);
    rig.bus.raised.clear();
    rig
}

#[test]
fn the_software_interrupt_answers_the_self_test() {
    let mut rig = vectors(presets::lan7430_a0());
    rig.wr(0x784, SW);
    assert_eq!(rig.bus.raised, [], "not enabled");
    assert_eq!(rig.rd(0x780) & (SW | 1), SW, "set, but the master bit shows enabled ones alone");
    rig.wr(0x788, SW);
    assert_eq!((rig.bus.raised.as_slice(), rig.bus.intx), (&[0][..], true));
    assert_eq!(rig.rd(0x780) & (SW | 1), SW | 1);
    rig.wr(0x780, SW);
    assert_eq!((rig.rd(0x780) & (SW | 1), rig.bus.intx), (0, false));
}

#[test]
fn a0_clears_by_hand() {
    let mut rig = vectors(presets::lan7430_a0());
    assert_eq!(rig.rd(0x790), 0, "A0 has no register that clears by reading");
    rig.incoming(&plain(MAC, 60));
    assert_eq!(rig.bus.raised, [2]);
    assert_eq!((rig.rd(0x780) & RX0, rig.rd(0xc10) >> 16 & 1, rig.rd(0x7ac)), (RX0, 1, 1 << 2));
    rig.incoming(&plain(MAC, 60));
    assert_eq!(rig.bus.raised, [2], "the request is still up");
    // The handler masks the vector and the source, the poll acknowledges, takes, and enables.
    rig.wr(0x798, 1 << 2);
    rig.wr(0x78c, RX0);
    rig.wr(0x794, 1 << 2);
    rig.wr(0xc10, 1 << 16);
    assert_eq!(rig.rd(0x780) & RX0, 0);
    while rig.take(0).is_some() {}
    rig.wr(0x788, RX0);
    assert_eq!(rig.bus.raised, [2]);
    rig.incoming(&plain(MAC, 60));
    assert_eq!(rig.bus.raised, [2, 2]);
    // Writing the top bit clears the source as well.
    rig.wr(0x780, RX0);
    assert_eq!((rig.rd(0x780) & RX0, rig.rd(0xc10) >> 16 & 1), (0, 0));
}

#[test]
fn an_event_before_the_enable_interrupts_at_the_enable() {
    let mut rig = vectors(presets::lan7430_a0());
    for (disable, enable, bits) in [(0x78c, 0x788, RX0), (0x798, 0x794, 1 << 2), (0xc18, 0xc14, 1 << 16)] {
        rig.bus.raised.clear();
        rig.wr(disable, bits);
        rig.incoming(&plain(MAC, 60));
        assert_eq!(rig.bus.raised, []);
        rig.wr(enable, bits);
        assert_eq!(rig.bus.raised, [2], "{enable:#x}");
        rig.wr(0x780, RX0);
    }
    rig.bus.raised.clear();
    rig.wr(0x78c, 1);
    rig.incoming(&plain(MAC, 60));
    rig.wr(0x788, 1);
    assert_eq!(rig.bus.raised, [2], "the master enable");
}

#[test]
fn b0_clears_status_and_enables_with_the_message() {
    let mut rig = vectors(presets::lan7430_b0());
    // Vector enable, top enable and status clear by themselves; the tail sets the enables again.
    rig.wr(0x79c, 1 << 2);
    rig.wr(0xc64, 1 << 6 | 1 << 3);
    rig.incoming(&plain(MAC, 60));
    assert_eq!(rig.bus.raised, [2]);
    assert_eq!((rig.rd(0x780) & RX0, rig.rd(0xc10) >> 16 & 1), (0, 0));
    assert_eq!((rig.rd(0x788) & RX0, rig.rd(0x794) & 1 << 2), (0, 0));
    assert_eq!(rig.rd(0xc14) >> 16 & 1, 1, "the low enable stays unless it is told");
    rig.incoming(&plain(MAC, 60));
    assert_eq!(rig.bus.raised, [2], "masked");
    rig.wr(0xc5c, 1 << 30 | 1 << 29 | (RING - 1));
    assert_eq!(rig.bus.raised, [2, 2], "what came meanwhile interrupts now");
    assert_eq!(rig.rd(0xc5c), RING - 1);
    rig.wr(0xc64, 1 << 5);
    rig.wr(0xc5c, 1 << 30 | 1 << 29 | (RING - 1));
    rig.incoming(&plain(MAC, 60));
    assert_eq!(rig.rd(0xc14) >> 16 & 1, 0);
    rig.wr(0xc5c, 1 << 31 | (RING - 1));
    assert_eq!(rig.rd(0xc14) >> 16 & 1, 1);
}

#[test]
fn a0_has_none_of_the_automatic_modes() {
    let mut rig = vectors(presets::lan7430_a0());
    rig.wr(0x79c, 0xff);
    rig.wr(0xc64, 0x78);
    rig.incoming(&plain(MAC, 60));
    assert_eq!(rig.rd(0x780) & RX0, RX0);
    rig.wr(0x78c, RX0);
    rig.wr(0xc5c, 7 << 29 | (RING - 1));
    assert_eq!(rig.rd(0x788) & RX0, 0);
}

#[test]
fn status_clears_by_reading_as_the_mode_says() {
    // mode, top enable, low enable, cleared by top read, cleared by low read
    for (mode, top, low, by_top, by_low) in [
        (0, true, true, false, false),
        (4, false, false, true, true),
        (5, true, true, true, true),
        (5, true, false, false, false),
        (6, false, true, false, true),
        (6, true, true, true, true),
        (7, true, true, true, true),
        (7, false, true, false, true),
    ] {
        for read_top in [true, false] {
            let mut rig = Rig::up_with(presets::lan7430_b0());
            rig.wr(0xc64, mode);
            rig.wr(0xc18, if low { 0 } else { 1 << 16 });
            rig.wr(0x788, if top { RX0 } else { 0 });
            rig.incoming(&plain(MAC, 60));
            rig.rd(if read_top { 0x790 } else { 0xc2c });
            let cleared = rig.rd(0xc10) >> 16 & 1 == 0;
            assert_eq!(cleared, if read_top { by_top } else { by_low }, "{mode} {top} {low} {read_top}");
        }
    }
}

#[test]
fn enables_clear_by_reading() {
    let mut rig = vectors(presets::lan7430_b0());
    rig.wr(0xc64, 1 << 4 | 7);
    rig.rd(0x790);
    assert_eq!(rig.rd(0x788) & RX0, RX0, "not without a status");
    rig.incoming(&plain(MAC, 60));
    assert_eq!(rig.rd(0x790) & (RX0 | 1), RX0 | 1);
    assert_eq!((rig.rd(0x788) & RX0, rig.rd(0x780) & RX0), (0, 0));
}

#[test]
fn moderation_holds_back_and_catches_up() {
    let mut params = presets::lan7430_b0();
    params.moderation_unit_ns = 100;
    let mut rig = vectors(params);
    rig.open_rx(0, 0x4700_0020);
    rig.wr(0x7c0 + 5 * 4, 400);
    rig.wr(0x7b0, 0x5);
    rig.wr(0x7b4, 0xf);
    rig.wr(0x7b8, 0x00ff_ffff);
    rig.wr(0xc64, 1 << 3);
    rig.far.send(0, Frame::new(plain(MAC, 60)));
    rig.model.event(&mut rig.bus, super::super::wire::ARRIVAL);
    while rig.bus.raised.is_empty() {
        assert!(rig.bus.step(&mut rig.model));
    }
    let first = rig.bus.now_ns;
    assert_eq!(rig.rd(0x7c0 + 5 * 4), 400 | 1 << 18, "the timer runs");
    assert_eq!(rig.head(true, 0), 1);
    rig.far.send(rig.bus.now_ns, Frame::new(plain(MAC, 60)));
    rig.model.event(&mut rig.bus, super::super::wire::ARRIVAL);
    while rig.bus.raised.len() < 2 {
        assert!(rig.bus.step(&mut rig.model));
        assert!(rig.bus.raised.len() == 2 || rig.head(true, 0) == 1, "below the threshold it waits");
    }
    assert_eq!((rig.bus.now_ns, rig.head(true, 0)), (first + 40_000, 2));
}

#[test]
fn intx_is_a_level() {
    let mut rig = vectors(presets::lan7430_a0());
    rig.incoming(&plain(MAC, 60));
    assert!(rig.bus.intx);
    rig.wr(0x78c, 1);
    assert!(!rig.bus.intx, "the master enable gates it");
    rig.wr(0x788, 1);
    assert!(rig.bus.intx);
    rig.wr(0xc10, 1 << 16);
    assert!(!rig.bus.intx);
    assert_eq!(rig.model.handle().counters().intx_rises, 2);
}

#[test]
fn stop_interrupts_cascade_by_revision() {
    for (params, bit) in [(presets::lan7430_a0(), RX0), (presets::lan7430_b0(), 1 << 10)] {
        let mut rig = Rig::up_with(params);
        rig.wr(0xc10, 0xff00);
        rig.wr(0xc14, 1 << 12);
        assert_eq!(rig.rd(0x780) & (RX0 | 1 << 10), 0);
        rig.wr(0xc0c, 1);
        rig.settle();
        assert_eq!(rig.rd(0x780) & (RX0 | 1 << 10), bit);
        rig.wr(0xc10, 1 << 12);
        assert_eq!(rig.rd(0x780) & (RX0 | 1 << 10), 0);
    }
}

#[test]
fn an_acknowledge_that_is_late_takes_the_next_frame_s_bit_away() {
    let mut rig = vectors(presets::lan7430_a0());
    rig.model.handle().delay_status_clears(5_000);
    rig.incoming(&plain(MAC, 60));
    // Stock Linux: acknowledge, then look. The frame that comes between is not looked at again.
    rig.wr(0xc10, 1 << 16);
    assert_ne!(rig.take(0), None);
    rig.far.send(rig.bus.now_ns, Frame::new(plain(MAC, 61)));
    rig.model.event(&mut rig.bus, super::super::wire::ARRIVAL);
    rig.settle();
    assert_eq!(rig.rd(0xc10) >> 16 & 1, 0, "its bit is gone");
    assert_eq!(rig.head(true, 0), 2, "and it is there");
}

#[test]
fn a_read_pushes_late_writes_and_their_order_stays() {
    let mut rig = vectors(presets::lan7430_a0());
    rig.model.handle().delay_status_clears(5_000);
    rig.incoming(&plain(MAC, 60));
    rig.wr(0x78c, RX0);
    assert_eq!(rig.rd(0x788) & RX0, 0, "other writes are not late");
    rig.wr(0xc10, 1 << 16);
    rig.wr(0x788, RX0);
    rig.wr(0x070, 0x1234);
    assert_eq!(rig.rd(0xc10) >> 16 & 1, 0, "a read pushes the write before it");
    assert_eq!((rig.rd(0x788) & RX0, rig.rd(0x070)), (RX0, 0x1234));
    assert_eq!(rig.bus.raised, [2], "acknowledged before it was enabled");
}
