use super::*;

const DONE: u64 = 100;
const POWER: u64 = 4_000;

struct Rig {
    pcs: Pcs,
    now: u64,
    power: u64,
}

impl Rig {
    fn new() -> Self {
        let mut pcs = Pcs::new(true);
        assert!(pcs.write(CTL, CTL_ENABLE, 0, 0, 0));
        pcs.set_line(Some(Line { speed: 1000, full: true }));
        Self { pcs, now: 0, power: POWER }
    }

    fn access(&mut self, place: (u8, u16), write: u32) {
        let word = write | u32::from(place.0) << 16 | u32::from(place.1);
        assert!(self.pcs.write(
            ACC,
            BUSY | word,
            self.now,
            self.now + DONE,
            self.now.saturating_add(self.power)
        ));
        assert_eq!(self.pcs.read(ACC, self.now + DONE - 1), Some(BUSY | word));
        self.now += DONE;
        assert_eq!(self.pcs.read(ACC, self.now), Some(word));
    }

    fn read(&mut self, place: (u8, u16)) -> u16 {
        self.access(place, 0);
        self.pcs.read(DATA, self.now).unwrap() as u16
    }

    fn write(&mut self, place: (u8, u16), value: u16) {
        self.pcs.write(DATA, value.into(), self.now, self.now, self.now);
        self.access(place, WRITE);
    }

    fn state(&mut self) -> u16 {
        self.read(DIG_STS) >> 2 & 7
    }

    /// Reads the state until it is the wanted one, at most as often as Linux does.
    fn reaches(&mut self, state: u16) -> bool {
        (0..10).any(|_| {
            self.now += 1_000_000;
            self.state() == state
        })
    }
}

#[test]
fn registers_keep_what_is_written() {
    let mut rig = Rig::new();
    assert_eq!(rig.read((VEND2, 2)), 0x7996);
    rig.write((VEND2, 0x800a), 0x07a1);
    rig.write((VEND2, 2), 0xffff);
    assert_eq!((rig.read((VEND2, 0x800a)), rig.read((VEND2, 2))), (0x07a1, 0x7996));
    assert_eq!((rig.read((VEND1, 0x800a)), rig.read((7, 0))), (0, 0));
}

#[test]
fn the_result_comes_with_the_end() {
    let mut rig = Rig::new();
    rig.pcs.write(DATA, 0x55, 0, 0, 0);
    rig.pcs.write(ACC, BUSY | 31 << 16 | 2, 0, 100, 0);
    rig.pcs.write(DATA, 0x66, 50, 0, 0);
    assert_eq!(rig.pcs.read(DATA, 99), Some(0x55));
    assert_eq!(rig.pcs.read(DATA, 100), Some(0x7996));
    rig.pcs.write(ACC, BUSY | 31 << 16 | 2, 200, u64::MAX, 0);
    assert_eq!(rig.pcs.read(ACC, u64::MAX - 1).unwrap() & BUSY, BUSY, "it hangs");
    assert_eq!(rig.pcs.read(0x72c, 0), None);
    assert!(!rig.pcs.write(0x72c, 0, 0, 0, 0));
}

#[test]
fn the_power_sequence_goes_down_and_up() {
    let mut rig = Rig::new();
    assert_eq!(rig.state(), STATE_UP);
    let control = rig.read(CONTROL);
    rig.write(CONTROL, control | POWER_DOWN);
    assert_eq!((rig.state(), rig.pcs.link(rig.now)), (STATE_UP, None), "on its way down");
    assert!(rig.reaches(STATE_DOWN));
    rig.write(CONTROL, control);
    let mut states = vec![];
    for _ in 0..60 {
        states.push(rig.state());
    }
    states.dedup();
    assert_eq!(states, [0, 1, 2, 3, 4]);
    assert!(rig.pcs.link(rig.now).is_some());
}

#[test]
fn the_power_sequence_may_hang() {
    let mut rig = Rig::new();
    rig.power = u64::MAX;
    rig.write(CONTROL, 0x1140 | POWER_DOWN);
    assert!(!rig.reaches(STATE_DOWN));
    rig.write(CONTROL, 0x1140);
    assert!(!rig.reaches(STATE_UP));
    rig.power = POWER;
    rig.write(CONTROL, RESET);
    assert!(rig.reaches(STATE_UP));
}

#[test]
fn a_reset_restores_the_defaults_and_restart_clears_itself() {
    for place in [CONTROL, DIG_CTRL1] {
        let mut rig = Rig::new();
        rig.write((VEND2, 0x800a), 5);
        rig.write(CONTROL, 0x1140 | RESTART);
        assert_eq!(rig.read(CONTROL), 0x1140);
        rig.write(place, RESET);
        assert!(rig.reaches(STATE_UP));
        assert_eq!((rig.read((VEND2, 0x800a)), rig.read(DIG_CTRL1)), (0, 0x2200));
    }
}

#[test]
fn link_and_speed_are_told() {
    let mut rig = Rig::new();
    for (speed, full, word) in [(1000, true, 0x1b), (100, false, 0x15), (10, true, 0x13)] {
        rig.pcs.set_line(Some(Line { speed, full }));
        assert_eq!(rig.read(AN_INTR_STS), word);
        assert_eq!(rig.read(STATUS), 0x016d);
    }
    assert_eq!(rig.read(PARTNER), 0xd001);
    rig.pcs.set_line(None);
    assert_eq!((rig.read(AN_INTR_STS), rig.read(STATUS), rig.read(PARTNER)), (0, 0x0149, 0));
}

#[test]
fn the_mpll_has_to_fit_the_line() {
    let mut rig = Rig::new();
    let line = Line { speed: 2500, full: true };
    rig.pcs.set_line(Some(line));
    assert_eq!(rig.pcs.link(rig.now), None);
    rig.write(MPLL_CTRL1, 125);
    assert_eq!(rig.pcs.link(rig.now), None, "half way");
    rig.write(MISC_CTRL1, 5);
    assert_eq!(rig.pcs.link(rig.now), Some(line));
    rig.pcs.set_line(Some(Line { speed: 1000, full: true }));
    assert_eq!(rig.pcs.link(rig.now), None);
    rig.pcs.strict = false;
    assert!(rig.pcs.link(rig.now).is_some());
}

#[test]
fn the_control_register_switches_it_off() {
    let mut rig = Rig::new();
    for control in [0, CTL_POWER_DOWN, CTL_ENABLE | CTL_POWER_DOWN] {
        rig.pcs.write(CTL, control, 0, 0, 0);
        assert_eq!(rig.pcs.link(0), None);
    }
    rig.pcs.write(CTL, !CTL_POWER_DOWN, 0, 0, 0);
    assert_eq!(rig.pcs.read(CTL, 0), Some(CTL_ENABLE | 1 << 8));
    assert!(rig.pcs.link(0).is_some() && !rig.pcs.loops_back());
    rig.write(CONTROL, LOOPBACK);
    assert!(rig.pcs.loops_back());
}

#[test]
fn no_value_harms() {
    let mut rng = crate::rng::Rng::new(5);
    let mut pcs = Pcs::new(true);
    let mut now = 0_u64;
    for _ in 0..100_000 {
        let random = rng.next_u64();
        let offset = ACC + (random >> 60);
        let end = if random & 1 << 40 != 0 { u64::MAX } else { now };
        pcs.write(offset, rng.next_u64() as u32, now, now, end);
        pcs.read(offset, now);
        pcs.link(now);
        now = now.saturating_add(rng.next_u64() >> 20);
    }
    assert!(pcs.registers.len() <= MOST);
}
