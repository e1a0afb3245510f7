use super::*;
use crate::testing::{self, CLOCK, Device, LAN7430, LAN7431, PCI11414, TestNic, Waited};
use std::sync::Arc;
use std::vec::Vec;

const SECOND: i64 = 1_000_000_000;

fn at(seconds: u64, nanoseconds: u32) -> Timestamp {
    Timestamp { seconds, nanoseconds }
}

type TestPtp = Ptp<Arc<crate::Shared<Arc<Device>>>>;

fn opened(id: u32) -> (Arc<Device>, TestNic, TestPtp) {
    let (device, mut nic) = testing::brought_up(id);
    let ptp = nic.ptp(at(1_000, 5), &mut Waited::default()).unwrap();
    (device, nic, ptp)
}

#[test]
fn it_is_reset_while_disabled_and_set_before_it_is_enabled() {
    let (device, mut nic) = testing::brought_up(LAN7431);
    device.poke(0xa00, 4);
    let mut ptp = nic.ptp(at(7, 8), &mut Waited::default()).unwrap();
    let commands: Vec<u32> =
        device.take_writes().into_iter().filter(|(offset, _)| *offset == 0xa00).map(|(_, v)| v).collect();
    assert_eq!(commands, [2, 1, 1 << 4, 4]);
    assert!(ptp.is_enabled());
    assert_eq!(device.peek(0xa0c), 1 << 13 | 1 << 12);
    assert_eq!(device.peek(0xaa8), 1);
    assert_eq!(ptp.time(&mut Waited::default()), Ok(at(7, 8)));
}

#[test]
fn a_command_that_never_ends_is_a_timeout_and_a_device_that_goes_is_gone() {
    for id in [LAN7430, PCI11414] {
        let (device, _nic, mut ptp) = opened(id);
        device.behave(|words, offset, value| {
            if let (0xa00, Some(value)) = (offset, value) {
                words.set(0xa00, value | 4);
            }
        });
        let mut waited = Waited::default();
        let stuck = Err(Error::Timeout { what: Wait::PtpCommand, waited_us: COMMAND_LIMIT_US });
        assert_eq!(ptp.time(&mut waited), stuck.map(|()| at(0, 0)));
        assert_eq!(waited.0, u64::from(COMMAND_LIMIT_US) * 1_000);
        assert_eq!(ptp.set_time(at(1, 0), &mut Waited::default()), stuck);
        assert_eq!(ptp.close(&mut Waited::default()), stuck);
        device.remove();
        assert_eq!(ptp.time(&mut Waited::default()), Err(Error::DeviceGone));
        assert_eq!(ptp.take_stamp(), Err(Error::DeviceGone));
        assert!(ptp.on_irq().gone);
        assert!(!ptp.is_enabled());
    }
}

#[test]
fn the_time_has_bounds_both_ways() {
    let (device, _nic, mut ptp) = opened(PCI11414);
    let delay = &mut Waited::default();
    assert!(matches!(ptp.set_time(at(1 << 32, 0), delay), Err(Error::Range { .. })));
    assert!(matches!(ptp.set_time(at(0, 1_000_000_000), delay), Err(Error::Range { .. })));
    device.poke(CLOCK + 4, 1_000_000_000);
    assert_eq!(ptp.time(delay), Err(Error::BadTime(1_000_000_000)));
}

#[test]
fn the_rate_is_linuxs() {
    use clock::rate_word;
    assert_eq!(rate_word(0), Ok(0));
    // 1 ppm: 2^35 / 10^6.
    assert_eq!(rate_word(65_536), Ok(1 << 31 | 34_359));
    assert_eq!(rate_word(-65_536), Ok(34_359));
    assert_eq!(rate_word(MAX_SCALED_PPM as i64), Ok(1 << 31 | 0x3fff_ffdd));
    for beyond in [MAX_SCALED_PPM as i64 + 1, -(MAX_SCALED_PPM as i64) - 1, i64::MAX, i64::MIN] {
        assert!(matches!(rate_word(beyond), Err(Error::Range { .. })));
    }
}

#[test]
fn steps_end_where_they_should() {
    let steps = [
        1,
        7,
        -1,
        999_999_992,
        -999_999_992,
        999_999_999,
        SECOND,
        -SECOND,
        15 * SECOND,
        16 * SECOND + 3,
        -37 * SECOND - 1,
        240 * SECOND,
        241 * SECOND,
        -241 * SECOND,
        -999 * SECOND,
    ];
    for id in [LAN7430, PCI11414] {
        let (device, _nic, mut ptp) = opened(id);
        let delay = &mut Waited::default();
        for step in steps {
            ptp.set_time(at(1_000, 5), delay).unwrap();
            device.take_writes();
            ptp.step(step, delay).unwrap();
            let end = 1_000 * SECOND + 5 + step;
            assert_eq!(ptp.time(delay), Ok(at((end / SECOND) as u64, (end % SECOND) as u32)), "{step}");
            for (_, amount) in device.take_writes().into_iter().filter(|(offset, _)| *offset == 0xa2c) {
                assert!(amount & 0x3fff_ffff < 1_000_000_000);
            }
        }
        device.take_writes();
        ptp.step(0, delay).unwrap();
        assert!(device.take_writes().iter().all(|(offset, value)| (*offset, *value) == (0xa00, 8)));
    }
}

#[test]
fn a_step_out_of_range_changes_nothing() {
    let (device, _nic, mut ptp) = opened(LAN7430);
    let delay = &mut Waited::default();
    for step in [-1_000 * SECOND - 6, i64::MIN, i64::MAX] {
        assert!(matches!(ptp.step(step, delay), Err(Error::Range { .. })), "{step}");
    }
    ptp.set_time(at(u32::MAX.into(), 999_999_999), delay).unwrap();
    assert!(matches!(ptp.step(1, delay), Err(Error::Range { .. })));
    assert!(device.take_writes().iter().all(|(offset, _)| *offset != 0xa2c));
}

/// A buffer of time stamps behind the registers.
fn with_stamps(device: &Device, stamps: &[(u32, u32, u32)]) {
    let mut stamps: Vec<_> = stamps.iter().rev().copied().collect();
    device.behave(move |words, offset, value| {
        if offset == 0xa08 && value.is_some_and(|value| value & 1 << 12 != 0) {
            stamps.pop();
        }
        words.set(0xa60, (stamps.len() as u32) << 4);
        if let Some((seconds, word, header)) = stamps.last() {
            words.set(0xaac, *seconds);
            words.set(0xab0, *word);
            words.set(0xab4, *header);
            words.set(0xa08, words.get(0xa08) | 1 << 12);
        }
    });
}

#[test]
fn stamps_come_in_order_with_their_message_and_others_are_discarded() {
    let (device, _nic, mut ptp) = opened(LAN7430);
    let asked = 1 << 30;
    with_stamps(
        &device,
        &[(9, asked | 1, 0xabc0_0001), (9, 2, 0x2), (9, asked | 0x3fff_ffff, 3), (9, asked | 4, 0x1_0004)],
    );
    assert!(ptp.on_irq().tx_stamps);
    let first = ptp.take_stamp().unwrap().unwrap();
    assert_eq!((first.time, first.source_crc), (at(9, 1), 0xabc));
    assert_eq!(first.message, PtpMessage { kind: 0, sequence: 1 });
    let second = ptp.take_stamp().unwrap().unwrap();
    assert_eq!(second.message, PtpMessage { kind: 1, sequence: 4 });
    assert_eq!(ptp.take_stamp(), Ok(None));
    assert_eq!(ptp.discarded_stamps(), 2);
}

#[test]
fn a_status_without_a_stamp_is_cleared_and_a_count_that_never_falls_ends() {
    let (device, _nic, mut ptp) = opened(LAN7430);
    device.poke(0xa08, 1 << 12);
    assert_eq!(ptp.take_stamp(), Ok(None));
    assert_eq!(device.peek(0xa08), 0);
    device.poke(0xa60, 0x70);
    device.poke(0xab0, 0);
    assert_eq!(ptp.take_stamp(), Ok(None));
    assert_eq!(ptp.discarded_stamps(), 4);
}

#[test]
fn an_interrupt_acknowledges_what_nobody_takes() {
    let (device, _nic, mut ptp) = opened(PCI11414);
    ptp.set_input(3, true, true).unwrap();
    device.poke(0xa08, 1 << 27 | 1 << 19 | 1 << 18 | 1 << 13 | 1);
    let irq = ptp.on_irq();
    assert_eq!(irq, PtpIrq { tx_lost: true, rising: 8, falling: 8, ..PtpIrq::default() });
    // Timer A and input 2 are not enabled.
    assert_eq!(device.peek(0xa08), 1 << 27 | 1 << 19 | 1 << 18 | 1);
}

#[test]
fn an_edge_is_read_from_the_input_that_had_it() {
    let (device, _nic, mut ptp) = opened(PCI11414);
    ptp.set_input(5, false, true).unwrap();
    assert_eq!(device.peek(0xac4), 0x2000_2000);
    assert_eq!(device.peek(0xa0c) >> 16, 0x2000);
    assert_eq!(ptp.take_capture(5, Edge::Falling), Ok(None));
    device.poke(0xa08, 1 << 29);
    device.poke(0xad0, 11);
    device.poke(0xad4, 12);
    device.take_writes();
    assert_eq!(ptp.take_capture(5, Edge::Falling), Ok(Some(at(11, 12))));
    assert_eq!(device.take_writes(), [(0xa58, 5 << 8), (0xa08, 1 << 29)]);
    ptp.set_input(5, false, false).unwrap();
    assert_eq!((device.peek(0xac4), device.peek(0xa0c) >> 16), (0, 0));
    assert_eq!(ptp.set_input(8, true, false), Err(Error::NoChannel { channel: 8, available: 8 }));
    let (_device, _nic, mut lan743x) = opened(LAN7431);
    assert!(matches!(lan743x.set_input(0, true, false), Err(Error::Unsupported(_))));
}

fn output(pin: u8) -> PeriodicOutput {
    PeriodicOutput { pin, start: at(2_000, 0), period_ns: 1_000_000_000, high_ns: None }
}

#[test]
fn outputs_of_lan7430_take_pins_from_the_leds_and_give_them_back() {
    let (device, mut nic) = testing::brought_up(LAN7430);
    device.poke(0x10, 0b0101 << 20);
    let delay = &mut Waited::default();
    let mut ptp = nic.ptp(at(1_000, 5), delay).unwrap();
    ptp.start_output(1, &output(2), delay).unwrap();
    assert_eq!(device.peek(0x10), 0b0001 << 20);
    assert_eq!((device.peek(0x50), device.peek(0x54)), (4 << 16, 0x0ffb_0004));
    assert_eq!((device.peek(0x58), device.peek(0x5c)), (4, 4 << 16 | 4));
    assert_eq!((device.peek(0xa40), device.peek(0xa44)), (2_000, 0));
    assert_eq!((device.peek(0xa48), device.peek(0xa4c)), (1, 0));
    assert_eq!(device.peek(0xa04), 5 << 5);
    ptp.stop_output(1).unwrap();
    assert_eq!(device.peek(0x10), 0b0101 << 20);
    assert_eq!((device.peek(0x50), device.peek(0x54)), (0, 0x0fff_0000));
    assert_eq!(device.peek(0x5c) & 0xfff, 0);
    assert_eq!((device.peek(0xa40), device.peek(0xa04)), (0xffff_0000, 1 << 4));
}

#[test]
fn outputs_of_pci11x1x_have_their_own_pins() {
    let (device, _nic, mut ptp) = opened(PCI11414);
    let delay = &mut Waited::default();
    ptp.start_output(0, &output(0), delay).unwrap();
    ptp.start_output(1, &output(7), delay).unwrap();
    assert_eq!(device.peek(0xa04), 13 << 8 | 13 << 4 | 1 << 3 | 1 << 1);
    assert_eq!((device.peek(0xad8), device.peek(0xadc)), (0x80_0081, 0x81));
    assert_eq!(ptp.set_input(7, true, false), Err(Error::PinInUse(7)));
    ptp.stop_output(0).unwrap();
    assert_eq!((device.peek(0xad8) & 0xffff, device.peek(0xadc)), (0x80, 0x80));
    ptp.set_input(0, true, false).unwrap();
    assert_eq!(ptp.start_output(0, &output(0), delay), Err(Error::PinInUse(0)));
}

#[test]
fn there_are_two_outputs_and_no_more() {
    let (_device, _nic, mut ptp) = opened(LAN7431);
    let delay = &mut Waited::default();
    assert_eq!(ptp.free_output(), Some(0));
    ptp.start_output(0, &output(11), delay).unwrap();
    ptp.start_output(1, &output(10), delay).unwrap();
    assert_eq!(ptp.free_output(), None);
    assert_eq!(ptp.start_output(2, &output(9), delay), Err(Error::NoChannel { channel: 2, available: 2 }));
    assert_eq!(ptp.stop_output(2), Err(Error::NoChannel { channel: 2, available: 2 }));
    assert_eq!(ptp.start_output(0, &output(10), delay), Err(Error::PinInUse(10)));
    assert!(matches!(ptp.start_output(0, &output(12), delay), Err(Error::Range { most: 11, .. })));
    // On the same pin again is a change.
    ptp.start_output(0, &PeriodicOutput { period_ns: 400, ..output(11) }, delay).unwrap();
    ptp.stop_output(0).unwrap();
    assert_eq!(ptp.free_output(), Some(0));
    // To stop one that does not run is no error.
    ptp.stop_output(0).unwrap();
}

#[test]
fn a_reset_restores_all_but_the_time() {
    let (device, mut nic, mut ptp) = opened(PCI11414);
    let delay = &mut Waited::default();
    nic.set_rx_stamps(RxStamps::Events).unwrap();
    ptp.adjust_frequency(-65_536).unwrap();
    ptp.set_one_step(true);
    ptp.set_latency(Latency::for_speed(100).unwrap());
    ptp.set_input(4, true, false).unwrap();
    ptp.start_output(0, &output(1), delay).unwrap();
    for offset in (0xa00..0xb00).step_by(4) {
        device.poke(offset, 0);
    }
    ptp.after_reset(&nic, at(3_000, 0), delay).unwrap();
    assert_eq!((device.peek(0xa20), device.peek(0xaa4)), (34_359, 1 << 28));
    assert_eq!((device.peek(0xa5c), device.peek(0xa68)), (181 << 16 | 594, 0xf));
    assert_eq!((device.peek(0xac4), device.peek(0xa0c)), (0x0010_0010, 1 << 20 | 3 << 12));
    // The start has passed: the next whole second.
    assert_eq!((device.peek(0xa30), device.peek(0xa34), device.peek(0xad8)), (3_001, 0, 2));
    assert!(ptp.is_enabled());
}

#[test]
fn receive_stamps_reach_open_rings() {
    let (device, mut nic, _ptp) = opened(LAN7430);
    for channel in 0..4 {
        device.poke(0xc44 + channel * 0x40, 0x0204_0080);
    }
    for (stamps, bits, messages) in
        [(RxStamps::Events, 1, 0xf), (RxStamps::All, 2, 0), (RxStamps::None, 0, 0)]
    {
        nic.set_rx_stamps(stamps).unwrap();
        for channel in 0..4 {
            assert_eq!(device.peek(0xc44 + channel * 0x40), 0x0204_0080 | bits << 28);
        }
        assert_eq!(device.peek(0xa68) & 0xf, messages);
        assert_eq!(nic.rx_stamps(), stamps);
    }
}

#[test]
fn a_dropped_clock_is_silent_and_runs_on() {
    let (device, _nic, mut ptp) = opened(PCI11414);
    ptp.start_output(0, &output(1), &mut Waited::default()).unwrap();
    ptp.set_input(4, true, false).unwrap();
    drop(ptp);
    assert_eq!((device.peek(0xa0c), device.peek(0xac4), device.peek(0xa30)), (0, 0, 0xffff_0000));
    assert_eq!(device.peek(0xa00), 4);
}

#[test]
fn it_interrupts_again_only_when_somebody_listens() {
    let (device, nic, ptp) = opened(LAN7430);
    device.poke(0x788, 0);
    ptp.rearm();
    assert_eq!(device.peek(0x788), 0);
    let shared = nic.shared_ref().shared();
    shared.shared_sources.store(1 << 7, tombolo_hal::sync::Ordering::Release);
    ptp.rearm();
    assert_eq!(device.peek(0x788), 1 << 7);
}

#[test]
fn samples_stand_around_the_reading() {
    let (device, _nic, mut ptp) = opened(LAN7430);
    let reads = || device.take_writes().len();
    let (before, time, after) = ptp.time_between(reads, &mut Waited::default()).unwrap();
    // The writes of the bring-up, then the command alone.
    assert!(before > 1);
    assert_eq!((time, after), (at(1_000, 5), 1));
}

#[test]
fn latencies_are_linuxs() {
    let of = |speed| Latency::for_speed(speed).map(|latency| (latency.tx_ns, latency.rx_ns));
    assert_eq!(
        [of(10), of(100), of(1000), of(2500)],
        [Some((0, 0)), Some((181, 594)), Some((30, 525)), None]
    );
}
