use super::registers::reg;
use super::*;
use crate::rng::Rng;

const HOUR: u64 = 3_600_000_000_000;
const SECOND: u64 = 1_000_000_000;
const ENABLE: u32 = 4;
const GPIO_INT: u32 = 1 << 16;

fn enabled(second_family: bool) -> Ptp {
    let mut ptp = Ptp::new(second_family);
    assert!(ptp.write(reg::CMD, ENABLE, 0, 0));
    ptp
}

fn command(ptp: &mut Ptp, bit: u32, now: u64) {
    ptp.write(reg::CMD, 1 << bit, now, now);
}

/// Seconds, nanoseconds, sub-nanoseconds by a clock read.
fn clock(ptp: &mut Ptp, now: u64) -> (u32, u32, u32) {
    command(ptp, cmd::READ, now);
    let first = if ptp.second_family { 0xaf4 } else { reg::CLOCK_SEC };
    let mut read = |index: u64| ptp.read(first + 4 * index, now).unwrap();
    (read(0), read(1), read(2))
}

fn load(ptp: &mut Ptp, seconds: u32, nanoseconds: u32, now: u64) {
    ptp.write(reg::CLOCK_SEC, seconds, now, now);
    ptp.write(reg::CLOCK_NS, nanoseconds, now, now);
    ptp.write(0xa1c, 0, now, now);
    command(ptp, cmd::LOAD, now);
}

fn set_target(ptp: &mut Ptp, channel: u64, target: (u32, u32), reload: (u32, u32), now: u64) {
    let words = [target.0, target.1, reload.0, reload.1];
    // Reload first, as Linux does.
    for index in [2, 3, 0, 1] {
        ptp.write(reg::TARGET + 16 * channel + 4 * index as u64, words[index], now, now);
    }
}

/// A Sync (or other) message over Ethernet.
fn message(kind: u8, sequence: u16) -> Vec<u8> {
    let mut bytes = vec![0x01, 0x1b, 0x19, 0, 0, 0, 2, 0, 0, 0, 0, 1, 0x88, 0xf7];
    if matches!(kind, 2 | 3) {
        bytes[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0, 0, 0x0e]);
    }
    let mut body = [0_u8; 46];
    (body[0], body[1]) = (kind, 2);
    body[30..32].copy_from_slice(&sequence.to_be_bytes());
    bytes.extend(body);
    bytes
}

fn over_udp(kind: u8, checksum: bool) -> Vec<u8> {
    let ptp = &message(kind, 7)[14..];
    let mut bytes = vec![0x01, 0x00, 0x5e, 0, 1, 0x81, 2, 0, 0, 0, 0, 1, 8, 0];
    let len = (ptp.len() + 28) as u8;
    bytes.extend([0x45, 0, 0, len, 0, 0, 0, 0, 1, 17, 0, 0, 10, 0, 0, 1, 224, 0, 1, 129]);
    bytes.extend([1, 63, 1, 63, 0, len - 20, 0, 0]);
    bytes.extend(ptp);
    if checksum {
        let pseudo: u32 = 17 + u32::from(len - 20);
        let sum = bytes[26..].chunks(2).fold(pseudo, |sum, two| {
            sum + (u32::from(two[0]) << 8 | u32::from(two.get(1).copied().unwrap_or(0)))
        });
        let folded = !((sum & 0xffff) + (sum >> 16)) as u16;
        bytes[40..42].copy_from_slice(&folded.to_be_bytes());
    }
    bytes
}

#[test]
fn the_clock_runs_while_enabled_only() {
    for second_family in [false, true] {
        let mut ptp = Ptp::new(second_family);
        load(&mut ptp, 100, 0, 0);
        assert_eq!(clock(&mut ptp, SECOND), (100, 0, 0));
        ptp.write(reg::CMD, ENABLE, SECOND, 0);
        assert_eq!(clock(&mut ptp, 3 * SECOND + 16), (102, 16, 0));
        ptp.write(reg::CMD, 1 << cmd::DISABLE, 3 * SECOND + 16, 3 * SECOND + 816);
        assert_eq!(ptp.read(reg::CMD, 3 * SECOND + 100).unwrap() & ENABLE, ENABLE);
        assert_eq!(ptp.read(reg::CMD, 4 * SECOND), Some(0));
        assert_eq!(clock(&mut ptp, 5 * SECOND), (102, 816, 0));
    }
}

#[test]
fn the_rate_is_exact_over_hours_however_often_one_looks() {
    for word in [1_u32, 34_359, 0x3fff_ffdd, 1 << 31 | 1, 1 << 31 | 343_597, 1 << 31 | 0x3fff_ffdd] {
        let (mut seen, mut unseen) = (enabled(false), enabled(false));
        for ptp in [&mut seen, &mut unseen] {
            ptp.write(reg::RATE_ADJ, word, 0, 0);
        }
        let end = 10 * HOUR;
        // Looks at odd moments, and writes the same rate again and again.
        let mut now = 0;
        while now < end {
            seen.write(reg::RATE_ADJ, word, now, now);
            clock(&mut seen, now);
            now += 7_777_777_777;
        }
        let ticks = u128::from(end / 8);
        let sub = ticks * u128::from(word & 0x3fff_ffff);
        let ns = if word >> 31 != 0 { 8 * ticks + (sub >> 32) } else { 8 * ticks - (sub >> 32) };
        let expected = ((ns / u128::from(SECOND)) as u32, (ns % u128::from(SECOND)) as u32, sub as u32);
        assert_eq!(clock(&mut seen, end), expected, "{word:#x}");
        assert_eq!(clock(&mut unseen, end), expected, "{word:#x}");
    }
}

#[test]
fn a_temporary_rate_ends_by_itself() {
    let mut ptp = enabled(false);
    ptp.write(reg::TEMP_RATE, 1 << 31 | 1 << 29, 0, 0);
    ptp.write(reg::TEMP_DURATION, 800, 0, 0);
    command(&mut ptp, cmd::TEMPORARY, 0);
    // One eighth of the ticks has 9 ns.
    assert_eq!(clock(&mut ptp, 6_400), (0, 6_500, 0));
    assert_eq!(clock(&mut ptp, 64_000), (0, 64_100, 0));
}

#[test]
fn steps_cross_seconds_both_ways() {
    let mut ptp = enabled(false);
    load(&mut ptp, 10, 999_999_990, 0);
    ptp.write(reg::STEP_ADJ, 1 << 31 | 508, 0, 0);
    command(&mut ptp, cmd::STEP_NS, 0);
    // The step replaces one tick of 8 ns: 8 too many in it, as Linux writes, is no mistake.
    assert_eq!(clock(&mut ptp, 8), (11, 498, 0));
    assert_eq!(clock(&mut ptp, 16), (11, 506, 0));
    ptp.write(reg::STEP_ADJ, 15, 16, 16);
    command(&mut ptp, cmd::STEP_SEC, 16);
    assert_eq!(clock(&mut ptp, 16).0, u32::MAX - 3, "seconds wrap");
    ptp.write(reg::STEP_ADJ, 1 << 31 | 0x7f_ff14, 16, 16);
    command(&mut ptp, cmd::STEP_SEC, 16);
    assert_eq!(clock(&mut ptp, 16), (0, 506, 0), "four bits of it count");
}

#[test]
fn the_second_family_has_48_bits_of_seconds() {
    let mut ptp = enabled(true);
    ptp.write(reg::SET_SEC_HI, 0x1_0002, 0, 0);
    load(&mut ptp, u32::MAX, 999_999_999, 0);
    clock(&mut ptp, 8);
    let words: Vec<_> = (0..4).map(|index| ptp.read(0xaf0 + 4 * index, 8).unwrap()).collect();
    assert_eq!(words, [3, 0, 7, 0]);
    assert_eq!(ptp.read(reg::CLOCK_SEC, 8), Some(u32::MAX), "what is to be loaded stays");
}

#[test]
fn command_bits_clear_when_done_or_never() {
    let mut ptp = enabled(false);
    ptp.write(reg::CMD, 0x21f8, 0, 100);
    assert_eq!(ptp.read(reg::CMD, 99), Some(0x21f8 | ENABLE));
    assert_eq!(ptp.read(reg::CMD, 100), Some(ENABLE));
    ptp.write(reg::CMD, 1 << cmd::READ, 200, u64::MAX);
    assert_eq!(ptp.read(reg::CMD, u64::MAX - 1).unwrap() >> cmd::READ & 1, 1);
    let mut ptp = enabled(false);
    ptp.write(reg::CMD, 1 << cmd::DISABLE, 0, u64::MAX);
    assert!(ptp.is_enabled(HOUR));
    ptp.write(reg::CMD, 1, HOUR, u64::MAX);
    assert_eq!(ptp.read(reg::CMD, HOUR), Some(1), "reset hangs, and disables");
}

#[test]
fn reset_restores_the_defaults() {
    let mut ptp = enabled(false);
    for offset in (0xa04..0xc00).step_by(4) {
        ptp.write(offset, u32::MAX, 8, 8);
    }
    ptp.write(reg::CMD, 1, 16, 16);
    let mut fresh = Ptp::new(false);
    for offset in (0xa00..0xc00).step_by(4) {
        assert_eq!(ptp.read(offset, 24), fresh.read(offset, 24), "{offset:#x}");
    }
    assert_eq!(fresh.read(reg::GENERAL, 0), Some(TSU_ENABLE));
    assert_eq!(fresh.read(0xaf0, 0), None, "of the second family only");
    assert!(Ptp::new(true).read(0xaf0, 0).is_some());
}

#[test]
fn a_target_adds_its_reload() {
    for (second_family, mode) in [(false, 3 << 1), (true, 8 << 4)] {
        let mut ptp = enabled(second_family);
        load(&mut ptp, 50, 0, 0);
        ptp.write(reg::INT_EN_SET, 3, 0, 0);
        ptp.write(reg::GENERAL, mode | if second_family { 2 } else { TSU_ENABLE }, 0, 0);
        set_target(&mut ptp, 0, (51, 0), (0, 250_000_000), 0);
        assert_eq!(ptp.next_event(0), Some(SECOND));
        assert_eq!(ptp.advance(SECOND - 1), Happened::default());
        assert!(!ptp.interrupt() && !ptp.output(0, SECOND - 1));
        assert_eq!(ptp.advance(SECOND).pulses, [1, 0]);
        assert!(ptp.interrupt() && ptp.output(0, SECOND + 999_999), "1 ms");
        assert!(!ptp.output(0, SECOND + 1_000_000));
        assert_eq!(ptp.next_event(SECOND), Some(SECOND + 250_000_000));
        assert_eq!(ptp.advance(3 * SECOND + 1).pulses, [8, 0]);
        ptp.write(reg::INT_STS, 1, 3 * SECOND, 0);
        assert!(!ptp.interrupt());
        command(&mut ptp, cmd::TARGET_READ, 3 * SECOND);
        assert_eq!(ptp.read(reg::TARGET, 3 * SECOND), Some(53));
        assert_eq!(ptp.read(reg::TARGET + 4, 3 * SECOND), Some(250_000_000));
    }
}

#[test]
fn a_target_needs_both_words_and_reloads() {
    let mut ptp = enabled(false);
    ptp.write(reg::GENERAL, TSU_ENABLE | 1 << 4 | 6 << 5, 0, 0);
    ptp.write(reg::TARGET + 16, 1, 0, 0);
    assert_eq!(ptp.next_event(0), None);
    set_target(&mut ptp, 1, (1, 0), (5, 0), 0);
    assert_eq!(ptp.advance(2 * SECOND).pulses, [0, 1]);
    assert!(ptp.output(1, 2 * SECOND), "toggled");
    assert_eq!(ptp.next_event(2 * SECOND), Some(5 * SECOND), "the reload is a time of its own");
    assert_eq!(ptp.advance(6 * SECOND).pulses, [0, 1]);
    assert_eq!((ptp.output(1, 6 * SECOND), ptp.next_event(6 * SECOND)), (false, None));
    assert_eq!(ptp.read(reg::INT_STS, 6 * SECOND), Some(2));
}

#[test]
fn a_target_follows_the_rate_and_is_parked_far_away() {
    let mut ptp = enabled(false);
    for word in [0x3fff_ffff, 1 << 31 | 0x3fff_ffff] {
        ptp.write(reg::RATE_ADJ, word, 0, 0);
        set_target(&mut ptp, 0, (1000, 0), (1, 0), 0);
        let at = ptp.next_event(0).unwrap();
        assert!(ptp.stamp_now(at).0 == 1000 && ptp.stamp_now(at - 8).0 == 999, "{word:#x} {at}");
    }
    set_target(&mut ptp, 0, (0xffff_0000, 0), (1, 0), 0);
    let at = ptp.next_event(0).unwrap();
    assert!(at > 1_000_000 * HOUR);
}

#[test]
fn the_shortest_period_does_not_flood() {
    let mut ptp = enabled(true);
    set_target(&mut ptp, 0, (0, 0), (0, 1), 0);
    let mut now = 0;
    let (mut wakes, mut pulses) = (0_u64, 0);
    while let Some(at) = ptp.next_event(now).filter(|at| *at <= 1_000_000) {
        now = at.max(now + 1);
        pulses += ptp.advance(now).pulses[0];
        wakes += 1;
    }
    assert!(wakes <= 1_002, "{wakes}");
    assert!(pulses >= 998_000, "none is lost: {pulses}");
}

#[test]
fn stamps_are_kept_in_order_and_overflow() {
    for second_family in [false, true] {
        let mut ptp = enabled(second_family);
        ptp.set_line_delays(117, 444);
        ptp.write(reg::LATENCY, 117 << 16 | 444, 0, 0);
        ptp.write(reg::INT_EN_SET, int::TX_TS | int::SWTS_ERR, 0, 0);
        for number in 0..5_u16 {
            let at = SECOND + 8 * u64::from(number);
            let sent = ptp.transmit(at, &mut message(0, number), true, 3, false);
            assert_eq!(sent.captured, number < 4);
        }
        let overflow = if second_family { int::TX_OVERFLOW } else { 0 };
        let status = ptp.read(reg::INT_STS, SECOND).unwrap();
        assert_eq!(status, int::TX_TS | int::SWTS_ERR | overflow);
        for number in 0..4_u32 {
            assert_eq!(ptp.read(reg::CAP_INFO, SECOND), Some((4 - number) << 4));
            assert_eq!(ptp.read(reg::TX_EGRESS_SEC, SECOND), Some(1));
            assert_eq!(ptp.read(reg::TX_EGRESS_NS, SECOND), Some(1 << 30 | (8 * number)));
            assert_eq!(ptp.read(reg::TX_HEADER, SECOND), Some(number));
            assert_eq!(ptp.read(reg::HS_TX_CAP_INFO, SECOND), second_family.then_some(3));
            assert!(ptp.interrupt());
            ptp.write(reg::INT_STS, u32::MAX, SECOND, 0);
        }
        assert!(!ptp.interrupt() && ptp.read(reg::CAP_INFO, SECOND) == Some(0));
        assert!(!ptp.transmit(SECOND, &mut message(0, 9), true, 0, true).captured, "a fault loses it");
        assert_eq!(ptp.transmit(SECOND, &mut message(0, 9), false, 0, false), Sent::default());
    }
}

#[test]
fn a_one_step_sync_carries_its_time() {
    for second_family in [false, true] {
        let mut ptp = enabled(second_family);
        load(&mut ptp, 0x0102_0304, 5, 0);
        ptp.write(reg::TX_MOD, INSERT, 0, 0);
        ptp.write(reg::TX_MOD2, 1, 0, 0);
        let mut bytes = message(0, 1);
        assert_eq!(ptp.transmit(8, &mut bytes, true, 0, false), Sent { captured: true, inserted: true });
        assert_eq!(bytes[48..58], [0, 0, 1, 2, 3, 4, 0, 0, 0, 13]);
        assert!(!ptp.transmit(8, &mut message(1, 1), true, 0, false).inserted, "Sync only");
        let mut udp = over_udp(0, true);
        assert!(ptp.transmit(8, &mut udp, true, 0, false).inserted);
        assert_eq!(udp[40..42], [0, 0], "checksum cleared");
        ptp.write(reg::TX_MOD2, 0, 0, 0);
        let mut udp = over_udp(0, true);
        assert!(ptp.transmit(8, &mut udp, true, 0, false).inserted);
        assert!(message::find(&udp, false).unwrap().checksum_is_right(&udp));
    }
}

#[test]
fn received_messages_are_chosen_by_the_configuration() {
    let mut ptp = enabled(false);
    ptp.set_line_delays(0, 444);
    ptp.write(reg::LATENCY, 525, 0, 0);
    let sync = message(0, 0x1234);
    let stamp = ptp.receive(SECOND, &sync, true).unwrap();
    assert_eq!((stamp.seconds, stamp.nanoseconds, stamp.event), (0, 999_999_919, false));
    ptp.write(reg::RX_TS_CFG, 2 << 16 | 0xf, 0, 0);
    let mut event = |bytes: &[u8], good: bool| ptp.receive(SECOND, bytes, good).unwrap().event;
    assert!(event(&sync, true) && event(&message(2, 0), true) && event(&over_udp(0, true), true));
    assert!(event(&over_udp(1, false), true), "no checksum over IPv4");
    assert!(!event(&sync, false), "check sequence");
    assert!(!event(&message(8, 0), true), "type");
    let mut wrong = over_udp(0, true);
    wrong[60] ^= 1;
    assert!(!event(&wrong, true), "UDP checksum");
    let mut version1 = sync.clone();
    version1[15] = 1;
    assert!(!event(&version1, true), "version");
    let mut unicast = sync.clone();
    unicast[0] = 2;
    assert!(!event(&unicast, true), "address");
    assert!(!event(&sync[..40], true), "short");
    assert_eq!(ptp.read(reg::RX_HEADER, 0), Some(0x1234), "the first one is kept");
    assert_eq!(ptp.read(reg::INT_STS, 0), Some(int::RX_TS));
    ptp.write(reg::GENERAL, 0, 0, 0);
    assert_eq!(ptp.receive(SECOND, &sync, true), None, "unit is off");
}

#[test]
fn inputs_capture_with_locks() {
    let mut ptp = enabled(true);
    assert!(!ptp.edge(3, true, 800), "not enabled");
    ptp.write(reg::CAP_CONFIG, 1 << 19 | 1 << 3 | 1 << 11, 0, 0);
    ptp.write(reg::SELECT, 3 << 8, 0, 0);
    assert!(ptp.edge(3, true, 1_600) && !ptp.edge(3, true, 2_400), "locked");
    assert!(ptp.edge(3, false, 3_200) && ptp.edge(3, false, 4_000), "not locked");
    assert_eq!(ptp.read(reg::INT_STS, 4_000), Some(1 << 19 | 1 << 27));
    assert_eq!(ptp.read(reg::RISING_NS, 4_000), Some(1_600));
    assert_eq!(ptp.read(reg::FALLING_NS, 4_000), Some(4_000));
    ptp.write(reg::INT_STS, 1 << 19, 4_000, 0);
    assert!(ptp.edge(3, true, 4_800));
    ptp.write(reg::SELECT, 0, 0, 0);
    assert_eq!(ptp.read(reg::RISING_NS, 4_800), Some(0), "another input");
    assert!(!ptp.edge(200, true, 4_800));
    ptp.write(reg::CMD, 1 << cmd::CAPTURE | 0xd << 9, 5_600, 5_600);
    assert_eq!(ptp.read(reg::INT_STS, 5_600).unwrap() >> 29 & 1, 1, "manual, falling 5");
}

#[test]
fn inputs_of_the_first_family_can_be_remapped_and_clear_timers() {
    let mut ptp = enabled(false);
    ptp.write(reg::CAP_CONFIG, 1, 0, 0);
    ptp.write(reg::GENERAL, TSU_ENABLE | 1 << 24 | 1 << 12 | 5 << 8, 0, 0);
    assert!(!ptp.edge(0, true, 8) && ptp.edge(8, true, 16));
    assert_eq!(ptp.read(reg::INT_STS, 16), Some(GPIO_INT));
    set_target(&mut ptp, 0, (0, 0), (0, 0), 24);
    assert_eq!(ptp.read(reg::INT_STS, 24), Some(GPIO_INT | 1));
    ptp.edge(5, true, 32);
    assert_eq!(ptp.read(reg::INT_STS, 32), Some(GPIO_INT));
}

#[test]
fn no_value_harms() {
    let mut rng = Rng::new(7);
    for second_family in [false, true] {
        let mut ptp = Ptp::new(second_family);
        let mut now = 0_u64;
        for _ in 0..200_000 {
            let random = rng.next_u64();
            let offset = 0xa00 + (random & 0x1ff);
            let done = if random & 1 << 20 != 0 { u64::MAX } else { now + (random >> 48) };
            match random >> 16 & 7 {
                0 => drop(ptp.read(offset, now)),
                1 => drop(ptp.advance(now)),
                2 => drop(ptp.next_event(now)),
                3 => drop(ptp.edge((random >> 24) as u8, random & 2 != 0, now)),
                4 => {
                    let mut bytes: Vec<u8> = (0..random >> 24 & 127).map(|_| rng.next_u64() as u8).collect();
                    ptp.transmit(now, &mut bytes, true, 9, false);
                    ptp.receive(now, &bytes, true);
                }
                _ => drop(ptp.write(offset, rng.next_u64() as u32, now, done)),
            }
            now = now.saturating_add(rng.next_u64() >> (24 + (random >> 40 & 31)));
        }
        for now in [u64::MAX - 9, u64::MAX] {
            ptp.write(reg::CMD, 0x21f8 | ENABLE, now, now);
            ptp.advance(now);
            ptp.next_event(now);
        }
    }
}
