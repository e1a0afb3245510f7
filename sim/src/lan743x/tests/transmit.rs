//! Transmit: descriptors, offloads, head write-back.

use super::super::frame::fcs;
use super::packets::{checksum, plain, tcp_without_checksums, transport, udp};
use super::*;

const TO: [u8; 6] = [0x02, 9, 9, 9, 9, 9];
const FS_FCS: u32 = 0x2002_0000;
const LS_IOC: u32 = 0x1400_0000;
const EXT: u32 = 1 << 27;
const CHECKSUMS: u32 = 0x0070_0000;
const LSO: u32 = 0x4020_0000;

#[test]
fn a_frame_may_lie_in_several_buffers() {
    let mut rig = Rig::up();
    let bytes = plain(TO, 1000);
    let first = rig.place(&bytes[..14]);
    let second = rig.place(&bytes[14..15]);
    let third = rig.place(&bytes[15..]);
    rig.push(0, [FS_FCS | 14, first, 0, 1000 << 16]);
    rig.push(0, [0x0002_0001, second, 0, 1000 << 16]);
    rig.ring(0);
    rig.settle();
    assert_eq!(rig.arrived(), None, "it has no end yet");
    rig.push(0, [0x0002_0000 | LS_IOC | 985, third, 0, 1000 << 16]);
    rig.ring(0);
    rig.settle();
    assert_eq!(rig.arrived().unwrap(), Frame::new(bytes));
    assert_eq!((rig.head(false, 0), rig.rd(0xd58)), (3, 3));
}

#[test]
fn short_frames_are_padded_with_zeros() {
    let mut rig = Rig::up();
    rig.send(0, &plain(TO, 20), 0);
    let frame = rig.arrived().unwrap();
    assert_eq!((frame.bytes.len(), &frame.bytes[20..]), (60, &[0; 40][..]));
}

#[test]
fn a_frame_may_bring_its_own_check_sequence() {
    let mut rig = Rig::up();
    let bytes = plain(TO, 100);
    for (sequence, damaged) in [(fcs(&bytes), false), (1, true)] {
        let whole = [&bytes[..], &sequence.to_le_bytes()].concat();
        let address = rig.place(&whole);
        rig.push(0, [0x3400_0000 | 104, address, 0, 104 << 16]);
        rig.ring(0);
        rig.settle();
        assert_eq!(rig.arrived().unwrap(), Frame { bytes: bytes.clone(), damaged });
    }
    rig.set(0x108, 1 << 2);
    rig.send(0, &bytes, 0);
    assert!(rig.arrived().unwrap().damaged, "MAC_TX.BFCS");
}

#[test]
fn checksums_are_inserted() {
    let mut rig = Rig::up();
    let good = udp(TO, (1, 2), b"abc");
    let mut bare = good.clone();
    bare[24..26].fill(0);
    bare[40..42].copy_from_slice(&[0x5a, 0x5a]);
    rig.send(0, &bare, CHECKSUMS);
    assert_eq!(rig.arrived().unwrap().bytes[..good.len()], good);
    rig.send(0, &bare, 0);
    assert_eq!(rig.arrived().unwrap().bytes[..bare.len()], bare, "not without being asked");
    rig.send(0, &plain(TO, 60), CHECKSUMS);
    assert_eq!(rig.arrived().unwrap().bytes, plain(TO, 60));
    assert_eq!(rig.model.handle().counters().checksums_not_inserted, 1);
}

/// Pushes a large send as stock Linux does: headers and `head` bytes of data, extension, the rest.
fn large(rig: &mut Rig, bytes: &[u8], head: usize, mss: u32) {
    let first = rig.place(&bytes[..head]);
    let ends = if head == bytes.len() { LS_IOC } else { 0 };
    rig.push(0, [FS_FCS | CHECKSUMS | EXT | ends | head as u32, first, 0, mss << 16]);
    rig.push(0, [LSO | bytes.len() as u32, 0, 0, 0]);
    if head < bytes.len() {
        let second = rig.place(&bytes[head..]);
        rig.push(0, [0x0002_0000 | LS_IOC | (bytes.len() - head) as u32, second, 0, mss << 16]);
    }
    rig.ring(0);
    rig.settle();
}

fn check_segments(frames: &[Frame], data: &[u8], mss: usize) {
    assert_eq!(frames.len(), data.len().div_ceil(mss));
    for (number, (frame, piece)) in frames.iter().zip(data.chunks(mss)).enumerate() {
        let bytes = &frame.bytes;
        let last = number + 1 == frames.len();
        let total = 40 + piece.len();
        assert_eq!(u16::from_be_bytes([bytes[16], bytes[17]]) as usize, total);
        let bytes = &bytes[..14 + total];
        assert_eq!(bytes[54..], *piece);
        assert_eq!(u16::from_be_bytes([bytes[18], bytes[19]]), 0x1234 + number as u16, "IP id");
        let sequence = u32::from_be_bytes([bytes[38], bytes[39], bytes[40], bytes[41]]);
        assert_eq!(sequence, 0xffff_f000_u32.wrapping_add((number * mss) as u32));
        let flags = 0x10 | if last { 0x09 } else { 0 } | if number == 0 { 0x80 } else { 0 };
        assert_eq!(bytes[47], flags, "FIN and PSH last, CWR first");
        assert_eq!(checksum(&[&bytes[14..34]]), 0, "header checksum");
        assert_eq!(transport([10, 0, 0, 1], [10, 0, 0, 2], 6, &bytes[34..]), 0, "TCP checksum");
    }
}

#[test]
fn a_large_send_becomes_segments() {
    for (length, head) in [(10_000, 54), (10_000, 700), (3 * 1460, 54), (1, 55), (60_000, 54)] {
        let mut rig = Rig::up();
        let data: Vec<u8> = (0..length).map(|index| (index * 7) as u8).collect();
        let bytes = tcp_without_checksums(TO, 0xffff_f000, &data);
        large(&mut rig, &bytes, head, 1460);
        check_segments(&rig.all_arrived(), &data, 1460);
        assert_eq!(rig.rd(0xd58), if head == bytes.len() { 2 } else { 3 });
        let counters = rig.model.handle().counters();
        assert_eq!((counters.large_sends, counters.odd_payload_lengths), (1, 0));
    }
}

#[test]
fn a_large_send_of_ipv6_fills_the_payload_length() {
    let mut rig = Rig::up();
    let v4 = tcp_without_checksums(TO, 7, &[0x5a; 3000]);
    let mut bytes = v4[..12].to_vec();
    bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 6, 64]);
    bytes.extend([0xfd; 16]);
    bytes.extend([0xfe; 16]);
    bytes.extend(&v4[34..]);
    large(&mut rig, &bytes, 74, 1000);
    let frames = rig.all_arrived();
    assert_eq!(frames.len(), 3);
    for frame in &frames {
        assert_eq!(frame.bytes[18..20], 1020_u16.to_be_bytes());
        let pseudo = [&[0xfd; 16][..], &[0xfe; 16], &[0, 0, 3, 0xfc, 0, 0, 0, 6]].concat();
        assert_eq!(checksum(&[&pseudo, &frame.bytes[54..]]), 0);
    }
}

#[test]
fn a_large_send_that_is_none_is_dropped() {
    let mut rig = Rig::up();
    large(&mut rig, &plain(TO, 500), 60, 100);
    assert_eq!(rig.all_arrived(), []);
    rig.send(0, &plain(TO, 60), 0);
    assert_eq!(rig.all_arrived().len(), 1, "the channel goes on");
}

#[test]
fn wrong_sequences_are_reported_and_passed_over() {
    let frame = |rig: &mut Rig, flags: u32| {
        let address = rig.place(&plain(TO, 64));
        rig.push(0, [flags | 0x0002_0000 | 64, address, 0, 64 << 16]);
    };
    // An end without a beginning; an extension of nothing; a second beginning; no extension.
    let cases: [(&[u32], u32, usize); 4] = [
        (&[LS_IOC, FS_FCS | LS_IOC], 1, 1),
        (&[LSO, FS_FCS | LS_IOC], 8, 1),
        (&[FS_FCS, FS_FCS | LS_IOC], 2, 1),
        (&[FS_FCS | EXT, FS_FCS | LS_IOC], 4, 1),
    ];
    for (words, error, good) in cases {
        for halts in [false, true] {
            let mut rig = Rig::up();
            rig.wr(0xd60, if halts { 1 << 16 } else { 0 });
            words.iter().for_each(|word| frame(&mut rig, *word));
            rig.ring(0);
            rig.settle();
            assert_eq!(rig.rd(0xd60) & 0xff, error, "{words:x?}");
            assert_eq!(rig.all_arrived().len(), if halts { 0 } else { good }, "{words:x?}");
            // The error interrupt shows it only where it was told to halt.
            assert_eq!(rig.rd(0xc10) >> 21 & 1, halts.into());
            rig.wr(0xd60, error);
            assert_eq!(rig.rd(0xd60) & 0xff, 0);
        }
    }
}

#[test]
fn memory_that_cannot_be_read_costs_the_frame_or_the_channel() {
    let mut rig = Rig::up();
    rig.push(0, [FS_FCS | LS_IOC | 64, 0x7000_0000, 0, 64 << 16]);
    rig.ring(0);
    rig.settle();
    assert_eq!((rig.all_arrived().len(), rig.rd(0xd60)), (0, 1 << 7));
    assert_eq!(rig.head(false, 0), 1, "the host has its buffer back");
    rig.send(0, &plain(TO, 60), 0);
    assert_eq!(rig.all_arrived().len(), 1);
    rig.bus.remove_memory(RAM);
    rig.ring(0);
    rig.wr(0xd5c, 5);
    rig.settle();
    assert_eq!(rig.rd(0xd60) & 1 << 6, 1 << 6);
    assert_eq!(rig.rd(0xc10) >> 21 & 1, 1);
}

#[test]
fn a_tail_beyond_the_ring_is_an_error() {
    let mut rig = Rig::up();
    rig.wr(0xd5c, RING);
    assert_eq!((rig.rd(0xd60), rig.rd(0xd5c)), (1 << 5, 0));
    rig.send(0, &plain(TO, 60), 0);
    assert_eq!(rig.all_arrived().len(), 1);
    rig.wr(0xd60, 1 << 21);
    rig.wr(0xd5c, 0xffff);
    rig.send(0, &plain(TO, 60), 0);
    assert_eq!(rig.all_arrived().len(), 0, "halted");
}

#[test]
fn the_head_is_written_by_threshold_flush_and_stop() {
    // Triggered by IOC, threshold 3, no moderation timer.
    let mut rig = Rig::up();
    rig.open_tx(0, 0x1000_0023);
    for sent in 1..=3 {
        rig.send(0, &plain(TO, 60), 0);
        assert_eq!(rig.head(false, 0), 0, "after {sent}");
    }
    assert_eq!((rig.rd(0xd58), rig.rd(0xc10) & 1), (0, 0));
    rig.send(0, &plain(TO, 60), 0);
    assert_eq!((rig.head(false, 0), rig.rd(0xd58), rig.rd(0xc10) & 1), (4, 4, 1));
    rig.send(0, &plain(TO, 60), 0);
    rig.wr(0xd40, 1 << 31);
    assert_eq!((rig.head(false, 0), rig.rd(0xd40)), (5, 0x1000_0023), "flushed, and not changed");
    rig.send(0, &plain(TO, 60), 0);
    rig.wr(0xc0c, 1 << 16);
    assert_eq!(rig.head(false, 0), 6, "stopped");
}

#[test]
fn the_head_is_written_for_what_is_selected() {
    for (select, flags, written) in
        [(0, 0, false), (1, 0, true), (2, 0, true), (1, 1, false), (2, 1, true), (3, 1, true)]
    {
        let mut rig = Rig::up();
        rig.open_tx(0, select << 28 | 0x20);
        let address = rig.place(&plain(TO, 60));
        let ioc = if flags == 0 { 1 << 26 } else { 0 };
        rig.push(0, [0x3002_0000 | ioc | 60, address, 0, 60 << 16]);
        rig.ring(0);
        rig.settle();
        assert_eq!(rig.head(false, 0) == 1, written, "select {select}, IOC {}", ioc != 0);
    }
}

#[test]
fn descriptors_may_be_spaced() {
    let mut rig = Rig::new(presets::lan7430_a0());
    rig.probe();
    rig.wr(0xc00, 6 << 4 | 2);
    rig.open_tx(0, 0x1000_0020);
    rig.set(0x100, 2 << 1 | 1 << 3);
    let address = rig.place(&plain(TO, 60));
    for index in 0..2 {
        rig.put_words(false, 0, index * 4, [0x3402_0000 | 60, address, 0, 60 << 16]);
    }
    rig.wr(0xd5c, 2);
    rig.settle();
    assert_eq!(rig.all_arrived().len(), 2);
}

#[test]
fn the_ring_wraps_and_descriptors_are_fetched_in_blocks() {
    let mut rig = Rig::up();
    for number in 0..200 {
        rig.send(0, &plain(TO, 60 + number), 0);
        assert_eq!(rig.arrived().unwrap().bytes.len(), 60 + number);
    }
    rig.model.handle().reset_counters();
    let address = rig.place(&plain(TO, 60));
    for _ in 0..32 {
        rig.push(0, [0x3402_0000 | 60, address, 0, 60 << 16]);
    }
    rig.ring(0);
    rig.settle();
    let counters = rig.model.handle().counters().tx[0];
    assert_eq!((counters.fetched, counters.fetches, counters.doorbells), (32, 8, 1));
    assert_eq!(rig.all_arrived().len(), 32);
}

#[test]
fn nothing_leaves_while_the_mac_the_fifo_or_the_link_is_off() {
    let mut rig = Rig::up();
    rig.wr(0x108, 0);
    rig.wait(0x108, 2, 2);
    rig.send(0, &plain(TO, 60), 0);
    assert_eq!(rig.all_arrived().len(), 0);
    rig.wr(0x108, 1);
    rig.settle();
    assert_eq!(rig.all_arrived().len(), 1, "it waited");
    rig.wr(0x0c4, 1 << 24);
    rig.wait(0x0c4, 1 << 28, 0);
    rig.send(0, &plain(TO, 60), 0);
    assert_eq!(rig.all_arrived().len(), 0);
    rig.wr(0x0c4, 1 << 28);
    rig.settle();
    assert_eq!(rig.all_arrived().len(), 1);
    rig.far.wire().set_up(false);
    rig.send(0, &plain(TO, 60), 0);
    assert_eq!(rig.head(false, 0), 3, "without a link it is lost");
    rig.far.wire().set_up(true);
    assert_eq!(rig.all_arrived().len(), 0);
}

#[test]
fn a_second_family_chip_has_four_transmit_channels() {
    let mut rig = Rig::up_with(presets::pci11414_b0());
    for channel in 0..4 {
        rig.send(channel, &plain(TO, 60 + channel), 0);
        assert_eq!(rig.arrived().unwrap().bytes.len(), 60 + channel);
        assert_eq!(rig.head(false, channel), 1);
    }
}
