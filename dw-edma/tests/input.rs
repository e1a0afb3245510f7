//! Bad input gets its own error and changes nothing.

mod common;
mod helpers;

use common::*;
use dw_edma::{
    ChannelId, ChannelKind, Config, Desc, Error, Format, ListError, ListMemory, Location, Mode, NoList,
    Peripheral, Segment, Shared, Translation, TranslationWindow,
};
use helpers::*;
use tombolo_hal::EngineAddr;
use tombolo_hal::dmaengine::{
    BusWidth, Direction, DmaChannel, HeapPool, InterleavedTemplate, NoSpace, PrepFlags, SgEntry, SlaveConfig,
    Unsupported,
};
use tombolo_hal::fake::FakeMmio;
use tombolo_hal::lock::SpinLock;
use tombolo_hal::mmio::{Mmio, Window};
use tombolo_sim::dw_edma::{DwEdma, Params};
use tombolo_sim::fabric::{Fabric, MachineConfig};

const FLAGS: PrepFlags = PrepFlags::INTERRUPT;

fn other(direction: Direction) -> Direction {
    match direction {
        Direction::MemToDev => Direction::DevToMem,
        Direction::DevToMem => Direction::MemToDev,
    }
}

/// `call` fails with `error`, touches no register, and takes nothing from the pool.
#[track_caller]
fn refuses<T>(rig: &Rig, ch: &mut Chan, error: Error, call: impl FnOnce(&mut Chan) -> Result<T, Error>) {
    let sticky = ch.configuration();
    rig.fabric.set_trace(64);
    let got = call(ch).err();
    assert_eq!(got, Some(error));
    assert_eq!(rig.fabric.take_trace(), [], "{error}: no access");
    assert_eq!(ch.configuration(), sticky, "{error}: the configuration is as it was");
    // The whole pool is still free: all its segments fit into one descriptor, and it has two.
    let all = vec![raw(0x1000, 8); ch.caps().max_segments - 1];
    let config = SlaveConfig::at(EngineAddr::new(0x8000_0000));
    let direction = ch.direction();
    let a = ch.prep_slave_sg_config(&all, direction, FLAGS, Some(&config)).expect("space");
    let b = ch.prep_slave_sg_config(&all[..1], direction, FLAGS, Some(&config)).expect("space");
    ch.discard(a);
    ch.discard(b);
}

#[test]
fn transfers_that_cannot_be_are_refused_and_change_nothing() {
    for (format, location) in everywhere() {
        let mut rig = rig(format, location, Irqs::One);
        let id = one_of_each()[0];
        let mut ch = rig.open_with(id, 0x400, 2, 16);
        let direction = ch.direction();
        let at = |address| SlaveConfig::<Peripheral>::at(EngineAddr::new(address));
        let good = at(0x8000_0000);
        let prep = |ch: &mut Chan, sg: &[SgEntry], config: &SlaveConfig<Peripheral>| {
            ch.prep_slave_sg_config(sg, ch.direction(), FLAGS, Some(config))
        };
        let ok = raw(0x1000, 64);

        refuses(&rig, &mut ch, Error::NotConfigured, |ch| ch.prep_slave_sg(&[ok], direction, FLAGS));
        refuses(&rig, &mut ch, Error::NotConfigured, |ch| ch.prep_dma_cyclic(ok, 8, direction, FLAGS));
        ch.configure(&at(0x9000_0000)).unwrap();
        refuses(&rig, &mut ch, Error::Empty { segment: 0 }, |ch| prep(ch, &[], &good));
        refuses(&rig, &mut ch, Error::Empty { segment: 1 }, |ch| prep(ch, &[ok, raw(0x1000, 0), ok], &good));
        let max = u64::from(u32::MAX);
        refuses(&rig, &mut ch, Error::TooLong { segment: 1, len: max + 1, max }, |ch| {
            prep(ch, &[ok, raw(0, max + 1)], &good)
        });
        refuses(&rig, &mut ch, Error::AddressOverflow { segment: 1 }, |ch| {
            prep(ch, &[ok, raw(u64::MAX - 62, 64)], &good)
        });
        refuses(&rig, &mut ch, Error::AddressOverflow { segment: 0 }, |ch| {
            prep(ch, &[ok], &at(u64::MAX - 62))
        });
        refuses(
            &rig,
            &mut ch,
            Error::WrongDirection { channel: id, able: direction, asked: other(direction) },
            |ch| ch.prep_slave_sg_config(&[ok], other(direction), FLAGS, Some(&good)),
        );
        let words = SlaveConfig { addr_width: BusWidth::Bytes4, ..good };
        let misaligned = |segment, what, value| Error::Misaligned { segment, what, value, align: 4 };
        refuses(&rig, &mut ch, misaligned(1, "address", 0x1002), |ch| {
            prep(ch, &[ok, raw(0x1002, 4)], &words)
        });
        refuses(&rig, &mut ch, misaligned(0, "length", 6), |ch| prep(ch, &[raw(0x1000, 6)], &words));
        let odd = SlaveConfig { addr_width: BusWidth::Bytes4, ..at(0x8000_0001) };
        refuses(&rig, &mut ch, misaligned(0, "address", 0x8000_0001), |ch| prep(ch, &[ok], &odd));
        let too_many = NoSpace { what: "segments", needed: 17, available: 16 };
        refuses(&rig, &mut ch, Error::NoSpace(too_many), |ch| prep(ch, &[ok; 17], &good));

        let cyclic =
            |ch: &mut Chan, len, period| ch.prep_dma_cyclic(raw(0x1000, len), period, direction, FLAGS);
        refuses(&rig, &mut ch, Error::Empty { segment: 0 }, |ch| cyclic(ch, 0, 8));
        refuses(&rig, &mut ch, Error::BadPeriod { buffer: 64, period: 0 }, |ch| cyclic(ch, 64, 0));
        refuses(&rig, &mut ch, Error::BadPeriod { buffer: 64, period: 24 }, |ch| cyclic(ch, 64, 24));
        let len = 2 * (max + 1);
        refuses(&rig, &mut ch, Error::TooLong { segment: 0, len: max + 1, max }, |ch| {
            cyclic(ch, len, max + 1)
        });
        refuses(&rig, &mut ch, Error::NoSpace(too_many), |ch| cyclic(ch, 17 * 8, 8));
        refuses(&rig, &mut ch, Error::AddressOverflow { segment: 0 }, |ch| {
            ch.prep_dma_cyclic(raw(u64::MAX - 62, 64), 8, direction, FLAGS)
        });

        refuses(&rig, &mut ch, Unsupported("memory-to-memory transfers").into(), |ch| {
            ch.prep_dma_memcpy(ok, ok, FLAGS)
        });
        let template = InterleavedTemplate {
            memory: ok,
            device: EngineAddr::new(0),
            direction,
            size: 8,
            frames: 2,
            memory_gap: 0,
            device_gap: 0,
        };
        refuses(&rig, &mut ch, Unsupported("interleaved transfers").into(), |ch| {
            ch.prep_interleaved_dma(&template, FLAGS)
        });
        if format != Format::HdmaNative {
            let single = SlaveConfig { peripheral: Peripheral { mode: Some(Mode::NonList) }, ..good };
            let error: Error = Unsupported("transfers without a linked list").into();
            refuses(&rig, &mut ch, error, |ch| prep(ch, &[ok], &single));
            refuses(&rig, &mut ch, error, |ch| ch.configure(&single));
        }
        // All descriptors taken.
        let a = prep(&mut ch, &[ok], &good).unwrap();
        let b = prep(&mut ch, &[ok], &good).unwrap();
        let none = NoSpace { what: "descriptors", needed: 1, available: 0 };
        assert_eq!(prep(&mut ch, &[ok], &good), Err(Error::NoSpace(none)));
        // A foreign descriptor comes back.
        let mut stranger = rig.open_with(ChannelId::write(1), 0x400, 2, 16);
        let rejected = stranger.submit(a).unwrap_err();
        assert_eq!(rejected.error, Error::ForeignDescriptor);
        ch.discard(rejected.descriptor);
        ch.discard(b);
        assert_eq!(ch.stats().submitted, 0);
        assert_eq!(rig.handle.counters().total.doorbells, 0);
    }
}

#[test]
fn a_configuration_given_with_a_transfer_is_for_that_transfer_only() {
    for (format, location) in everywhere() {
        let mut rig = rig(format, location, Irqs::One);
        let mut ch = open(&mut rig, one_of_each()[1]);
        let sticky = rig.config(one_of_each()[1], 512);
        ch.configure(&sticky).unwrap();
        run(&rig, &mut ch, Plan::bytes(64).at(8192));
        assert_eq!(ch.channel().configuration(), Some(sticky));
    }
}

#[test]
fn memory_that_is_too_small_is_refused() {
    let small = FakeMmio::new(2 * 24);
    assert_eq!(
        ListMemory::new(&small, EngineAddr::new(0)).unwrap_err().error,
        ListError::TooSmall { size: 48, min: 72 }
    );
    for (format, location) in everywhere() {
        let mut rig = rig(format, location, Irqs::One);
        let id = ChannelId::write(0);
        for (descriptors, segments) in [(0, 4), (4, 0)] {
            let list = rig.list(id, 0x400);
            let error = rig.control.open_channel(id, list, HeapPool::new(descriptors, segments)).err();
            assert!(
                matches!(error, Some(Error::NoSpace(NoSpace { needed: 1, available: 0, .. }))),
                "{error:?}"
            );
        }
        // It is not open after that.
        let list = rig.list(id, 0x400);
        assert!(rig.control.open_channel(id, list, HeapPool::<Desc, Segment>::new(1, 1)).is_ok());
        let missing = ChannelId::read(2);
        let list = rig.list(id, 0x400);
        let error = rig.control.open_channel(missing, list, HeapPool::new(1, 1)).err();
        assert_eq!(error, Some(Error::NoSuchChannel(missing)));
        let other = ChannelId::write(1);
        let opened =
            rig.control.open_channel(other, ListMemory::none(), HeapPool::<Desc, Segment>::new(1, 1));
        match format {
            Format::HdmaNative => assert!(opened.is_ok()),
            _ => assert_eq!(opened.err(), Some(Error::List(ListError::Missing))),
        }
    }
}

fn registers(params: Params) -> Window<tombolo_sim::host::SimMmio> {
    let fabric = Fabric::new(1);
    let machine = fabric.machine(MachineConfig::default()).unwrap();
    let function = machine.attach(Box::new(DwEdma::new(params))).unwrap();
    function.enable();
    Window::new(function.mmio(0).unwrap())
}

#[test]
fn engines_that_are_not_as_the_caller_says_are_refused() {
    for format in Format::ALL {
        let io = registers(params(format, Location::Remote, 2, 3));
        let open = |config: Config| Shared::new(io.clone(), SpinLock::new(), config).err();
        let config = Config::new(format, Location::Remote);
        let available = if format == Format::HdmaNative { [64, 64] } else { [2, 3] };
        let too_many = |kind, wanted, available| Error::TooManyChannels { kind, wanted, available, format };
        assert_eq!(
            open(config.channels(65, 1)),
            Some(too_many(ChannelKind::Write, 65, available[0])),
            "{format}"
        );
        let reads = available[1] + 1;
        assert_eq!(open(config.channels(1, reads)), Some(too_many(ChannelKind::Read, reads, available[1])));
        assert_eq!(open(config.channels(0, 0)), Some(Error::NoChannels));
        let unknown = Error::ChannelCountUnknown { format };
        assert_eq!(open(config), (format == Format::HdmaNative).then_some(unknown));
        let max = if format == Format::HdmaNative { 255 } else { 31 };
        let function = |function| open(Config { function, ..config.channels(1, 1) });
        assert_eq!(function(max), None);
        if max < 255 {
            let function_number = Error::FunctionNumber { function: max + 1, max, format };
            assert_eq!(function(max + 1), Some(function_number));
        }
        let short = io.clone().sub(0, 0x100).unwrap();
        let error = Shared::new(short, SpinLock::new(), config.channels(2, 2)).err();
        assert!(matches!(error, Some(Error::Registers(_))), "{format}: {error:?}");
    }
}

#[test]
fn an_engine_without_counts_is_used_with_all_the_channels_it_reports() {
    for format in [Format::Legacy, Format::Unroll, Format::HdmaCompat] {
        let io = registers(params(format, Location::Remote, 5, 3));
        let shared = Shared::new(io, SpinLock::new(), Config::new(format, Location::Remote)).unwrap();
        assert_eq!(ChannelKind::ALL.map(|kind| shared.channel_count(kind)), [5, 3]);
    }
}

#[test]
fn the_function_number_is_in_the_engines_requests() {
    for format in Format::ALL {
        let mut rig =
            Rig::try_new(params(format, Location::Local, 1, 1), Location::Local, Irqs::One, 1, |c| Config {
                function: 5,
                ..c
            })
            .unwrap();
        let mut ch = open(&mut rig, ChannelId::write(0));
        run(&rig, &mut ch, Plan::bytes(8));
        let got = match format {
            Format::HdmaNative => register(&rig, 0x38),
            Format::Legacy => {
                set_register(&rig, 0xfc, 0);
                register(&rig, 0x100) >> 12 & 31
            }
            _ => register(&rig, 0x200) >> 12 & 31,
        };
        assert_eq!(got, 5, "{format}");
    }
}

#[test]
fn device_addresses_go_through_the_translation_windows_or_are_refused() {
    for format in Format::ALL {
        let base = 0x12_0000_0000;
        let window = TranslationWindow { from: base, size: 0x2000, to: 0x8000_0000 };
        let translation = Translation::windows([None, Some(window), None, None]);
        let params = params(format, Location::Local, 1, 1);
        let mut rig =
            Rig::try_new(params, Location::Local, Irqs::One, 1, |c| Config { translation, ..c }).unwrap();
        let id = ChannelId::read(0);
        let mut ch = rig.owned(id);
        let data = pattern(3, 0x300);
        rig.handle.memory().write(0x1d00, &data).unwrap();
        let at = |address| SlaveConfig::at(EngineAddr::new(address));
        let buffer = rig.prepare(vec![0; 0x300], Direction::DevToMem);
        ch.submit_one(buffer, Direction::DevToMem, FLAGS, Some(&at(base + 0x1d00))).unwrap();
        ch.issue_pending();
        let done = wait(&mut rig, &mut ch);
        assert!(done.buffers.into_iter().next().unwrap().into_inner() == data, "{format}");
        let mut channel = ch.into_channel().map_err(|_| "idle").unwrap();
        for (address, len) in [(base + 0x1d01, 0x300), (base - 1, 1), (0x8000_0000, 4)] {
            let untranslated = Error::Untranslated { address, len };
            let prep = channel.prep_slave_sg_config(
                &[raw(0x1000, len)],
                Direction::DevToMem,
                FLAGS,
                Some(&at(address)),
            );
            assert_eq!(prep, Err(untranslated), "{format}");
        }
    }
}

#[test]
fn what_a_channel_can_do_is_told() {
    for (format, location) in everywhere() {
        let mut rig = rig(format, location, Irqs::One);
        for id in one_of_each() {
            let ch = rig.open_with(id, 0x400, 3, 17);
            let caps = ch.caps();
            assert_eq!((caps.mem_to_dev, caps.dev_to_mem), {
                let out = ch.direction() == Direction::MemToDev;
                (out, !out)
            });
            assert_eq!((caps.cyclic, caps.memcpy, caps.interleaved), (true, false, false));
            assert_eq!((caps.max_segment, caps.max_segments, caps.align), (u64::from(u32::MAX), 17, 1));
        }
    }
    assert_eq!(NoList.size(), 0);
}
