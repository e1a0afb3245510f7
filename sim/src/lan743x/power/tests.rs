use super::detect::crc16;
use super::*;

const MAC: [u8; 6] = [0x02, 0x11, 0x22, 0x33, 0x44, 0x55];
const OTHER: [u8; 6] = [0x02, 0xaa, 0xbb, 0xcc, 0xdd, 0xee];
const BROADCAST: [u8; 6] = [0xff; 6];
const WOL: u32 = pmt::WOL_EN;

/// A unit that has been told what Linux tells it, and sleeps.
fn asleep(second_family: bool, writes: &[(u64, u32)]) -> Power {
    let mut power = Power::new(second_family);
    for (offset, value) in writes {
        assert_eq!(power.write(*offset, *value, 0, 0), Some(Written::default()), "{offset:#x}");
    }
    power.set_asleep(true, 0);
    power
}

fn seen(bytes: &[u8]) -> Seen<'_> {
    Seen { bytes, mac: MAC, passes_filter: false }
}

fn wakes(power: &mut Power, bytes: &[u8]) -> bool {
    power.frame(seen(bytes), true, 0).pme
}

fn frame(target: [u8; 6], kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = target.to_vec();
    bytes.extend(OTHER);
    bytes.extend(kind.to_be_bytes());
    bytes.extend(payload);
    bytes.resize(bytes.len().max(60), 0);
    bytes
}

fn magic(target: [u8; 6], address: [u8; 6], password: &[u8]) -> Vec<u8> {
    let mut payload = vec![1, 2, 0xff, 3];
    payload.extend([0xff; 7]);
    (0..16).for_each(|_| payload.extend(address));
    payload.extend(password);
    frame(target, 0x0842, &payload)
}

/// An independent CRC: bit by bit, not reflected, polynomial 8005h.
fn bitwise(bytes: &[u8]) -> u16 {
    let bits = bytes.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1));
    bits.fold(0xffff, |crc: u16, bit| {
        let top = crc >> 15 ^ u16::from(bit);
        crc << 1 ^ if top != 0 { 0x8005 } else { 0 }
    })
}

#[test]
fn the_crc_of_the_filters_is_that_of_linux() {
    for (bytes, expected) in
        [(&[0x01, 0x00, 0x5e][..], 0x851f), (&[0x33, 0x33][..], 0xaaaa), (&[0x08, 0x06][..], 0x614e)]
    {
        assert_eq!((crc16(bytes.iter().copied()), bitwise(bytes)), (expected, expected));
    }
    let mut rng = crate::rng::Rng::new(1);
    for len in 0..200 {
        let bytes: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
        assert_eq!(crc16(bytes.iter().copied()), bitwise(&bytes));
    }
}

#[test]
fn multicast_and_arp_filters_as_linux_writes_them() {
    let filter = |kind: u32, bytes: &[u8]| 1 << 31 | kind << 24 | u32::from(bitwise(bytes));
    let writes = [
        (WUF_CFG, filter(2, &[0x01, 0x00, 0x5e])),
        (WUF_MASK, 7),
        (WUF_CFG + 4, filter(2, &[0x33, 0x33])),
        (WUF_MASK + 0x10, 3),
        (WUF_CFG + 8, filter(1, &[0x08, 0x06])),
        (WUF_MASK + 0x20, 0x3000),
        (WUCSR1, wu::FILTER_EN),
        (PMT_CTL, WOL | pmt::WUPS),
    ];
    let cases = [
        (frame([0x01, 0x00, 0x5e, 1, 2, 3], 0x0800, &[]), Some(0)),
        (frame([0x33, 0x33, 0, 0, 0, 1], 0x86dd, &[]), Some(1)),
        (frame(BROADCAST, 0x0806, &[]), Some(2)),
        (frame(MAC, 0x0806, &[]), Some(2)),
        (frame(MAC, 0x0800, &[]), None),
        (frame(BROADCAST, 0x0800, &[]), None),
        (frame([0x01, 0x80, 0xc2, 0, 0, 0], 0x0800, &[]), None),
        (vec![0x33], None),
        (vec![], None),
    ];
    for (bytes, expected) in cases {
        let mut power = asleep(false, &writes);
        assert_eq!(wakes(&mut power, &bytes), expected.is_some(), "{bytes:x?}");
        let source = expected.map_or(0, |number: u32| src::FILTER | number);
        assert_eq!(power.read(WK_SRC, 0), Some(source));
        let status = if expected.is_some() { wu::FILTER } else { 0 };
        assert_eq!(power.read(WUCSR1, 0), Some(wu::FILTER_EN | status));
    }
}

#[test]
fn filters_have_offsets_types_and_ends() {
    let pattern = [0x12, 0x56];
    let mut payload = vec![0; 200];
    payload[90..93].copy_from_slice(&[0x12, 0x34, 0x56]);
    let filter = |kind: u32, offset: u32| 1 << 31 | kind << 24 | offset << 16 | u32::from(bitwise(&pattern));
    let woken = |config: u32, bit: u64, bytes: &[u8]| {
        let last = WUF_CFG + 4 * 31;
        let mask = WUF_MASK + 16 * 31 + 4 * (bit / 32);
        let writes = [(last, config), (mask, 5 << (bit % 32)), (WUCSR1, wu::FILTER_EN), (PMT_CTL, WOL)];
        let mut power = asleep(false, &writes);
        wakes(&mut power, bytes) && power.read(WK_SRC, 0) == Some(src::FILTER | 31)
    };
    let bytes = frame(MAC, 0x0800, &payload);
    assert!(woken(filter(0, 14), 90, &bytes) && woken(filter(3, 104), 0, &bytes));
    assert!(!woken(filter(0, 15), 90, &bytes) && !woken(filter(2, 14), 90, &bytes));
    assert!(!woken(filter(0, 14) & !(1 << 31), 90, &bytes), "not enabled");
    assert!(!woken(filter(0, 14), 90, &bytes[..106]), "the last byte is not there");
    assert!(woken(filter(0, 14), 90, &bytes[..107]));
}

#[test]
fn magic_packets_and_passwords() {
    let password = [1, 2, 3, 4, 5, 6];
    let plain = [(WUCSR1, wu::MAGIC_EN), (PMT_CTL, WOL)];
    for (bytes, expected) in [
        (magic(BROADCAST, MAC, &[]), true),
        (magic(MAC, MAC, &[]), true),
        (magic([0x01, 0, 0x5e, 0, 0, 1], MAC, &[]), true),
        (magic(OTHER, MAC, &[]), false),
        (magic(BROADCAST, OTHER, &[]), false),
        (magic(BROADCAST, MAC, &[])[..116].to_vec(), false),
    ] {
        let mut power = asleep(true, &plain);
        assert_eq!(wakes(&mut power, &bytes), expected);
        assert_eq!(power.read(WK_SRC, 0), Some(if expected { src::MAGIC } else { 0 }));
    }
    let secure = [
        (WUCSR1, wu::MAGIC_EN | wu::SECURE),
        (PMT_CTL, WOL),
        (MP_SO_LO, 0x0403_0201),
        (MP_SO_HI, 0xffff_0605),
    ];
    assert!(wakes(&mut asleep(true, &secure), &magic(MAC, MAC, &password)));
    assert!(!wakes(&mut asleep(true, &secure), &magic(MAC, MAC, &[1, 2, 3, 4, 6, 5])));
    assert!(!wakes(&mut asleep(true, &secure), &magic(MAC, MAC, &[])));
    assert!(wakes(&mut asleep(false, &secure), &magic(MAC, MAC, &[])), "the first family has no password");
}

#[test]
fn addresses_and_the_receive_filter_wake() {
    let cases = [
        (wu::PERFECT_EN, MAC, false, wu::PERFECT, src::PERFECT),
        (wu::PERFECT_EN, BROADCAST, false, 0, 0),
        (wu::BROADCAST_EN, BROADCAST, false, wu::BROADCAST, src::BROADCAST),
        (wu::BROADCAST_EN, MAC, false, 0, 0),
        (wu::RFE_EN, OTHER, true, wu::RFE, src::RFE),
        (wu::RFE_EN, OTHER, false, 0, 0),
        (wu::RFE_EN | wu::PERFECT_EN, MAC, true, wu::RFE | wu::PERFECT, src::RFE | src::PERFECT),
    ];
    for (enable, target, passes_filter, status, source) in cases {
        let mut power = asleep(false, &[(WUCSR1, enable), (PMT_CTL, WOL)]);
        let bytes = frame(target, 0x0800, &[]);
        let wake = power.frame(Seen { bytes: &bytes, mac: MAC, passes_filter }, true, 0);
        assert_eq!(wake, Wake { pme: status != 0, discard: true });
        assert_eq!(power.read(WUCSR1, 0), Some(enable | status));
        assert_eq!(power.read(WK_SRC, 0), Some(source));
    }
}

#[test]
fn pme_comes_once_and_needs_permission() {
    let (own, all) = (frame(MAC, 0x0800, &[]), frame(BROADCAST, 0x0800, &[]));
    let both = [(WUCSR1, wu::PERFECT_EN | wu::BROADCAST_EN), (PMT_CTL, WOL)];
    let mut power = asleep(false, &both);
    assert!(!power.frame(seen(&own), false, 0).pme, "the host does not allow it");
    assert_eq!(power.read(WK_SRC, 0), Some(0));
    assert!(power.frame(seen(&all), true, 0).pme);
    assert_eq!(power.read(WUCSR1, 0).unwrap() & wu::STATUS, wu::PERFECT, "the first keeps others out");
    assert_eq!((power.read(WK_SRC, 0), power.read(PMT_CTL, 0).unwrap() & 3), (Some(src::BROADCAST), 2));
    assert_eq!(power.frame(seen(&own), true, 0), Wake { pme: false, discard: false }, "it comes through");
    power.set_asleep(false, 0);
    power.write(WK_SRC, u32::MAX, 0, 0);
    power.write(WUCSR1, wu::STATUS, 0, 0);
    power.write(PMT_CTL, 3, 0, 0);
    assert_eq!((power.read(WK_SRC, 0), power.read(WUCSR1, 0)), (Some(0), Some(0)));
    assert_eq!(power.read(PMT_CTL, 0), Some(pmt::READY));
    let mut awake = Power::new(false);
    for (offset, value) in both {
        awake.write(offset, value, 0, 0);
    }
    assert_eq!(awake.frame(seen(&own), true, 0), Wake::default());
    awake.write(WUCSR1, wu::PERFECT_EN | wu::TEST, 0, 0);
    assert!(!awake.frame(seen(&own), true, 0).pme);
    assert_eq!(awake.read(WUCSR1, 0).unwrap() & wu::STATUS, wu::PERFECT, "test mode");
    let mut without = asleep(false, &both[..1]);
    assert!(!wakes(&mut without, &own), "WOL_EN");
}

#[test]
fn a_wake_up_clears_what_it_is_told_to_and_saves() {
    let bytes = frame(MAC, 0x0800, &[]);
    let clear = pmt::RES_CLR_ENABLE | pmt::RES_CLR_STATUS;
    let enables = wu::PERFECT_EN | wu::STORE;
    let mut power = asleep(false, &[(WUCSR1, enables), (WUCSR2, 3), (PMT_CTL, WOL | clear)]);
    assert_eq!(power.frame(seen(&bytes), true, 0), Wake { pme: true, discard: false });
    power.saved(2);
    power.saved(1);
    assert_eq!(power.read(WUCSR1, 0), Some(wu::STORE));
    assert_eq!(power.read(WUCSR2, 0), Some(0));
    assert_eq!(power.read(WK_SRC, 0), Some(src::PERFECT | src::SAVED | 2 << 5));
}

#[test]
fn the_phy_wakes() {
    let mut power = asleep(false, &[(PMT_CTL, pmt::PHY_WAKE_EN)]);
    assert!(!power.phy_event(false, 0) && power.phy_event(true, 0) && !power.phy_event(true, 0));
    assert_eq!((power.read(WK_SRC, 0), power.read(PMT_CTL, 0).unwrap() & 3), (Some(src::PHY), 1));
    assert!(!asleep(false, &[(PMT_CTL, WOL)]).phy_event(true, 0));
}

#[test]
fn ignoring_ends_some_time_after_going_to_sleep() {
    let bytes = frame(MAC, 0x0800, &[]);
    let mut power = asleep(false, &[(WUCSR1, wu::IGNORE | 3 << 16 | wu::PERFECT_EN), (PMT_CTL, WOL)]);
    assert!(!power.frame(seen(&bytes), true, 3_999_999).pme);
    assert!(power.frame(seen(&bytes), true, 4_000_000).pme);
    assert_eq!(power.read(WUCSR1, 4_000_000).unwrap() & wu::IGNORE, 0);
}

#[test]
fn a_phy_reset_is_busy_until_it_is_done() {
    let mut power = Power::new(false);
    assert_eq!(power.read(PMT_CTL, 0), Some(pmt::READY));
    assert_eq!(power.write(PMT_CTL, pmt::PHY_RESET | WOL, 0, 100), Some(Written { phy_reset: true }));
    assert_eq!(power.read(PMT_CTL, 99), Some(pmt::PHY_RESET | WOL));
    assert_eq!(power.read(PMT_CTL, 100), Some(pmt::READY | WOL));
    power.write(PMT_CTL, pmt::PHY_RESET, 100, u64::MAX);
    assert_eq!(power.read(PMT_CTL, u64::MAX - 1), Some(pmt::PHY_RESET), "it hangs");
}

#[test]
fn resets_may_be_protected() {
    for protected in [false, true] {
        let mut power = Power::new(false);
        for offset in [WUCSR1, WUCSR2, WUF_CFG, WUF_CFG + 4, WUF_MASK, WUF_MASK + 16, 0x610, 0x690, 0x6bc] {
            power.write(offset, u32::MAX, 0, 0);
        }
        power.reset(protected);
        let values: Vec<bool> =
            [WUCSR1, WUCSR2, WUF_CFG, WUF_CFG + 4, WUF_MASK, WUF_MASK + 16, 0x610, 0x690, 0x6bc]
                .into_iter()
                .map(|offset| power.read(offset, 0) != Some(0))
                .collect();
        let p = protected;
        assert_eq!(values, [p, p, p, false, p, false, false, p, p]);
    }
}

fn syn4(corrupt: bool) -> Vec<u8> {
    let mut ip = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    ip.extend([0x30, 0x39, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 4, 0, 0, 0, 0, 0]);
    fix(&mut ip, 0..20, 10, 0);
    let pseudo = 0x0a00 + 1 + 0x0a00 + 2 + 6 + 20;
    fix(&mut ip, 20..40, 36, pseudo);
    ip[27] ^= u8::from(corrupt);
    frame(MAC, 0x0800, &ip)
}

fn fix(bytes: &mut [u8], range: std::ops::Range<usize>, at: usize, start: u32) {
    let sum =
        bytes[range].chunks(2).fold(start, |sum, two| sum + (u32::from(two[0]) << 8 | u32::from(two[1])));
    let folded = (sum & 0xffff) + (sum >> 16);
    bytes[at..at + 2].copy_from_slice(&(!(folded as u16)).to_be_bytes());
}

#[test]
fn tcp_syn_wakes_by_addresses_ports_and_checksum() {
    let woken = |extra: &[(u64, u32)], enables: u32, bytes: &[u8]| {
        let mut writes = vec![(WUCSR2, enables), (PMT_CTL, WOL)];
        writes.extend(extra);
        let mut power = asleep(false, &writes);
        wakes(&mut power, bytes) && power.read(WK_SRC, 0) == Some(src::SYN4)
    };
    let exact = [(0x690, 0x0a00_0001), (0x694, 0x0a00_0002), (0x698, 80 << 16 | 12345)];
    assert!(woken(&[], wu2::SYN4_EN, &syn4(false)) && woken(&exact, wu2::SYN4_EN, &syn4(false)));
    assert!(!woken(&[(0x698, 12345 << 16)], wu2::SYN4_EN, &syn4(false)), "port");
    assert!(!woken(&[(0x690, 9)], wu2::SYN4_EN, &syn4(false)), "address");
    assert!(!woken(&[], wu2::SYN6_EN, &syn4(false)) && !woken(&[], 0, &syn4(false)));
    assert!(!woken(&[], wu2::SYN4_EN, &syn4(true)), "checksum");
    assert!(woken(&[], wu2::SYN4_EN | wu2::NO_CHECKSUM, &syn4(true)));
}

#[test]
fn tcp_syn_over_ipv6_has_its_high_word_first() {
    let mut ip = vec![0x60, 0, 0, 0, 0, 20, 6, 64];
    let address: Vec<u8> = (1..=16).collect();
    ip.extend(&address);
    ip.extend(&address);
    ip.extend([0x30, 0x39, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 4, 0, 0, 0, 0, 0]);
    let mut writes = vec![(WUCSR2, wu2::SYN6_EN | wu2::NO_CHECKSUM), (PMT_CTL, WOL)];
    writes.extend([(0x69c, 0x0d0e_0f10), (0x6a0, 0x090a_0b0c), (0x6a4, 0x0506_0708), (0x6a8, 0x0102_0304)]);
    let bytes = frame(MAC, 0x86dd, &ip);
    let mut power = asleep(false, &writes);
    assert!(wakes(&mut power, &bytes));
    assert_eq!(power.read(WK_SRC, 0), Some(src::SYN6));
    writes[0].1 = wu2::SYN6_EN;
    assert!(!wakes(&mut asleep(false, &writes), &bytes), "no checksum in it");
}

#[test]
fn arp_and_solicitations_are_noted_and_do_not_wake() {
    let arp = [0, 1, 8, 0, 6, 4, 0, 1, 2, 2, 2, 2, 2, 2, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2];
    let mut power = asleep(false, &[(WUCSR2, wu2::ARP_EN), (0x6c4, 0x0a00_0002), (PMT_CTL, WOL)]);
    assert!(!wakes(&mut power, &frame(BROADCAST, 0x0806, &arp)));
    assert_eq!(power.read(WUCSR2, 0), Some(wu2::ARP_EN | wu2::ARP));
    let mut other = asleep(false, &[(WUCSR2, wu2::ARP_EN), (0x6c4, 0x0a00_0003)]);
    wakes(&mut other, &frame(BROADCAST, 0x0806, &arp));
    assert_eq!(other.read(WUCSR2, 0), Some(wu2::ARP_EN));
    let mut ip = vec![0x60, 0, 0, 0, 0, 24, 58, 255];
    ip.extend([0xfe; 16]);
    ip.extend([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 7, 8, 9]);
    ip.extend([135, 0, 0, 0, 0, 0, 0, 0]);
    ip.extend([0x20; 16]);
    let enables = wu2::NS_EN | wu2::NO_CHECKSUM;
    let registers = |last: u32| {
        let mut writes = vec![(WUCSR2, enables), (0x61c, 0x0708_0900)];
        writes.extend((0..4).map(|index| (0x640 + 4 * index, last)));
        writes
    };
    for (last, expected) in [(0x2020_2020, wu2::NS), (0x2020_2021, 0)] {
        let mut power = asleep(false, &registers(last));
        wakes(&mut power, &frame([0x33, 0x33, 0xff, 7, 8, 9], 0x86dd, &ip));
        assert_eq!(power.read(WUCSR2, 0), Some(enables | expected));
    }
}

#[test]
fn no_value_harms() {
    let mut rng = crate::rng::Rng::new(9);
    for second_family in [false, true] {
        let mut power = Power::new(second_family);
        for now in 0..50_000 {
            let random = rng.next_u64();
            let offset = random & 0x7ff;
            power.write(offset, rng.next_u64() as u32, now, now);
            power.read(offset, now);
            power.set_asleep(random & 1 << 40 != 0, now);
            let len = (random >> 48 & 127) as usize;
            let bytes: Vec<u8> =
                (0..len).map(|_| if random & 1 << 41 != 0 { 0xff } else { rng.next_u64() as u8 }).collect();
            power.frame(Seen { bytes: &bytes, mac: MAC, passes_filter: true }, true, now);
            power.phy_event(true, now);
            power.saved(random as usize);
        }
        power.set_asleep(true, u64::MAX);
    }
}
