use super::*;

const DELAY: u64 = 1_000;

fn plugged(kind: Kind, partner: Partner) -> Phy {
    let mut phy = Phy::new(kind, DELAY);
    phy.set_partner(partner, 0);
    phy.set_link(true, 0);
    phy
}

/// Speed and duplex of what comes up.
fn outcome(advertise: u16, gigabit: u16, partner: Partner) -> Option<(u32, bool)> {
    let mut phy = plugged(Kind::External, partner);
    phy.write(4, advertise, 0);
    phy.write(9, gigabit, 0);
    phy.write(0, NEGOTIATE | RESTART, 0);
    assert_eq!(phy.link(DELAY - 1), None);
    phy.link(DELAY).map(|link| (link.speed, link.full))
}

#[test]
fn the_best_common_mode_wins() {
    let all = Partner::advertising(0x01e1, 0x0300, 0);
    let table = [
        (0x01e1, 0x0300, all, Some((1000, true))),
        (0x01e1, 0x0100, all, Some((1000, false))),
        (0x01e1, 0x0000, all, Some((100, true))),
        (0x00e1, 0x0000, all, Some((100, false))),
        (0x0061, 0x0000, all, Some((10, true))),
        (0x0021, 0x0000, all, Some((10, false))),
        (0x0001, 0x0000, all, None),
        (0x01e1, 0x0200, Partner::advertising(0x0001, 0x0100, 0), None),
        (0x01e1, 0x0300, Partner::speed(1000), Some((1000, true))),
        (0x01e1, 0x0300, Partner::speed(2500), Some((1000, true))),
        (0x01e1, 0x0300, Partner::speed(100), Some((100, true))),
        (0x01e1, 0x0300, Partner::speed(10), Some((10, true))),
        (0x01e1, 0x0300, Partner::forced(100, true), Some((100, false))),
        (0x01e1, 0x0300, Partner::forced(10, false), Some((10, false))),
        (0x0101, 0x0300, Partner::forced(100, true), None),
        (0x01e1, 0x0300, Partner::forced(1000, true), None),
    ];
    for (advertise, gigabit, partner, expected) in table {
        assert_eq!(outcome(advertise, gigabit, partner), expected, "{advertise:#x} {gigabit:#x} {partner:?}");
    }
}

#[test]
fn a_fixed_mode_needs_the_partners_speed() {
    let table = [
        (0x0000, Partner::forced(10, false), Some((10, false))),
        (0x2100, Partner::forced(100, false), Some((100, true))),
        (0x2000, Partner::speed(1000), Some((100, false))),
        (0x0140, Partner::forced(1000, true), Some((1000, true))),
        (0x0140, Partner::speed(1000), None),
        (0x2100, Partner::forced(10, true), None),
        (0x2140, Partner::forced(1000, true), None),
    ];
    for (control, partner, expected) in table {
        let mut phy = plugged(Kind::External, partner);
        phy.write(0, control, 0);
        assert_eq!(phy.link(DELAY).map(|link| (link.speed, link.full)), expected, "{control:#x} {partner:?}");
        assert_eq!(phy.read(1, DELAY) & STATUS_DONE, 0);
    }
}

#[test]
fn pause_is_resolved_by_annex_28b() {
    const P: u16 = 0x0400;
    const A: u16 = 0x0800;
    let table = [
        (0, P | A, false, false),
        (A, P, false, false),
        (A, A, false, false),
        (A, P | A, true, false),
        (P, P, true, true),
        (P, P | A, true, true),
        (P, A, false, false),
        (P | A, A, false, true),
        (P | A, P | A, true, true),
        (P | A, P, true, true),
        (P | A, 0, false, false),
    ];
    for (own, theirs, tx, rx) in table {
        let mut phy = plugged(Kind::External, Partner::advertising(0x01e1 | theirs, 0, 0));
        phy.write(4, 0x01e1 | own, 0);
        phy.write(0, NEGOTIATE | RESTART, 0);
        let link = phy.link(DELAY).unwrap();
        assert_eq!((link.pause_tx, link.pause_rx), (tx, rx), "{own:#x} {theirs:#x}");
    }
}

#[test]
fn status_tells_of_the_link_once_lost() {
    let mut phy = plugged(Kind::External, Partner::speed(1000));
    assert_eq!(phy.next_event(0), Some(DELAY));
    assert_eq!(phy.read(1, DELAY - 1), STATUS);
    assert_eq!(phy.read(1, DELAY), STATUS | STATUS_DONE | STATUS_LINK);
    assert_eq!(phy.read(5, DELAY), 0x45e1);
    assert_eq!(phy.read(10, DELAY), 0x3800);
    assert_eq!((phy.read(6, DELAY), phy.read(6, DELAY)), (7, 5), "page received is read once");
    phy.set_link(false, DELAY);
    phy.set_link(true, DELAY);
    assert_eq!(phy.link(2 * DELAY).unwrap().speed, 1000);
    assert_eq!(phy.read(1, 2 * DELAY) & STATUS_LINK, 0, "it was lost");
    assert_eq!(phy.read(1, 2 * DELAY) & STATUS_LINK, STATUS_LINK);
}

#[test]
fn power_down_isolation_and_loopback_have_no_link() {
    for bit in [POWER_DOWN, ISOLATE, LOOPBACK] {
        let mut phy = plugged(Kind::External, Partner::speed(1000));
        phy.write(0, CONTROL_DEFAULT | bit, DELAY);
        assert_eq!((phy.link(9 * DELAY), phy.next_event(DELAY)), (None, None));
        assert_eq!(phy.loops_back(), bit == LOOPBACK);
        assert_eq!(phy.read(1, 9 * DELAY) & STATUS_LINK != 0, bit == LOOPBACK);
        phy.write(0, CONTROL_DEFAULT, 10 * DELAY);
        assert_eq!(phy.link(10 * DELAY), None);
        assert!(phy.link(11 * DELAY).is_some());
    }
}

#[test]
fn reset_restores_the_defaults_and_keeps_the_cable() {
    for kind in [Kind::Internal, Kind::External] {
        let mut phy = plugged(kind, Partner::speed(100));
        let fresh: Vec<_> = (0..32).map(|register| Phy::new(kind, DELAY).read(register, 0)).collect();
        (1..31).for_each(|register| phy.write(register, 0xffff, 0));
        phy.write(31, 1, 0);
        phy.write(20, 0xffff, 0);
        phy.write(0, RESET, 0);
        let now: Vec<_> = (0..32).map(|register| phy.read(register, 0)).collect();
        assert_eq!(now, fresh);
        assert_eq!(phy.link(DELAY).unwrap().speed, 100);
    }
}

#[test]
fn the_internal_phy_is_the_one_of_linux() {
    let mut phy = Phy::new(Kind::Internal, 0);
    let id = u32::from(phy.read(2, 0)) << 16 | u32::from(phy.read(3, 0));
    assert_eq!(id & 0xffff_fff2, 0x0007_c132);
    // A DSP register: data, then control, which shows its bit 15.
    phy.write(31, 0x52b5, 0);
    phy.write(17, 0xb00a, 0);
    phy.write(16, 0x8f82, 0);
    assert_eq!(phy.read(16, 0), 0x8f82);
    phy.write(31, 1, 0);
    phy.write(20, 0x0010, 0);
    assert_eq!((phy.read(20, 0), phy.read(16, 0)), (0x0010, 0));
    phy.write(31, 0x1234, 0);
    phy.write(20, 9, 0);
    assert_eq!(phy.read(20, 0), 0, "no such page");
    phy.write(31, 0, 0);
    assert_eq!(phy.read(20, 0), 0);
}

#[test]
fn interrupts_follow_the_link() {
    let mut phy = plugged(Kind::Internal, Partner::speed(1000));
    assert_eq!(phy.read(int::STATUS, 0), 0);
    phy.write(int::MASK, int::ACTIVE | int::LINK, 0);
    assert!(!phy.interrupt(DELAY - 1) && phy.interrupt(DELAY));
    let status = int::ACTIVE | int::LINK | int::SPEED | int::DUPLEX | int::NEGOTIATED;
    assert_eq!((phy.read(int::STATUS, DELAY), phy.read(int::STATUS, DELAY)), (status, 0));
    phy.set_link(false, DELAY);
    assert!(phy.interrupt(DELAY));
    phy.write(int::MASK, int::LINK, DELAY);
    assert!(!phy.interrupt(DELAY), "its pin is off");
}

#[test]
fn eee_goes_through_registers_13_and_14() {
    let mut phy = plugged(Kind::External, Partner::speed(1000));
    let mut access = |control: u16, data: Option<u16>| {
        phy.write(13, control, DELAY);
        match data {
            Some(data) => {
                phy.write(14, data, DELAY);
                data
            }
            None => phy.read(14, DELAY),
        }
    };
    access(7, Some(60));
    access(0x4007, Some(0xffff));
    assert_eq!(access(0x8007, None), EEE, "kept, then on to the next");
    assert_eq!(access(0x4007, None), EEE, "the partner's");
    assert_eq!(access(7, None), 61);
    phy.write(0, NEGOTIATE | RESTART, DELAY);
    assert!(phy.link(2 * DELAY).unwrap().eee);
}

#[test]
fn no_value_harms() {
    let mut rng = crate::rng::Rng::new(11);
    for kind in [Kind::Internal, Kind::External] {
        let mut phy = plugged(kind, Partner::speed(1000));
        for now in 0..100_000 {
            let random = rng.next_u64();
            let register = random as u8;
            match random >> 8 & 7 {
                0 => phy.set_link(random & 1 << 20 != 0, now),
                1 => phy
                    .set_partner(Partner::advertising((random >> 32) as u16, (random >> 48) as u16, 7), now),
                2 => phy.set_partner(Partner::forced((random >> 32) as u32, register & 1 != 0), now),
                3 => drop(phy.read_mmd(register, (random >> 32) as u16, now)),
                4 => phy.write_mmd(register, (random >> 32) as u16, (random >> 48) as u16, now),
                5 => drop(phy.read(register, now)),
                _ => phy.write(register, (random >> 48) as u16, now),
            }
            phy.interrupt(now);
            assert!(phy.next_event(now).is_none_or(|at| at > now));
        }
        phy.write(0, RESET, u64::MAX);
        assert_eq!(phy.next_event(u64::MAX), None);
    }
}
