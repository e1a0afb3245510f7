//! Guests that do anything: no panic, no work without bound, no access outside.

use proptest::prelude::*;

use super::*;

/// What a guest may do.
#[derive(Clone, Debug)]
enum Act {
    Register(u64, u32),
    Read(u64),
    Wide(u64, u64),
    List(u64, u32),
    Pointer(u8, bool, u64),
    Doorbell(u8, bool),
    Stop(u8, bool),
    Enable(u8, bool),
    Run(u8),
    Reset,
    MoveBar(u64),
}

fn word() -> impl Strategy<Value = u32> {
    prop_oneof![
        any::<u32>(),
        0..8_u32,
        (0..32_u32).prop_map(|bit| 1 << bit),
        Just(u32::MAX),
        Just(RAM as u32),
        Just(BAR2 as u32),
        Just((BAR2 >> 32) as u32),
    ]
}

/// Addresses at which something is, or nearly, or not.
fn address() -> impl Strategy<Value = u64> {
    prop_oneof![
        (0..0x200_u64).prop_map(|at| BAR2 + at),
        (0..0x200_u64).prop_map(|at| RAM + at),
        (0..0x200_u64).prop_map(|at| BAR2 + (1 << 24) - 0x100 + at),
        any::<u64>(),
        (0..0x100_u64).prop_map(|back| u64::MAX - back),
        (0..0x200_u64).prop_map(|at| 0x8000_0000 + at),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => ((0..0x500_u64).prop_map(|word| word * 4), word())
            .prop_map(|(at, value)| Act::Register(at, value)),
        2 => (0..0x2000_u64).prop_map(|word| Act::Read(word * 4)),
        1 => (0..0x1400_u64, any::<u64>()).prop_map(|(at, value)| Act::Wide(at, value)),
        6 => ((0..0x80_u64).prop_map(|word| word * 4), word())
            .prop_map(|(at, value)| Act::List(at, value)),
        3 => (0..3_u8, any::<bool>(), address()).prop_map(|(n, dir, at)| Act::Pointer(n, dir, at)),
        4 => (0..3_u8, any::<bool>()).prop_map(|(n, dir)| Act::Doorbell(n, dir)),
        1 => (0..3_u8, any::<bool>()).prop_map(|(n, dir)| Act::Stop(n, dir)),
        3 => (0..2_u8, any::<bool>()).prop_map(|(n, dir)| Act::Enable(n, dir)),
        6 => any::<u8>().prop_map(Act::Run),
        1 => Just(Act::Reset),
        1 => address().prop_map(Act::MoveBar),
    ]
}

fn dir(read: bool) -> Dir {
    if read { Dir::Read } else { Dir::Write }
}

/// Runs some events. No event may do more than its share.
fn run(rig: &mut Rig, events: u8) {
    for _ in 0..events {
        let before = rig.handle.counters().total;
        if !rig.step() {
            return;
        }
        let after = rig.handle.counters().total;
        let params = rig.dev.params();
        let depth = params.prefetch as u64;
        assert!(after.bytes - before.bytes <= u64::from(params.burst_bytes));
        assert!(after.fetched - before.fetched <= 2 * depth);
        assert!(after.links - before.links <= 2 * depth);
        assert!(after.elements - before.elements <= 1);
        assert!(after.messages - before.messages <= 2);
        // At most one event for each channel and for each run that was cut short.
        assert!(rig.bus.pending_events() <= 4096);
    }
}

fn perform(rig: &mut Rig, act: &Act) {
    match *act {
        Act::Register(at, value) => rig.write(at, value),
        Act::Read(at) => {
            rig.read(at);
        }
        Act::Wide(at, value) => {
            rig.dev.write(&mut rig.bus, 0, at, Width::W64, value);
            assert_eq!(rig.dev.read(&mut rig.bus, 0, at, Width::W64), u64::MAX);
        }
        Act::List(at, value) => rig.local().write_u32(at as usize, value).unwrap(),
        Act::Pointer(channel, read, at) => rig.set64(dir(read), channel.into(), Reg::Llp, at),
        Act::Doorbell(channel, read) => rig.doorbell(dir(read), channel.into()),
        Act::Stop(channel, read) => rig.stop(dir(read), channel.into()),
        Act::Enable(channel, read) => {
            rig.enable(dir(read), channel.into());
            rig.point(dir(read), channel.into(), 0);
        }
        Act::Run(events) => run(rig, events),
        Act::Reset => rig.dev.reset(),
        Act::MoveBar(at) => {
            rig.bus.bars.insert(2, at);
        }
    }
}

fn params() -> impl Strategy<Value = Params> {
    let format = prop::sample::select(Format::ALL.to_vec());
    (format, any::<bool>(), 1..6_usize, 1..9_u32).prop_map(|(format, local, prefetch, links)| {
        let params = if local { presets::local(format, 2, 2) } else { presets::edda(format) };
        Params { prefetch, link_limit: links, burst_bytes: 64, ..params }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_guest_upsets_the_model(
        params in params(),
        acts in prop::collection::vec(act(), 1..200),
    ) {
        let mut rig = Rig::new(params);
        for act in &acts {
            perform(&mut rig, act);
        }
        // Whatever happened: after a reset the engine works.
        rig.dev.reset();
        rig.bus.bars.insert(2, BAR2);
        while rig.step() {}
        let dir = Dir::Write;
        let want = fill(&rig, dir, 0x10_0000, 0x1_0000, 1000);
        let (sar, dar) = addresses(&rig, dir, 0x10_0000, 0x1_0000);
        rig.enable(dir, 1);
        rig.point(dir, 1, 0x4000);
        rig.data(0x4000, element::CB, 1000, sar, dar);
        rig.data(0x4018, 0, 0, 0, 0);
        rig.doorbell(dir, 1);
        rig.run();
        prop_assert!(arrived(&rig, dir, 0x10_0000, 0x1_0000, 1000) == want);
    }

    #[test]
    fn random_list_memory(
        params in params(),
        words in prop::collection::vec(word(), 6 * 16),
        read in any::<bool>(),
    ) {
        let mut rig = Rig::new(params);
        rig.enable(dir(read), 0);
        for (i, word) in words.iter().enumerate() {
            rig.local().write_u32(i * 4, *word).unwrap();
        }
        rig.point(dir(read), 0, 0);
        rig.doorbell(dir(read), 0);
        for _ in 0..8 {
            run(&mut rig, 255);
        }
    }
}

#[test]
fn a_link_to_itself_ends_as_a_list_error() {
    for format in Format::ALL {
        for toggle in [0, element::TCB] {
            let mut rig = Rig::edda(format);
            rig.enable(Dir::Write, 0);
            rig.point(Dir::Write, 0, 0);
            let base = rig.list_addr(0);
            rig.link_element(0, toggle | element::CB, base);
            rig.doorbell(Dir::Write, 0);
            rig.run();
            assert_eq!(rig.status(Dir::Write, 0), 2);
            assert_eq!(rig.handle.channel(Dir::Write, 0).links, 65);
        }
    }
}

#[test]
fn an_endless_ring_takes_time_and_can_be_stopped() {
    for format in Format::ALL {
        let timing = crate::dw_edma::Timing {
            doorbell_ns: 0,
            list_ns: 0,
            data_ns: 0,
            completion_ns: 0,
            bytes_per_us: u32::MAX,
        };
        let mut rig = Rig::new(Params { timing, ..presets::edda(format) });
        rig.enable(Dir::Write, 0);
        rig.point(Dir::Write, 0, 0);
        rig.data(0, element::CB, 0, 0, 0);
        let base = rig.list_addr(0);
        rig.link_element(24, 0, base);
        rig.doorbell(Dir::Write, 0);
        for _ in 0..1000 {
            assert!(rig.step());
        }
        assert!(rig.bus.now_ns >= 400);
        rig.stop(Dir::Write, 0);
        rig.run();
        assert_eq!(rig.status(Dir::Write, 0), 3);
    }
}

#[test]
fn sizes_and_addresses_at_the_edge_of_the_address_space() {
    for format in Format::ALL {
        for dir in DIRS {
            let mut rig = Rig::edda(format);
            rig.enable(dir, 0);
            rig.point(dir, 0, 0);
            rig.data(0, element::CB, u32::MAX, u64::MAX - 3, u64::MAX - 5);
            rig.doorbell(dir, 0);
            rig.run();
            assert_eq!(rig.status(dir, 0), 2);
            rig.set64(dir, 0, Reg::Llp, u64::MAX);
            rig.doorbell(dir, 0);
            rig.run();
            assert_eq!(rig.status(dir, 0), 2);
        }
    }
}
