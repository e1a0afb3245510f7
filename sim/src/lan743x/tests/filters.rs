//! Filters, checksum status, channel choice.

use super::super::frame::hash_bit;
use super::packets::{Ipv4, ipv4, plain, tagged, udp};
use super::*;

const AU: u32 = 1 << 8;
const AM: u32 = 1 << 9;
const AB: u32 = 1 << 10;
const DPF: u32 = 1 << 1;
const DHF: u32 = 1 << 2;
const MHF: u32 = 1 << 3;
const SPF: u32 = 1 << 4;
const VF: u32 = 1 << 5;
const UF: u32 = 1 << 6;
const CHECKS: u32 = 1 << 11 | 1 << 12;
const GROUP: [u8; 6] = [1, 0, 0x5e, 0, 0, 1];
const OTHER: [u8; 6] = [2, 9, 9, 9, 9, 9];

fn accepts(rig: &mut Rig, bytes: &[u8]) -> bool {
    rig.incoming(bytes);
    (0..4).any(|channel| rig.take(channel).is_some())
}

fn data_port(rig: &mut Rig, address: u32, word: u32) {
    rig.wait(0x024, 1 << 31, 1 << 31);
    rig.wr(0x024, 1);
    rig.wr(0x02c, address);
    rig.wr(0x030, word);
    rig.wr(0x028, 1);
    rig.wait(0x024, 1 << 31, 1 << 31);
}

#[test]
fn addresses_are_filtered() {
    let all = [MAC, OTHER, GROUP, [0xff; 6]];
    for (ctl, want) in [
        (0, [false; 4]),
        (DPF, [true, false, false, false]),
        (AU, [true, true, false, false]),
        (AM, [false, false, true, false]),
        (AB, [false, false, false, true]),
        (DPF | AB, [true, false, false, true]),
        (AU | AM | AB, [true; 4]),
        (MHF, [false; 4]),
        (DHF, [false; 4]),
    ] {
        let mut rig = Rig::up();
        rig.wr(0x508, ctl);
        assert_eq!(all.map(|to| accepts(&mut rig, &plain(to, 60))), want, "{ctl:#x}");
    }
}

#[test]
fn hashed_addresses_pass_by_their_bit() {
    for (to, ctl) in [(GROUP, MHF), (OTHER, DHF)] {
        let mut rig = Rig::up();
        let bit = hash_bit(&to) as u32;
        data_port(&mut rig, 128 + bit / 32, 1 << (bit % 32));
        rig.wr(0x508, ctl);
        assert!(accepts(&mut rig, &plain(to, 60)));
        rig.wr(0x508, ctl ^ (MHF | DHF));
        assert!(!accepts(&mut rig, &plain(to, 60)), "of the other kind");
        data_port(&mut rig, 128 + bit / 32, 0);
        rig.wr(0x508, ctl);
        assert!(!accepts(&mut rig, &plain(to, 60)));
    }
}

#[test]
fn the_data_port_reads_back() {
    let mut rig = Rig::up();
    data_port(&mut rig, 143, 0xabcd_0123);
    rig.wr(0x030, 0);
    rig.wr(0x028, 0);
    assert_eq!(rig.rd(0x024) >> 31, 0, "busy");
    rig.wait(0x024, 1 << 31, 1 << 31);
    assert_eq!(rig.rd(0x030), 0xabcd_0123);
    data_port(&mut rig, 144, 7);
    rig.settle();
    assert_eq!(rig.rd(0x780) & 1 << 4, 1 << 4, "data port interrupt");
    rig.wr(0x780, 1 << 4);
    assert_eq!(rig.rd(0x780) & 1 << 4, 0);
}

#[test]
fn entries_filter_sources_and_choose_channels() {
    let mut rig = Rig::up();
    let source = [0x02, 0xaa, 0xbb, 0xcc, 0xdd, 0xee];
    rig.wr(0x508, AU | SPF);
    assert!(!accepts(&mut rig, &plain(MAC, 60)));
    rig.wr(0x40c, u32::from_le_bytes([2, 0xaa, 0xbb, 0xcc]));
    rig.wr(0x408, 0xc000_eedd);
    assert!(accepts(&mut rig, &plain(MAC, 60)), "{source:x?} is known");
    rig.wr(0x508, DPF);
    let entry = rig.rd(0x400);
    rig.wr(0x400, entry | 1 << 18 | 3 << 16);
    rig.incoming(&plain(MAC, 60));
    assert!(rig.take(3).is_some());
    rig.wr(0x400, entry);
    rig.wr(0x508, DPF | 2 << 16);
    rig.incoming(&plain(MAC, 60));
    assert!(rig.take(2).is_some(), "default channel");
}

#[test]
fn tags_are_filtered() {
    let mut rig = Rig::up();
    rig.wr(0x508, AU | VF);
    assert!(!accepts(&mut rig, &tagged(MAC, 100, 64)));
    assert!(accepts(&mut rig, &plain(MAC, 64)));
    data_port(&mut rig, 3, 1 << 4);
    assert!(accepts(&mut rig, &tagged(MAC, 5 << 13 | 100, 64)));
    assert!(!accepts(&mut rig, &tagged(MAC, 101, 64)));
    rig.wr(0x508, AU | UF);
    assert!(!accepts(&mut rig, &plain(MAC, 64)));
    rig.incoming(&tagged(MAC, 101, 64));
    assert_eq!(rig.take(0).unwrap().status & 1 << 9, 1 << 9);
    // The chip knows one type more, which software chooses.
    let mut other = tagged(MAC, 7, 64);
    other[12..14].copy_from_slice(&[0x88, 0xa8]);
    assert!(!accepts(&mut rig, &other));
    rig.wr(0x008, 0x88a8);
    assert!(accepts(&mut rig, &other));
}

#[test]
fn checksums_are_judged() {
    let good = udp(MAC, (5, 6), &[3; 40]);
    let mut bad_ip = good.clone();
    bad_ip[22] ^= 1;
    bad_ip[24] ^= 0x40;
    let mut bad_udp = good.clone();
    bad_udp[60] ^= 1;
    let (ice, tce, icsm) = (1 << 17, 1 << 16, 1);
    let tail = ice | tce | icsm;
    let cases = [
        (good.clone(), CHECKS, 0),
        (good.clone(), 0, icsm),
        (good, 1 << 11, icsm),
        (bad_ip, CHECKS, ice),
        (bad_udp, CHECKS, tce),
        (plain(MAC, 60), CHECKS, icsm),
    ];
    for (number, (bytes, checks, want)) in cases.into_iter().enumerate() {
        let mut rig = Rig::up();
        rig.wr(0x508, AU | checks);
        rig.incoming(&bytes);
        assert_eq!(rig.take(0).unwrap().status & tail, want, "case {number}");
    }
}

#[test]
fn a_fragment_is_not_judged() {
    let mut rig = Rig::up();
    let whole = udp(MAC, (5, 6), &[3; 40]);
    let source = [10, 0, 0, 1];
    let packet =
        Ipv4 { to: MAC, source, destination: [10, 0, 0, 2], class: 0, protocol: 17, body: &whole[34..] };
    let mut bytes = ipv4(packet);
    bytes[20] = 0x20;
    bytes[24..26].fill(0);
    let sum = super::packets::checksum(&[&bytes[14..34]]);
    bytes[24..26].copy_from_slice(&sum.to_be_bytes());
    rig.incoming(&bytes);
    assert_eq!(rig.take(0).unwrap().status & 0x0003_0001, 1);
}

/// The key and a packet of Microsoft's RSS verification suite.
fn rss(rig: &mut Rig, cfg: u32) -> Vec<u8> {
    let key: [u8; 40] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
        0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
        0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];
    for (word, bytes) in (0..).zip(key.chunks_exact(4)) {
        rig.wr(0x558 + word * 4, u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
    }
    rig.wr(0x554, cfg);
    let mut body = 2794_u16.to_be_bytes().to_vec();
    body.extend(1766_u16.to_be_bytes());
    body.extend([0; 26]);
    let (source, destination) = ([66, 9, 149, 187], [161, 142, 100, 80]);
    ipv4(Ipv4 { to: MAC, source, destination, class: 0xb8, protocol: 6, body: &body })
}

const HASH_PORTS: u32 = 0x51cc_c178;
const HASH_ADDRESSES: u32 = 0x323e_8fc2;

#[test]
fn the_hash_chooses_the_channel() {
    for (cfg, hash, index) in [
        (0x1_ffe7, HASH_PORTS, 0x78),
        (0x1_fde7, HASH_ADDRESSES, 0x42),
        (0x1_ff67, HASH_PORTS, 0x0), // 3 valid bits
    ] {
        let mut rig = Rig::up();
        let bytes = rss(&mut rig, cfg);
        rig.wr(0x580 + index / 4 * 4, 3 << (8 * (index % 4)));
        rig.incoming(&bytes);
        let got = rig.take(3).unwrap();
        assert_eq!(got.hash, hash, "{cfg:#x}");
        assert_eq!(rig.take(0), None);
    }
}

#[test]
fn without_queues_or_hash_the_default_channel_is_used() {
    for (cfg, hash) in [(0x1_ffe3, HASH_PORTS), (0x1_ffe5, 0), (0x1_ffe6, 0), (0x1_f0e7, 0)] {
        let mut rig = Rig::up();
        let bytes = rss(&mut rig, cfg);
        (0..32).for_each(|word| rig.wr(0x580 + word * 4, 0x0101_0101));
        let queues = cfg & 5 == 5 && cfg & 0x200 != 0;
        rig.incoming(&bytes);
        assert_eq!(rig.take(usize::from(queues)).unwrap().hash, hash, "{cfg:#x}");
    }
}

#[test]
fn priority_chooses_a_channel() {
    let mut rig = Rig::up();
    let bytes = rss(&mut rig, 0x1_ffe7);
    (0..32).for_each(|word| rig.wr(0x580 + word * 4, 0x0101_0101));
    // Expedited forwarding (46) is priority 6, which goes to channel 2.
    rig.wr(0x510 + 46 / 8 * 4, 6 << (46 % 8 * 4));
    rig.wr(0x50c, 1 << 2 | 2 << 28);
    rig.incoming(&bytes);
    assert!(rig.take(2).is_some());
    // By precedence it is 5, and that one goes by the hash.
    rig.wr(0x50c, 1 << 2 | 1 << 3 | 1 << 13);
    rig.incoming(&bytes);
    assert!(rig.take(1).is_some());
    // A tag of priority 7.
    rig.wr(0x50c, 1 << 1 | 3 << 30);
    rig.incoming(&tagged(MAC, 7 << 13 | 1, 64));
    assert!(rig.take(3).is_some());
}
