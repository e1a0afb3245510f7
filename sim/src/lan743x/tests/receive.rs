//! Receive: buffers, write-back, errors, flow control.

use super::super::frame::fcs;
use super::packets::{plain, tagged};
use super::*;
use crate::lan743x::DropReason;

#[test]
fn frames_fill_as_many_buffers_as_they_need() {
    // As Linux with an MTU of 500: buffers of 520 bytes, of which 2 pad the first. Echo requests with 472 and
    // 992 bytes of data just fit into one and two, and one byte more does not.
    for (data, buffers) in [(472, 1), (473, 2), (992, 2), (993, 3)] {
        for extra in [false, true] {
            let mut params = presets::lan7430_a0();
            params.extra_buffer_every = u32::from(extra);
            let mut rig = Rig::new(params);
            rig.buffer = 520;
            rig.bring_up();
            let bytes = plain(MAC, data + 14 + 20 + 8);
            rig.incoming(&bytes);
            let got = rig.take(0).unwrap();
            assert_eq!(got.length, bytes.len() + 4);
            assert_eq!(got.bytes[..bytes.len()], bytes);
            assert_eq!(got.bytes[bytes.len()..], fcs(&bytes).to_le_bytes());
            assert!(got.buffers == buffers || extra && got.buffers > buffers, "{data}: {}", got.buffers);
        }
    }
}

#[test]
fn a_frame_of_more_buffers_than_the_cache_holds_arrives() {
    let mut params = presets::lan7430_a0();
    params.cache_descriptors = 1;
    let mut rig = Rig::new(params);
    rig.buffer = 64;
    rig.bring_up();
    rig.incoming(&plain(MAC, 1514));
    assert_eq!(rig.take(0).unwrap().buffers, 24);
}

#[test]
fn a_frame_waits_for_all_of_its_buffers() {
    let mut rig = Rig::new(presets::lan7430_a0());
    rig.buffer = 520;
    rig.bring_up();
    rig.wr(0xc0c, 1 << 8);
    rig.open_rx(0, 0x20);
    rig.wr(0xc5c, 2);
    rig.incoming(&plain(MAC, 1300));
    assert_eq!((rig.head(true, 0), rig.rd(0x0b4)), (0, 1304), "it is in the FIFO");
    assert_eq!(rig.rd(0x0a0) >> 28, 1, "a frame is available");
    rig.wr(0xc5c, 3);
    rig.settle();
    assert_eq!((rig.head(true, 0), rig.rd(0x0b4), rig.rd(0x0a0) >> 28), (3, 0, 0));
}

#[test]
fn a_descriptor_that_software_does_not_give_is_not_used() {
    let mut rig = Rig::up();
    let [word, address, ..] = rig.words(true, 0, 0);
    rig.wr(0xc0c, 1 << 8);
    rig.open_rx(0, 0x20);
    rig.put_words(true, 0, 0, [word & !(1 << 15), address, 0, 0]);
    // What it had fetched is looked at again.
    rig.wr(0xc5c, 10);
    rig.incoming(&plain(MAC, 60));
    assert_eq!(rig.head(true, 0), 0);
    rig.give_buffer(0, 0);
    rig.wr(0xc5c, 11);
    rig.settle();
    assert_eq!(rig.head(true, 0), 1);
    assert!(rig.model.handle().counters().rx[0].not_owned > 0);
}

#[test]
fn padding_follows_the_configuration() {
    for pad in [0, 2] {
        let mut rig = Rig::new(presets::lan7430_a0());
        rig.pad = pad;
        rig.bring_up();
        rig.incoming(&plain(MAC, 60));
        assert_eq!(rig.take(0).unwrap().bytes[..60], plain(MAC, 60));
    }
}

#[test]
fn the_check_sequence_is_stripped_on_demand() {
    let mut rig = Rig::up();
    rig.wr(0x104, 0);
    rig.wait(0x104, 2, 2);
    rig.wr(0x104, 1518 << 16 | 1 << 4 | 1);
    rig.incoming(&plain(MAC, 100));
    let got = rig.take(0).unwrap();
    assert_eq!((got.length, got.bytes), (100, plain(MAC, 100)));
}

#[test]
fn sizes_end_where_the_mac_says_and_tags_are_allowed_for() {
    let mut rig = Rig::up();
    let double = |length| {
        let mut bytes = tagged(MAC, 5, length);
        bytes[16..18].copy_from_slice(&[0x81, 0x00]);
        bytes
    };
    let cases = [
        (plain(MAC, 1514), true),
        (plain(MAC, 1515), false),
        (tagged(MAC, 5, 1518), true),
        (tagged(MAC, 5, 1519), false),
        (double(1522), true),
        (double(1523), false),
    ];
    for (bytes, fits) in &cases {
        rig.incoming(bytes);
        assert_eq!(rig.take(0).map(|got| got.length), fits.then_some(bytes.len() + 4));
    }
    assert_eq!(rig.rd(0x1214), 3, "oversize");
    assert_eq!(rig.rd(0x114), 1 << 7);
    rig.wr(0x114, 1 << 7);
    assert_eq!(rig.rd(0x114), 0);
}

#[test]
fn the_size_is_frozen_while_the_receiver_runs() {
    let mut rig = Rig::up();
    let before = rig.rd(0x104);
    rig.wr(0x104, 9000 << 16 | 1);
    assert_eq!(rig.rd(0x104), before);
    rig.wr(0x104, before & !1);
    rig.wait(0x104, 2, 2);
    rig.settle();
    assert_eq!(rig.rd(0x604) >> 18 & 1, 1, "receiver disabled");
    rig.wr(0x104, 9000 << 16 | 3);
    assert_eq!(rig.rd(0x104), 9000 << 16 | 1);
}

#[test]
fn bad_frames_are_dropped_or_stored() {
    let bad = Frame { bytes: plain(MAC, 100), damaged: true };
    let mut rig = Rig::up();
    rig.incoming_frame(bad.clone());
    rig.incoming(&plain(MAC, 50));
    assert_eq!(rig.take(0), None);
    assert_eq!((rig.rd(0x1200), rig.rd(0x1210), rig.rd(0x114)), (1, 1, 1 << 8 | 1 << 6));
    rig.wr(0x0dc, 1);
    rig.incoming_frame(bad);
    let got = rig.take(0).unwrap();
    assert_eq!(got.status & (1 << 8 | 1 << 2), 1 << 8 | 1 << 2);
    assert_ne!(got.bytes[100..], fcs(&got.bytes[..100]).to_le_bytes());
}

#[test]
fn descriptors_go_back_by_threshold_flush_and_stop() {
    let mut rig = Rig::up();
    rig.open_rx(0, 0x0300_0020);
    for number in 1..=3 {
        rig.incoming(&plain(MAC, 60));
        assert_eq!((rig.head(true, 0), rig.rd(0xc58)), (0, 0), "after {number}");
        assert_ne!(rig.words(true, 0, 0)[0] >> 15 & 1, 0, "not written back");
    }
    rig.incoming(&plain(MAC, 60));
    assert_eq!((rig.head(true, 0), rig.rd(0xc58), rig.rd(0xc10) >> 16 & 1), (4, 4, 1));
    rig.incoming(&plain(MAC, 60));
    rig.wr(0xc40, 1 << 31);
    assert_eq!((rig.head(true, 0), rig.rd(0xc40)), (5, 0x0300_0020));
    rig.incoming(&plain(MAC, 60));
    rig.wr(0xc0c, 1);
    assert_eq!(rig.head(true, 0), 6);
}

#[test]
fn descriptors_are_written_before_the_head_and_data_before_both() {
    let mut rig = Rig::up();
    rig.bus.writes.clear();
    rig.incoming(&plain(MAC, 60));
    let addresses: Vec<u64> = rig.bus.writes.iter().map(|(address, _)| *address).collect();
    assert_eq!(addresses, [RAM + RX_DATA + 2, RAM + 0x8000, RAM + HEADS + 16]);
}

#[test]
fn a_disabled_or_full_fifo_loses_frames() {
    let mut rig = Rig::up();
    rig.wr(0xc0c, 1);
    rig.wait(0xc0c, 0x10, 0);
    // 32 KiB hold 21 frames of 1518 bytes, rounded up to words.
    for _ in 0..25 {
        rig.incoming(&plain(MAC, 1514));
    }
    let counters = rig.model.handle().counters();
    assert_eq!(counters.dropped(DropReason::FifoFull), 4);
    assert_eq!((rig.rd(0x1218), rig.rd(0x0a0) & 0x0110_0000), (4, 0x0110_0000));
    assert_eq!(rig.rd(0x0b4), 21 * 1520);
    rig.wr(0x0ac, 1 << 24);
    rig.wait(0x0ac, 1 << 28, 0);
    rig.settle();
    assert_eq!(rig.rd(0x0a0) & 1 << 4, 1 << 4);
    rig.incoming(&plain(MAC, 60));
    assert_eq!(rig.model.handle().counters().dropped(DropReason::FifoDisabled), 1);
    assert_eq!(rig.rd(0x1218), 4, "not counted by hardware");
    rig.wr(0x0ac, 1 << 20);
    rig.wait(0x0ac, 1 << 20, 0);
    assert_eq!(rig.rd(0x0b4), 0);
}

#[test]
fn fifo_ends_divide_the_memory() {
    let mut rig = Rig::up();
    rig.wr(0xc0c, 0xf);
    rig.wr(0x0b0, 0x3f2f_1f0f);
    for _ in 0..10 {
        rig.incoming(&plain(MAC, 1514));
    }
    assert_eq!(rig.rd(0x0b4), 5 * 1520, "8 KiB");
}

#[test]
fn pause_frames_come_and_go() {
    let mut rig = Rig::up();
    rig.wr(0x0e0, 1 << 7 | 4 | 1 << 8);
    rig.wr(0x10c, 1 << 30 | 0x1234);
    rig.wr(0xc0c, 1);
    rig.wait(0xc0c, 0x10, 0);
    for _ in 0..3 {
        rig.incoming(&plain(MAC, 1000));
    }
    let pauses = rig.all_arrived();
    assert_eq!(pauses.len(), 1, "one at the crossing");
    let bytes = &pauses[0].bytes;
    assert_eq!(bytes[..6], [1, 0x80, 0xc2, 0, 0, 1]);
    assert_eq!((&bytes[6..12], &bytes[12..18]), (&MAC[..], &[0x88, 8, 0, 1, 0x12, 0x34][..]));
    rig.wr(0xc0c, 1 << 4);
    rig.settle();
    assert_eq!(rig.all_arrived()[0].bytes[16..18], [0, 0], "there is room again");
    // And those that come are obeyed: 100 quanta at 1000 Mbit/s are 51.2 us.
    rig.wr(0x10c, 1 << 29);
    let mut pause = pauses[0].bytes.clone();
    pause[16..18].copy_from_slice(&[0, 100]);
    rig.far.send(rig.bus.now_ns, Frame::new(pause));
    rig.model.event(&mut rig.bus, super::super::wire::ARRIVAL);
    let before = rig.bus.now_ns;
    rig.send(0, &plain(MAC, 60), 0);
    assert!(rig.bus.now_ns >= before + 51_200);
    assert_eq!((rig.all_arrived().len(), rig.rd(0x1234)), (1, 1));
}

#[test]
fn the_internal_loop_brings_frames_back() {
    let mut rig = Rig::up();
    rig.set(0x100, 1 << 10);
    rig.send(0, &plain(MAC, 80), 0);
    assert_eq!(rig.take(0).unwrap().bytes[..80], plain(MAC, 80));
    assert_eq!(rig.all_arrived().len(), 0);
}

#[test]
fn a_mac_of_another_speed_hears_and_says_nothing() {
    let mut rig = Rig::up();
    let cr = rig.rd(0x100);
    rig.wr(0x100, cr & !6 | 2);
    rig.incoming(&plain(MAC, 60));
    rig.send(0, &plain(MAC, 60), 0);
    assert_eq!((rig.take(0), rig.all_arrived().len()), (None, 0));
    rig.set(0x100, 1 << 11);
    assert_eq!(rig.rd(0x100) >> 1 & 3, 2, "it detects gigabit");
    rig.incoming(&plain(MAC, 60));
    assert!(rig.take(0).is_some());
}

#[test]
fn a_frame_to_memory_that_is_gone_is_lost_and_counted() {
    let mut rig = Rig::up();
    rig.bus.remove_memory(RAM);
    rig.incoming(&plain(MAC, 60));
    assert!(rig.model.handle().counters().rx[0].lost_writes > 0);
}

#[test]
fn counters_add_up() {
    let mut rig = Rig::up();
    rig.incoming(&plain(MAC, 60));
    rig.incoming(&plain([0xff; 6], 300));
    rig.send(0, &plain(MAC, 1514), 0);
    let rx = [0x1228, 0x122c, 0x121c, 0x1220, 0x1238, 0x1244, 0x1254].map(|offset| rig.rd(offset));
    assert_eq!(rx, [1, 1, 64, 304, 1, 1, 2]);
    let tx = [0x12ac, 0x12a0, 0x12d0, 0x12d8].map(|offset| rig.rd(offset));
    assert_eq!(tx, [1, 1518, 1, 1]);
    // Writable for tests only; a roll-over is told of.
    rig.wr(0x1254, 5);
    assert_eq!(rig.rd(0x1254), 2);
    rig.set(0x100, 1 << 4);
    rig.wr(0x1254, u32::MAX);
    rig.incoming(&plain(MAC, 60));
    assert_eq!((rig.rd(0x1254), rig.rd(0x127c)), (0, 1 << 21));
    assert_eq!(rig.rd(0x604) >> 14 & 1, 1);
    rig.set(0x100, 1 << 5);
    assert_eq!((rig.rd(0x127c), rig.rd(0x12d8)), (0, 0));
}
